// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

type system struct{}

// NewSystem returns the System of the Windows that the program runs on.
func NewSystem() System { return system{} }

// Hostname returns the DNS name in its own spelling; %COMPUTERNAME% is in capitals.
func (system) Hostname() (string, error) { return os.Hostname() }

// OS reads what the registry says about the product.
func (system) OS() (OSInfo, error) {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, `SOFTWARE\Microsoft\Windows NT\CurrentVersion`,
		registry.QUERY_VALUE)
	if err != nil {
		return OSInfo{}, fmt.Errorf("read version: %w", err)
	}
	defer k.Close() // opened for reading
	product, _, err := k.GetStringValue("ProductName")
	if err != nil {
		return OSInfo{}, fmt.Errorf("read version: %w", err)
	}
	build, _, err := k.GetStringValue("CurrentBuildNumber")
	if err != nil {
		return OSInfo{}, fmt.Errorf("read version: %w", err)
	}
	var mem memoryStatus
	mem.length = uint32(unsafe.Sizeof(mem))
	// Without an answer the memory is shown as zero.
	_, _, _ = windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx").Call(
		uintptr(unsafe.Pointer(&mem)))
	return OSInfo{
		Product: "Microsoft " + product,
		Version: "10.0." + build,
		Memory:  mem.totalPhys,
		CPUs:    runtime.NumCPU(),
	}, nil
}

// memoryStatus is MEMORYSTATUSEX of sysinfoapi.h.
type memoryStatus struct {
	length, load                                     uint32
	totalPhys, availPhys, totalPageFile, availPage   uint64
	totalVirtual, availVirtual, availExtendedVirtual uint64
}

// Network asks the IP helper and the resolver.
func (s system) Network() (Network, error) {
	n := Network{}
	n.Host, _ = s.Hostname() // on an error an empty name is shown
	if k, err := registry.OpenKey(registry.LOCAL_MACHINE, `SYSTEM\CurrentControlSet\Services\Tcpip\Parameters`,
		registry.QUERY_VALUE); err == nil {
		n.Primary, _, _ = k.GetStringValue("Domain") // absent is empty
		if list, _, err := k.GetStringValue("SearchList"); err == nil && list != "" {
			n.SearchList = strings.Split(list, ",")
		}
		_ = k.Close() // opened for reading
	}
	var err error
	if n.Adapters, err = adapters(); err != nil {
		return Network{}, err
	}
	routes, err := s.Routes6()
	if err != nil {
		return Network{}, err
	}
	addGateways(n.Adapters, routes)
	if len(n.SearchList) == 0 {
		n.SearchList = resolverSuffixes()
	}
	return n, nil
}

// configSearchList is DnsConfigSearchList of windns.h. Windows does not answer it,
// and has the list in the registry; Wine answers with the list of its resolver.
const configSearchList = 7

// resolverSuffixes returns the resolver's list of suffixes; none if it does not tell.
func resolverSuffixes() []string {
	query := windows.NewLazySystemDLL("dnsapi.dll").NewProc("DnsQueryConfig")
	list := make([]uint16, 4096) // Linux keeps at most 1024 bytes of them
	size := uint32(2 * len(list))
	status, _, _ := query.Call(configSearchList, 0, 0, 0,
		uintptr(unsafe.Pointer(&list[0])), uintptr(unsafe.Pointer(&size)))
	if status != 0 {
		return nil
	}
	list = list[:min(int(size)/2, len(list))]
	return strings.FieldsFunc(string(utf16.Decode(list)), func(r rune) bool { return r == 0 })
}

func adapters() ([]Adapter, error) {
	var out []Adapter
	err := eachAdapter(func(a *windows.IpAdapterAddresses) {
		// ipconfig does not show it.
		if a.IfType != windows.IF_TYPE_SOFTWARE_LOOPBACK {
			out = append(out, adapter(a))
		}
	})
	return out, err
}

// descriptions returns the adapters' descriptions, by index.
func descriptions() (map[int]string, error) {
	out := map[int]string{}
	err := eachAdapter(func(a *windows.IpAdapterAddresses) {
		out[int(max(a.IfIndex, a.Ipv6IfIndex))] = windows.UTF16PtrToString(a.Description)
	})
	return out, err
}

// eachAdapter calls f with each adapter of the computer.
func eachAdapter(f func(*windows.IpAdapterAddresses)) error {
	const flags = windows.GAA_FLAG_INCLUDE_GATEWAYS
	// Microsoft's documentation advises to begin with 15 KiB.
	size := uint32(15 << 10)
	for {
		buf := make([]byte, size)
		first := (*windows.IpAdapterAddresses)(unsafe.Pointer(&buf[0]))
		err := windows.GetAdaptersAddresses(windows.AF_UNSPEC, flags, 0, first, &size)
		if err == windows.ERROR_BUFFER_OVERFLOW && int(size) > len(buf) {
			continue
		}
		if err == windows.ERROR_NO_DATA {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list adapters: %w", err)
		}
		for a := first; a != nil; a = a.Next {
			f(a)
		}
		return nil
	}
}

func adapter(a *windows.IpAdapterAddresses) Adapter {
	out := Adapter{
		Name:        windows.UTF16PtrToString(a.FriendlyName),
		Description: windows.UTF16PtrToString(a.Description),
		Suffix:      windows.UTF16PtrToString(a.DnsSuffix),
		Zone:        int(max(a.IfIndex, a.Ipv6IfIndex)), // Windows has one for both
		Up:          a.OperStatus == windows.IfOperStatusUp,
		DHCP:        a.Flags&0x4 != 0, // IP_ADAPTER_DHCP_ENABLED
	}
	mac := net.HardwareAddr(a.PhysicalAddress[:a.PhysicalAddressLength]).String()
	out.MAC = strings.ToUpper(strings.ReplaceAll(mac, ":", "-"))
	for u := a.FirstUnicastAddress; u != nil; u = u.Next {
		if ip, ok := address(u.Address.IP()); ok {
			out.Addresses = append(out.Addresses, netip.PrefixFrom(ip, int(u.OnLinkPrefixLength)))
		}
	}
	for g := a.FirstGatewayAddress; g != nil; g = g.Next {
		if ip, ok := address(g.Address.IP()); ok {
			out.Gateways = append(out.Gateways, ip)
		}
	}
	for d := a.FirstDnsServerAddress; d != nil; d = d.Next {
		if ip, ok := address(d.Address.IP()); ok {
			out.DNS = append(out.DNS, ip)
		}
	}
	return out
}

func address(ip net.IP) (netip.Addr, bool) {
	a, ok := netip.AddrFromSlice(ip)
	return a.Unmap(), ok
}

// Processes takes a snapshot.
func (system) Processes() ([]Process, error) {
	snap, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer windows.CloseHandle(snap) // opened for reading
	var out []Process
	e := windows.ProcessEntry32{Size: uint32(unsafe.Sizeof(windows.ProcessEntry32{}))}
	for err = windows.Process32First(snap, &e); err == nil; err = windows.Process32Next(snap, &e) {
		out = append(out, Process{Name: windows.UTF16ToString(e.ExeFile[:]), PID: int(e.ProcessID),
			Memory: workingSet(e.ProcessID)})
	}
	if err != windows.ERROR_NO_MORE_FILES {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	return out, nil
}

// memoryCounters is PROCESS_MEMORY_COUNTERS of psapi.h.
type memoryCounters struct {
	cb, pageFaults                   uint32
	peakWorkingSet, workingSet       uintptr
	quotaPeakPaged, quotaPaged       uintptr
	quotaPeakNonPaged, quotaNonPaged uintptr
	pagefileUsage, peakPagefileUsage uintptr
}

func workingSet(pid uint32) uint64 {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, pid)
	if err != nil {
		return 0
	}
	defer windows.CloseHandle(h) // opened for reading
	var c memoryCounters
	c.cb = uint32(unsafe.Sizeof(c))
	ok, _, _ := windows.NewLazySystemDLL("kernel32.dll").NewProc("K32GetProcessMemoryInfo").Call(uintptr(h),
		uintptr(unsafe.Pointer(&c)), uintptr(c.cb))
	if ok == 0 {
		return 0
	}
	return uint64(c.workingSet)
}
