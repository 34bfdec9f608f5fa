// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wine

import (
	"fmt"
	"strings"

	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// change is one edit of HKEY_LOCAL_MACHINE. Name nil of values: the key is
// made, or with remove taken away together with everything below it.
type change struct {
	key    string
	remove bool
	values []value
}

type value struct {
	name string
	data any // see hiveKey.set; nil takes the value away
}

const (
	currentVersion = `Software\Microsoft\Windows NT\CurrentVersion`
	currentControl = `System\CurrentControlSet\Control`
	services       = `System\CurrentControlSet\Services`
)

// buildChanges describes the registry of a Windows build.
//
// Sources for the names: k8s.io/kubernetes/pkg/kubelet/winstats (version.go,
// perfcounter_nodestats_windows.go), github.com/Microsoft/hcsshim/osversion,
// and Microsoft's documentation of each value.
func buildChanges(b winver.Build) []change {
	number := fmt.Sprint(b.Number)
	version := []value{
		{"CurrentBuild", number},
		{"CurrentBuildNumber", number},
		{"CurrentMajorVersionNumber", uint32(10)},
		{"CurrentMinorVersionNumber", uint32(0)},
		{"CurrentVersion", "6.3"}, // frozen there since Windows 8.1
		{"CurrentType", "Multiprocessor Free"},
		{"CSDVersion", nil}, // service packs ended with Windows 7
		{"UBR", uint32(b.UBR)},
		{"ProductName", b.ProductName},
		{"ReleaseId", releaseID(b)},
		{"EditionID", "ServerDatacenter"},
		{"InstallationType", "Server Core"},
		{"BuildBranch", b.Branch},
		{"BuildLab", number + "." + b.Branch},
		{"BuildLabEx", fmt.Sprintf("%s.1.amd64fre.%s", number, b.Branch)},
		{"SoftwareType", "System"},
		{"SystemRoot", `C:\Windows`},
		{"PathName", `C:\Windows`},
		{"RegisteredOwner", "Windows User"},
		{"RegisteredOrganization", ""},
		{"ProductId", "00430-00000-00000-AA000"},
	}
	if b.Number >= 19042 { // the name came with 20H2
		version = append(version, value{"DisplayVersion", b.Version})
	}
	return []change{
		{key: currentVersion, values: version},
		{key: currentVersion + `\Server\ServerLevels`, values: []value{
			{"ServerCore", uint32(1)}, {"NanoServer", uint32(0)}, {"Server-Gui-Mgmt", uint32(0)},
			{"Server-Gui-Shell", uint32(0)},
		}},
		// Makes RtlGetVersion report a server or a workstation.
		{key: currentControl + `\ProductOptions`, values: []value{{"ProductType", "ServerNT"}}},
		// 0x100: the value that GetVersionEx takes for a service pack; 0 here.
		{key: currentControl + `\Windows`, values: []value{{"CSDVersion", uint32(0)}}},
		// Wine's debugger. Without the key Wine would start it too, but for winemend.dll (crash.c).
		{key: currentVersion + `\AeDebug`, remove: true},
		{key: `System\Select`, values: []value{
			{"Current", uint32(1)}, {"Default", uint32(1)}, {"Failed", uint32(0)}, {"LastKnownGood", uint32(1)},
		}},
	}
}

// releaseID: the value stopped changing at 2009 when DisplayVersion came.
func releaseID(b winver.Build) string {
	if b.Number >= 19042 {
		return "2009"
	}
	return b.Version
}

// tcpipChanges are keys that programs read network settings from and that
// Wine lacks.
func tcpipChanges() []change {
	return []change{
		{key: services + `\Tcpip\Parameters`, values: []value{{"SearchList", ""}, {"Domain", ""}, {"NV Domain", ""}}},
		{key: services + `\Tcpip\Parameters\Interfaces`},
		{key: services + `\Tcpip6\Parameters`},
		{key: services + `\Dnscache\Parameters`},
	}
}

// startDisabled is SERVICE_DISABLED, a value of a service's Start (winsvc.h).
const startDisabled = uint32(4)

// idleServices are services of Wine that only desktops and devices need, and the
// event log, which keeps no events.
func idleServices() []string {
	return []string{
		"BITS", "Eventlog", "FontCache", "FontCache3.0.0.0", "HTTP", "LanmanServer", "MSIServer", "NDIS", "PlugPlay",
		"Schedule", "Spooler", "StiSvc", "TermService", "winebus", "winehid", "wineusb", "wuauserv",
	}
}

// hostChanges describes the changes of a host relative to its build.
func hostChanges() []change {
	changes := append(tcpipChanges(),
		// The kubelet reads its machine's and boot's identity here.
		change{key: `System\HardwareConfig`, values: []value{{"LastConfig", "{6d756c6c-696f-6e00-8000-000000000000}"}}},
		change{
			key:    currentControl + `\Session Manager\Memory Management\PrefetchParameters`,
			values: []value{{"BootId", uint32(1)}},
		},
		// mullion.exe's and others' services: SCM waits 30 s for a start by
		// default, as Windows does.
		change{key: currentControl, values: []value{{"WaitToKillServiceTimeout", "20000"}}},
	)
	return append(changes, disableServices(idleServices())...)
}

// containerChanges describes the changes of a container relative to its build. No
// service starts by itself, so that a container's first program does not wait for
// any.
func containerChanges() []change {
	return append(tcpipChanges(), disableServices(append(idleServices(), "Winmgmt"))...)
}

func disableServices(names []string) []change {
	var changes []change
	for _, n := range names {
		changes = append(changes, change{key: services + `\` + n, values: []value{{"Start", startDisabled}}})
	}
	return changes
}

// apply makes the changes in the hive of HKEY_LOCAL_MACHINE.
func (h *hive) apply(changes []change) {
	for _, c := range changes {
		if c.remove {
			h.remove(c.key)
			continue
		}
		k := h.key(c.key)
		for _, v := range c.values {
			if v.data == nil {
				k.unset(v.name)
			} else {
				k.set(v.name, v.data)
			}
		}
	}
}

// renameUser gives the account of a prefix another name in a hive's text.
func renameUser(data []byte, from, to string) []byte {
	return []byte(strings.NewReplacer(
		`C:\\users\\`+from, `C:\\users\\`+to,
		`"`+from+`"`, `"`+to+`"`,
	).Replace(string(data)))
}

// moveProfile gives the account of a prefix another profile in a hive's text.
func moveProfile(data []byte, profile string) []byte {
	escape := func(path string) string { return strings.ReplaceAll(path, `\`, `\\`) }
	return []byte(strings.ReplaceAll(string(data), escape(`C:\users\`+hostUser), escape(profile)))
}
