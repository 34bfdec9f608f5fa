// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package oshost

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/mullion-k8s/mullion/pwsh/host"
)

// callRow calls one of the IP Helper functions that change a table; package
// windows has only the functions that read.
// Source: https://learn.microsoft.com/windows/win32/api/netioapi/, read 2026-11.
func callRow(name string, row unsafe.Pointer) error {
	proc := windows.NewLazySystemDLL("iphlpapi.dll").NewProc(name)
	if err := proc.Find(); err != nil {
		return err
	}
	r, _, _ := proc.Call(uintptr(row))
	switch err := windows.Errno(r); err {
	case 0:
		return nil
	case windows.ERROR_OBJECT_ALREADY_EXISTS:
		return fmt.Errorf("%w: %w", fs.ErrExist, err)
	case windows.ERROR_NOT_FOUND, windows.ERROR_FILE_NOT_FOUND:
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	default:
		return err // ERROR_ACCESS_DENIED is fs.ErrPermission
	}
}

func (n network) Routes(ctx context.Context) ([]host.Route, error) {
	out, err := forwardTable(windows.AF_UNSPEC)
	if err != nil {
		return nil, err
	}
	list, _ := n.Adapters(ctx) // absent names are left out
	for i := range out {
		for _, a := range list {
			if a.Index == out[i].Interface {
				out[i].Alias = a.Name
			}
		}
	}
	return out, nil
}

// forwardTable reads the table of a family, without the adapters' names.
func forwardTable(family uint16) ([]host.Route, error) {
	var table *windows.MibIpForwardTable2
	if err := windows.GetIpForwardTable2(family, &table); err != nil {
		return nil, fmt.Errorf("read routes: %w", err)
	}
	defer windows.FreeMibTable(unsafe.Pointer(table))
	var out []host.Route
	for _, r := range table.Rows() {
		destination, hop := address(&r.DestinationPrefix.Prefix), address(&r.NextHop)
		if !destination.IsValid() || !hop.IsValid() {
			continue
		}
		out = append(out, host.Route{
			Interface:   int(r.InterfaceIndex),
			Destination: netip.PrefixFrom(destination, int(r.DestinationPrefix.PrefixLength)),
			NextHop:     hop,
			Metric:      int(r.Metric),
			Local:       r.Protocol == windows.MIB_IPPROTO_LOCAL,
		})
	}
	return out, nil
}

// address reads a SOCKADDR_INET.
func address(a *windows.RawSockaddrInet) netip.Addr {
	switch a.Family {
	case windows.AF_INET:
		return netip.AddrFrom4((*windows.RawSockaddrInet4)(unsafe.Pointer(a)).Addr)
	case windows.AF_INET6:
		return netip.AddrFrom16((*windows.RawSockaddrInet6)(unsafe.Pointer(a)).Addr)
	}
	return netip.Addr{}
}

func setAddress(to *windows.RawSockaddrInet, a netip.Addr) {
	if a.Is4() {
		to.Family = windows.AF_INET
		(*windows.RawSockaddrInet4)(unsafe.Pointer(to)).Addr = a.As4()
		return
	}
	to.Family = windows.AF_INET6
	(*windows.RawSockaddrInet6)(unsafe.Pointer(to)).Addr = a.As16()
}

func forward(r host.Route) (*windows.MibIpForwardRow2, error) {
	if !r.Destination.IsValid() || !r.NextHop.IsValid() {
		return nil, errors.New("want a destination and a next hop")
	}
	row := &windows.MibIpForwardRow2{
		InterfaceIndex:       uint32(r.Interface),
		ValidLifetime:        ^uint32(0),
		PreferredLifetime:    ^uint32(0),
		Metric:               uint32(r.Metric),
		Protocol:             windows.MIB_IPPROTO_NETMGMT,
		AutoconfigureAddress: 1,
		Immortal:             1,
	}
	setAddress(&row.DestinationPrefix.Prefix, r.Destination.Addr())
	row.DestinationPrefix.PrefixLength = uint8(r.Destination.Bits())
	setAddress(&row.NextHop, r.NextHop)
	return row, nil
}

func (network) AddRoute(_ context.Context, r host.Route) error {
	row, err := forward(r)
	if err != nil {
		return err
	}
	return callRow("CreateIpForwardEntry2", unsafe.Pointer(row))
}

func (network) DeleteRoute(_ context.Context, r host.Route) error {
	row, err := forward(r)
	if err != nil {
		return err
	}
	return callRow("DeleteIpForwardEntry2", unsafe.Pointer(row))
}

func family(ipv6 bool) uint16 {
	if ipv6 {
		return windows.AF_INET6
	}
	return windows.AF_INET
}

// IPInterfaces queries each protocol of each adapter and omits disabled ones.
func (n network) IPInterfaces(ctx context.Context) ([]host.IPInterface, error) {
	list, err := n.Adapters(ctx)
	if err != nil {
		return nil, err
	}
	var out []host.IPInterface
	for _, a := range list {
		for _, ipv6 := range []bool{false, true} {
			row := windows.MibIpInterfaceRow{Family: family(ipv6), InterfaceIndex: uint32(a.Index)}
			if err := windows.GetIpInterfaceEntry(&row); err != nil {
				continue
			}
			out = append(out, host.IPInterface{
				Index:           a.Index,
				IPv6:            ipv6,
				MTU:             int(row.NlMtu),
				Metric:          int(row.Metric),
				AutomaticMetric: row.UseAutomaticMetric != 0,
				Forwarding:      row.ForwardingEnabled != 0,
				WeakHostSend:    row.WeakHostSend != 0,
				WeakHostReceive: row.WeakHostReceive != 0,
			})
		}
	}
	return out, nil
}

// SetIPInterface reads the entry and writes it back with the changes, as the
// documentation of SetIpInterfaceEntry advises.
func (network) SetIPInterface(_ context.Context, c host.IPInterfaceChange) error {
	row := windows.MibIpInterfaceRow{Family: family(c.IPv6), InterfaceIndex: uint32(c.Index)}
	if err := windows.GetIpInterfaceEntry(&row); err != nil {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	for _, field := range []struct {
		from *bool
		to   *uint8
	}{
		{c.AutomaticMetric, &row.UseAutomaticMetric}, {c.Forwarding, &row.ForwardingEnabled},
		{c.WeakHostSend, &row.WeakHostSend}, {c.WeakHostReceive, &row.WeakHostReceive},
	} {
		switch {
		case field.from == nil:
		case *field.from:
			*field.to = 1
		default:
			*field.to = 0
		}
	}
	if c.Metric != nil {
		row.Metric, row.UseAutomaticMetric = uint32(*c.Metric), 0
	}
	if !c.IPv6 {
		row.SitePrefixLength = 0 // must be 0 for IPv4
	}
	return callRow("SetIpInterfaceEntry", unsafe.Pointer(&row))
}
