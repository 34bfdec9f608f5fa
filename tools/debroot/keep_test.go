// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import "testing"

// TestKeepsModules lists modules that server programs import or that Wine itself needs.
func TestKeepsModules(t *testing.T) {
	for _, name := range []string{
		"kernel32.dll", "dnsapi.dll", "dhcpcsvc.dll", "iphlpapi.dll", "user32.dll", "gdi32.dll", "winhttp.dll",
		"wininet.dll", "msvcrt.dll", "ucrtbase.dll", "vcruntime140.dll", "msvcp140.dll", "bcrypt.dll", "crypt32.dll",
		"rpcrt4.dll", "ole32.dll", "services.exe", "sc.exe", "cmd.exe", "net.exe", "reg.exe", "netsh.exe", "ping.exe",
		"taskkill.exe", "svchost.exe", "conhost.exe", "nsiproxy.sys", "mountmgr.sys", "winedevice.exe", "plugplay.exe",
		"rpcss.exe", "setupapi.dll", "dbghelp.dll",
	} {
		if place(pePath+"/"+name) == "" {
			t.Errorf("%s is left out", name)
		}
	}
}
