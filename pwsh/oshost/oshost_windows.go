// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package oshost

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"

	"github.com/mullion-k8s/mullion/pwsh/host"
)

// prepare quotes the command line. cmd.exe takes its arguments as they are:
// it doesn't support the quoting of the C runtime.
// Source: https://learn.microsoft.com/cpp/c-language/parsing-c-command-line-arguments, read 2026-11.
func prepare(cmd *exec.Cmd, p host.Process) {
	base := strings.ToLower(filepath.Base(p.Path))
	if base == "cmd.exe" || strings.HasSuffix(base, ".bat") || strings.HasSuffix(base, ".cmd") {
		parts := make([]string, 0, len(p.Args)+1)
		parts = append(parts, `"`+p.Path+`"`)
		for _, a := range p.Args {
			if a == "" || strings.ContainsAny(a, " \t") && !strings.Contains(a, `"`) {
				a = `"` + a + `"`
			}
			parts = append(parts, a)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: strings.Join(parts, " ")}
	}
}

func drives() []string {
	mask, err := windows.GetLogicalDrives()
	if err != nil {
		return []string{`C:\`}
	}
	var out []string
	for i := range 26 {
		if mask&(1<<i) != 0 {
			out = append(out, string(rune('A'+i))+`:\`)
		}
	}
	return out
}

// Adapters lists the interfaces with one call of GetAdaptersAddresses: package
// net makes one for each interface, and under Wine each takes milliseconds.
func (network) Adapters(context.Context) ([]host.Adapter, error) {
	size := uint32(15000) // Microsoft's own recommendation for the first try
	var buf []byte
	for {
		buf = make([]byte, size)
		const flags = windows.GAA_FLAG_INCLUDE_GATEWAYS | windows.GAA_FLAG_SKIP_ANYCAST |
			windows.GAA_FLAG_SKIP_MULTICAST
		err := windows.GetAdaptersAddresses(windows.AF_UNSPEC, flags, 0,
			(*windows.IpAdapterAddresses)(unsafe.Pointer(&buf[0])), &size)
		if err == nil {
			break
		}
		if !errors.Is(err, windows.ERROR_BUFFER_OVERFLOW) || size <= uint32(len(buf)) {
			return nil, fmt.Errorf("list network adapters: %w", err)
		}
	}
	var out []host.Adapter
	for a := (*windows.IpAdapterAddresses)(unsafe.Pointer(&buf[0])); a != nil; a = a.Next {
		out = append(out, adapter(a))
	}
	return out, nil
}

func adapter(a *windows.IpAdapterAddresses) host.Adapter {
	x := host.Adapter{
		Index:       int(a.IfIndex),
		Name:        windows.UTF16PtrToString(a.FriendlyName),
		Description: windows.UTF16PtrToString(a.Description),
		MTU:         int(a.Mtu),
		Up:          a.OperStatus == windows.IfOperStatusUp,
		Loopback:    a.IfType == windows.IF_TYPE_SOFTWARE_LOOPBACK,
		BitsPerSec:  int64(a.TransmitLinkSpeed),
		Suffix:      windows.UTF16PtrToString(a.DnsSuffix),
		DHCP:        a.Flags&0x4 != 0, // IP_ADAPTER_DHCP_ENABLED, iptypes.h
	}
	if x.Index == 0 {
		x.Index = int(a.Ipv6IfIndex)
	}
	if x.BitsPerSec <= 0 || x.BitsPerSec == int64(^uint64(0)>>1) {
		x.BitsPerSec = defaultSpeed // Wine doesn't report the speed
	}
	for i := range min(a.PhysicalAddressLength, uint32(len(a.PhysicalAddress))) {
		if i > 0 {
			x.MAC += "-"
		}
		x.MAC += fmt.Sprintf("%02X", a.PhysicalAddress[i])
	}
	for u := a.FirstUnicastAddress; u != nil; u = u.Next {
		if addr, ok := netip.AddrFromSlice(u.Address.IP()); ok {
			addr = addr.Unmap()
			x.Addresses = append(x.Addresses, netip.PrefixFrom(addr, min(int(u.OnLinkPrefixLength), addr.BitLen())))
		}
	}
	for g := a.FirstGatewayAddress; g != nil; g = g.Next {
		if addr, ok := netip.AddrFromSlice(g.Address.IP()); ok {
			x.Gateways = append(x.Gateways, addr.Unmap())
		}
	}
	for s := a.FirstDnsServerAddress; s != nil; s = s.Next {
		if addr, ok := netip.AddrFromSlice(s.Address.IP()); ok {
			x.DNS = append(x.DNS, addr.Unmap())
		}
	}
	return x
}

func (system) OSVersion() string {
	v := windows.RtlGetVersion()
	return fmt.Sprintf("%d.%d.%d.0", v.MajorVersion, v.MinorVersion, v.BuildNumber)
}

// UserName returns the result of GetUserName, as .NET does; USERNAME may differ.
func (s system) UserName() string {
	id, err := s.Identity()
	if err != nil {
		return os.Getenv("USERNAME")
	}
	return id.Name[strings.LastIndexByte(id.Name, '\\')+1:]
}

// sidTypes are SID_NAME_USE of winnt.h in whoami.exe's words.
func sidTypes() map[uint32]string {
	return map[uint32]string{
		windows.SidTypeUser: "User", windows.SidTypeGroup: "Group", windows.SidTypeAlias: "Alias",
		windows.SidTypeWellKnownGroup: "Well-known group", windows.SidTypeLabel: "Label",
	}
}

// Identity reads the process's token.
func (system) Identity() (host.Identity, error) {
	token := windows.GetCurrentProcessToken()
	user, err := token.GetTokenUser()
	if err != nil {
		return host.Identity{}, fmt.Errorf("read token: %w", err)
	}
	name := func(sid *windows.SID) (name, kind string) {
		account, domain, use, err := sid.LookupAccount("")
		if err != nil || domain == "" {
			return account, sidTypes()[use]
		}
		return domain + `\` + account, sidTypes()[use]
	}
	id := host.Identity{SID: user.User.Sid.String()}
	id.Name, _ = name(user.User.Sid)
	groups, err := token.GetTokenGroups()
	if err != nil {
		return id, fmt.Errorf("read token: %w", err)
	}
	for _, g := range groups.AllGroups() {
		group := host.IdentityGroup{SID: g.Sid.String(), Attributes: g.Attributes}
		group.Name, group.Type = name(g.Sid)
		id.Groups = append(id.Groups, group)
	}
	id.Privileges, err = privileges(token)
	return id, err
}

func privileges(token windows.Token) ([]host.Privilege, error) {
	buf := make([]byte, 4096) // 36 privileges of 12 bytes
	var n uint32
	if err := windows.GetTokenInformation(token, windows.TokenPrivileges, &buf[0], uint32(len(buf)), &n); err != nil {
		return nil, fmt.Errorf("read token: %w", err)
	}
	lookup := windows.NewLazySystemDLL("advapi32.dll").NewProc("LookupPrivilegeNameW")
	var out []host.Privilege
	for _, p := range (*windows.Tokenprivileges)(unsafe.Pointer(&buf[0])).AllPrivileges() {
		name := make([]uint16, 256)
		size := uint32(len(name))
		ok, _, _ := lookup.Call(0, uintptr(unsafe.Pointer(&p.Luid)), uintptr(unsafe.Pointer(&name[0])),
			uintptr(unsafe.Pointer(&size)))
		if ok != 0 {
			out = append(out, host.Privilege{Name: windows.UTF16ToString(name),
				Enabled: p.Attributes&windows.SE_PRIVILEGE_ENABLED != 0})
		}
	}
	return out, nil
}

// ConsoleSize queries the console behind standard output.
func (system) ConsoleSize() (width, height int, ok bool) {
	var info windows.ConsoleScreenBufferInfo
	if err := windows.GetConsoleScreenBufferInfo(windows.Handle(os.Stdout.Fd()), &info); err != nil {
		return 0, 0, false
	}
	return int(info.Window.Right-info.Window.Left) + 1, int(info.Window.Bottom-info.Window.Top) + 1, true
}

func (system) Memory() (total, free int64) {
	var m struct {
		length, load                                                                   uint32
		totalPhys, availPhys, totalPage, availPage, totalVirtual, availVirtual, availX uint64
	}
	m.length = uint32(unsafe.Sizeof(m))
	proc := windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")
	if r, _, _ := proc.Call(uintptr(unsafe.Pointer(&m))); r == 0 {
		return 0, 0
	}
	return int64(m.totalPhys), int64(m.availPhys)
}

func (system) BootTime() time.Time { return time.Now().Add(-windows.DurationSinceBoot()) }

func (system) Processes(context.Context) ([]host.ProcessInfo, error) {
	snap, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer windows.CloseHandle(snap) // best effort
	var e windows.ProcessEntry32
	e.Size = uint32(unsafe.Sizeof(e))
	var out []host.ProcessInfo
	for err = windows.Process32First(snap, &e); err == nil; err = windows.Process32Next(snap, &e) {
		name := windows.UTF16ToString(e.ExeFile[:])
		p := host.ProcessInfo{
			ID:      int(e.ProcessID),
			Parent:  int(e.ParentProcessID),
			Name:    strings.TrimSuffix(name, ".exe"),
			File:    name,
			Threads: int(e.Threads),
		}
		details(&p)
		out = append(out, p)
	}
	return out, nil
}

// details adds the fields that require an open handle of the process; access may be denied.
func details(p *host.ProcessInfo) {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(p.ID))
	if err != nil {
		return
	}
	defer windows.CloseHandle(h) // best effort
	buf := make([]uint16, windows.MAX_LONG_PATH)
	n := uint32(len(buf))
	if windows.QueryFullProcessImageName(h, 0, &buf[0], &n) == nil {
		p.Path = windows.UTF16ToString(buf[:n])
	}
	var created, exited, kernel, user windows.Filetime
	if windows.GetProcessTimes(h, &created, &exited, &kernel, &user) == nil {
		p.Started = time.Unix(0, created.Nanoseconds())
		ticks := func(f windows.Filetime) int64 { return int64(f.HighDateTime)<<32 | int64(f.LowDateTime) }
		p.CPU = time.Duration(ticks(kernel)+ticks(user)) * 100
	}
	var mem struct {
		cb, faults                                                                   uint32
		peakWS, ws, peakPaged, paged, peakNonPaged, nonPaged, pagefile, peakPagefile uintptr
	}
	mem.cb = uint32(unsafe.Sizeof(mem))
	proc := windows.NewLazySystemDLL("kernel32.dll").NewProc("K32GetProcessMemoryInfo")
	if proc.Find() == nil {
		if r, _, _ := proc.Call(uintptr(h), uintptr(unsafe.Pointer(&mem)), uintptr(mem.cb)); r != 0 {
			p.WorkingSet = int64(mem.ws)
		}
	}
}

func (system) Kill(_ context.Context, pid int) error {
	h, err := windows.OpenProcess(windows.PROCESS_TERMINATE, false, uint32(pid))
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h) // best effort
	return windows.TerminateProcess(h, 1)
}

var serviceStates = map[svc.State]string{svc.Stopped: "Stopped", svc.StartPending: "StartPending",
	svc.StopPending: "StopPending", svc.Running: "Running", svc.ContinuePending: "ContinuePending",
	svc.PausePending: "PausePending", svc.Paused: "Paused"}

func (system) Services(context.Context) ([]host.ServiceInfo, error) {
	m, err := mgr.Connect()
	if err != nil {
		return nil, err
	}
	defer m.Disconnect() // best effort
	names, err := m.ListServices()
	if err != nil {
		return nil, err
	}
	var out []host.ServiceInfo
	for _, n := range names {
		s, err := m.OpenService(n)
		if err != nil {
			continue // denied, or gone
		}
		info := host.ServiceInfo{Name: n, DisplayName: n}
		if st, err := s.Query(); err == nil {
			info.Status = serviceStates[st.State]
		}
		if c, err := s.Config(); err == nil {
			info.DisplayName = c.DisplayName
			info.StartType = map[uint32]string{mgr.StartAutomatic: "Automatic", mgr.StartManual: "Manual",
				mgr.StartDisabled: "Disabled"}[c.StartType]
		}
		_ = s.Close() // best effort
		out = append(out, info)
	}
	return out, nil
}

func (system) ControlService(ctx context.Context, name, verb string) error {
	m, err := mgr.Connect()
	if err != nil {
		return err
	}
	defer m.Disconnect() // best effort
	s, err := m.OpenService(name)
	if err != nil {
		return err
	}
	defer s.Close() // best effort
	if verb != "start" {
		if _, err := s.Control(svc.Stop); err != nil &&
			!(verb == "restart" && errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE)) {
			return err
		}
		if err := waitState(ctx, s, svc.Stopped); err != nil {
			return err
		}
	}
	if verb != "stop" {
		if err := s.Start(); err != nil {
			return err
		}
		return waitState(ctx, s, svc.Running)
	}
	return nil
}

// waitState polls, since the service manager offers no wait that Wine has.
func waitState(ctx context.Context, s *mgr.Service, want svc.State) error {
	const limit, every = 30 * time.Second, 100 * time.Millisecond // the limit is the service manager's own
	for range int(limit / every) {
		st, err := s.Query()
		if err != nil || st.State == want {
			return err
		}
		if err := sleep(ctx, every); err != nil {
			return err
		}
	}
	return fmt.Errorf("the service did not become %s", serviceStates[want])
}
