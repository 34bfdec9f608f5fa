// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"strings"
	"testing"
	"time"
)

// routerYAML is a host process container; the guides run flanneld.exe so.
const routerYAML = `
  containers:
  - name: main
    image: mcr.microsoft.com/windows/servercore:ltsc2019
    command: [powershell, -Command, "Write-Output started; Start-Sleep 1000"]
    resources: {limits: {memory: 512Mi}}`

// flannelRoutes are the lines that flannel v0.28.10 runs (pkg/routing, pkg/ip,
// pkg/powershell), in their order, each as a program of its own there.
const flannelRoutes = `$ErrorActionPreference = "Stop"
$i = (Get-NetRoute | Where { $_.DestinationPrefix -eq '0.0.0.0/0' } | Select-Object -Property ifIndex).ifIndex
$before = @(Get-NetRoute -InterfaceIndex $i -DestinationPrefix 255.255.255.255/32).Count
New-NetRoute -InterfaceIndex $i -DestinationPrefix 255.255.255.255/32 -NextHop  192.168.199.123 | Out-Null
@(Get-NetRoute -InterfaceIndex $i -DestinationPrefix 255.255.255.255/32).Count - $before
Remove-NetRoute -InterfaceIndex $i -DestinationPrefix 255.255.255.255/32 -NextHop 192.168.199.123 -Confirm:$false
@(Get-NetRoute -InterfaceIndex $i -DestinationPrefix 255.255.255.255/32).Count - $before
Set-NetIPInterface -ifIndex $i -AddressFamily IPv4 -Forwarding Enabled
ConvertTo-Json (Get-NetIPInterface -ifIndex $i -AddressFamily IPv4 | Select-Object -Property Forwarding) -Compress
Set-NetIPInterface -ifIndex $i -AddressFamily IPv4 -Forwarding Disabled`

// TestHostRoutes: programs of a host change its routes, those of a pod do not. It kills the host's services.
func TestHostRoutes(t *testing.T) {
	c := alone(t)
	ns := c.namespace(t)
	c.pod(t, ns, "router", hostProcess(`NT AUTHORITY\SYSTEM`)+routerYAML)
	c.pod(t, ns, "pod", onNode+routerYAML)
	c.ready(t, ns, "router")
	c.ready(t, ns, "pod")
	shell := func(pod, script string) string {
		t.Helper()
		out := c.exec(t, ns, pod, "powershell", "-NoProfile", "-Command", script)
		return strings.TrimSpace(strings.ReplaceAll(out, "\r", ""))
	}
	if got := shell("router", flannelRoutes); got != "1\n0\n{\"Forwarding\":1}" {
		t.Errorf("flannel's lines print %q", got)
	}
	const add = `$i = (Get-NetRoute -DestinationPrefix 0.0.0.0/0).ifIndex
New-NetRoute -InterfaceIndex $i -DestinationPrefix 10.77.0.0/16 -NextHop 192.0.2.1 -PolicyStore ActiveStore | Out-Null`
	const list = `@(Get-NetRoute | Where { $_.DestinationPrefix -eq '10.77.0.0/16' }).NextHop`
	out, err := c.kubectlErr(t.Context(), "exec", "-n", ns, "pod", "--", "powershell", "-NoProfile", "-Command", add)
	if err == nil || !strings.Contains(out+err.Error(), "Access is denied") {
		t.Errorf("a pod adds a route: %q, %v", out, err)
	}
	if got := shell("router", list); got != "" {
		t.Errorf("a pod's route is on the host: %q", got)
	}
	shell("router", add)
	if got := shell("router", list); got != "192.0.2.1" {
		t.Errorf("the host's route is by %q", got)
	}
	t.Run("the host's services are killed", func(t *testing.T) {
		c.kill(t, "winhost serve", "win-1", true)
		eventually(t, 20*time.Second, "the route", func() error {
			out, err := c.kubectlErr(t.Context(), "exec", "-n", ns, "router", "--",
				"powershell", "-NoProfile", "-Command", list)
			if err == nil && !strings.Contains(out, "192.0.2.1") {
				t.Fatalf("the route is gone: %q", out)
			}
			return err
		})
	})
	const row = "10.77.0.0      255.255.0.0        192.0.2.1"
	if got := shell("router", `cmd /c route print`); !strings.Contains(got, row) {
		t.Errorf("route print lacks the route:\n%s", got)
	}
	if got := shell("router", `cmd /c netsh interface ipv4 show route`); !strings.Contains(got, "10.77.0.0/16") {
		t.Errorf("netsh lacks the route:\n%s", got)
	}
	if got := shell("router", `@(Get-NetAdapter | Where { $_.Status -eq 'Up' }).Count`); got != "2" {
		t.Errorf("the host shows %s adapters, want its own and that of cbr0", got)
	}
	shell("router", `Remove-NetRoute -DestinationPrefix 10.77.0.0/16 -Confirm:$false`)
	if got := shell("router", list); got != "" {
		t.Errorf("a removed route is on the host: %q", got)
	}
}
