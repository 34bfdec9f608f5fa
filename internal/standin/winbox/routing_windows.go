// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

func (system) Routes() ([]Route, error)  { return routes(windows.AF_INET) }
func (system) Routes6() ([]Route, error) { return routes(windows.AF_INET6) }

func routes(family uint16) ([]Route, error) {
	var table *windows.MibIpForwardTable2
	err := windows.GetIpForwardTable2(family, &table)
	if family == windows.AF_INET6 && (err == windows.ERROR_NOT_FOUND || err == windows.ERROR_NOT_SUPPORTED) {
		return nil, nil // there is no IPv6
	}
	if err != nil {
		return nil, err
	}
	defer windows.FreeMibTable(unsafe.Pointer(table))
	var list []Route
	for _, r := range table.Rows() {
		list = append(list, Route{
			Index:       int(r.InterfaceIndex),
			Destination: netip.PrefixFrom(inet(&r.DestinationPrefix.Prefix), int(r.DestinationPrefix.PrefixLength)),
			NextHop:     inet(&r.NextHop),
			Metric:      int(r.Metric),
			Local:       r.Protocol == windows.MIB_IPPROTO_LOCAL,
		})
	}
	return list, nil
}

// inet returns an address without its zone.
func inet(a *windows.RawSockaddrInet) netip.Addr {
	if a.Family == windows.AF_INET6 {
		return netip.AddrFrom16((*windows.RawSockaddrInet6)(unsafe.Pointer(a)).Addr)
	}
	return netip.AddrFrom4((*windows.RawSockaddrInet4)(unsafe.Pointer(a)).Addr)
}

func setIPv4(to *windows.RawSockaddrInet, a netip.Addr) {
	to.Family = windows.AF_INET
	(*windows.RawSockaddrInet4)(unsafe.Pointer(to)).Addr = a.As4()
}

// callIPHelper calls a function of iphlpapi.dll that changes a row.
func callIPHelper(name string, row unsafe.Pointer) error {
	proc := windows.NewLazySystemDLL("iphlpapi.dll").NewProc(name)
	if err := proc.Find(); err != nil {
		return err
	}
	if r, _, _ := proc.Call(uintptr(row)); r != 0 {
		return windows.Errno(r)
	}
	return nil
}

func changeRoute(name string, r Route) error {
	row := windows.MibIpForwardRow2{
		InterfaceIndex:       uint32(r.Index),
		ValidLifetime:        ^uint32(0),
		PreferredLifetime:    ^uint32(0),
		Metric:               uint32(r.Metric),
		Protocol:             windows.MIB_IPPROTO_NETMGMT,
		AutoconfigureAddress: 1,
		Immortal:             1,
	}
	setIPv4(&row.DestinationPrefix.Prefix, r.Destination.Addr())
	row.DestinationPrefix.PrefixLength = uint8(r.Destination.Bits())
	setIPv4(&row.NextHop, r.NextHop)
	return callIPHelper(name, unsafe.Pointer(&row))
}

func (system) AddRoute(r Route) error    { return changeRoute("CreateIpForwardEntry2", r) }
func (system) DeleteRoute(r Route) error { return changeRoute("DeleteIpForwardEntry2", r) }

// Interfaces joins the adapters with the settings of IPv4 on them.
func (system) Interfaces() ([]Interface, error) {
	adapters, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	descriptions, err := descriptions()
	if err != nil {
		return nil, err
	}
	var list []Interface
	for _, a := range adapters {
		row := windows.MibIpInterfaceRow{Family: windows.AF_INET, InterfaceIndex: uint32(a.Index)}
		if windows.GetIpInterfaceEntry(&row) != nil {
			continue // IPv4 is not on it
		}
		i := Interface{
			Index:           a.Index,
			MTU:             int(row.NlMtu),
			Metric:          int(row.Metric),
			AutomaticMetric: row.UseAutomaticMetric != 0,
			Forwarding:      row.ForwardingEnabled != 0,
			WeakHostSend:    row.WeakHostSend != 0,
			WeakHostReceive: row.WeakHostReceive != 0,
			Name:            a.Name,
			Description:     descriptions[a.Index],
			MAC:             strings.ToLower(strings.ReplaceAll(a.HardwareAddr.String(), ":", " ")),
			Loopback:        a.Flags&net.FlagLoopback != 0,
		}
		addrs, err := a.Addrs()
		if err != nil {
			return nil, err
		}
		for _, addr := range addrs {
			if p, err := netip.ParsePrefix(addr.String()); err == nil && p.Addr().Is4() {
				i.Addresses = append(i.Addresses, p)
			}
		}
		list = append(list, i)
	}
	return list, nil
}

func (system) SetInterface(i Interface) error {
	row := windows.MibIpInterfaceRow{Family: windows.AF_INET, InterfaceIndex: uint32(i.Index)}
	if err := windows.GetIpInterfaceEntry(&row); err != nil {
		return err
	}
	for to, on := range map[*uint8]bool{
		&row.ForwardingEnabled: i.Forwarding, &row.WeakHostSend: i.WeakHostSend,
		&row.WeakHostReceive: i.WeakHostReceive, &row.UseAutomaticMetric: i.AutomaticMetric,
	} {
		*to = uint8(boolInt(on))
	}
	row.Metric, row.SitePrefixLength = uint32(i.Metric), 0 // must be 0 for IPv4
	return callIPHelper("SetIpInterfaceEntry", unsafe.Pointer(&row))
}

// persistentKey: https://learn.microsoft.com/windows-server/administration/windows-commands/route_ws2008, read 2026-11.
const persistentKey = `SYSTEM\CurrentControlSet\Services\Tcpip\Parameters\PersistentRoutes`

func (system) PersistentRoutes() ([]string, error) {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, persistentKey, registry.QUERY_VALUE)
	if errors.Is(err, registry.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer k.Close() // opened for reading
	return k.ReadValueNames(-1)
}

func (system) KeepRoute(name string) error {
	k, _, err := registry.CreateKey(registry.LOCAL_MACHINE, persistentKey, registry.SET_VALUE)
	if err != nil {
		return err
	}
	defer k.Close() // the value is written at once
	return k.SetStringValue(name, "")
}

func (system) ForgetRoute(name string) error {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, persistentKey, registry.SET_VALUE)
	if err != nil {
		return err
	}
	defer k.Close() // the value is removed at once
	return k.DeleteValue(name)
}
