// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// persistentKey holds the persistent routes, where route.exe -p keeps them: the
// names of its values are "destination,mask,next hop,metric".
// Source: https://learn.microsoft.com/windows-server/administration/windows-commands/route_ws2008, read 2026-11.
const persistentKey = `HKLM\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters\PersistentRoutes`

// Mask returns the mask of an IPv4 prefix, as in 255.255.255.0.
func Mask(p netip.Prefix) string { return net.IP(net.CIDRMask(p.Bits(), 32)).String() }

// MaskedPrefix joins an IPv4 address and a mask; ok is false for other values.
func MaskedPrefix(address, mask netip.Addr) (p netip.Prefix, ok bool) {
	if !address.Is4() || !mask.Is4() {
		return p, false
	}
	ones, bits := net.IPMask(mask.AsSlice()).Size()
	return netip.PrefixFrom(address, ones), bits == 32
}

func persistentName(r Route) string {
	return fmt.Sprintf("%s,%s,%s,%d", r.Destination.Addr(), Mask(r.Destination), r.NextHop, r.Metric)
}

func parsePersistent(name string) (r Route, ok bool) {
	parts := strings.Split(name, ",")
	if len(parts) != 4 {
		return r, false
	}
	destination, err1 := netip.ParseAddr(parts[0])
	mask, err2 := netip.ParseAddr(parts[1])
	hop, err3 := netip.ParseAddr(parts[2])
	metric, err4 := strconv.Atoi(parts[3])
	p, ok := MaskedPrefix(destination, mask)
	return Route{Destination: p, NextHop: hop, Metric: metric},
		ok && err1 == nil && err2 == nil && err3 == nil && err4 == nil
}

// PersistentRoutes lists the routes that outlive a restart, without their
// interfaces. A value that does not read as a route is left out. reg may be nil.
func PersistentRoutes(reg Registry) ([]Route, error) {
	if reg == nil || !reg.Exists(persistentKey) {
		return nil, nil
	}
	values, err := reg.Values(persistentKey)
	if err != nil {
		return nil, err
	}
	var out []Route
	for _, v := range values {
		if r, ok := parsePersistent(v.Name); ok {
			out = append(out, r)
		}
	}
	return out, nil
}

// KeepRoute makes a route persistent. A machine without a registry has no
// persistent routes, and neither has IPv6.
func KeepRoute(reg Registry, r Route) error {
	if reg == nil || !r.Destination.Addr().Is4() {
		return nil
	}
	if err := reg.CreateKey(persistentKey); err != nil {
		return err
	}
	return reg.SetValue(persistentKey, RegValue{Name: persistentName(r), Kind: "String", Data: ""})
}

// ForgetRoute removes the persistent routes with the destination and the next
// hop of r, and returns their number.
func ForgetRoute(reg Registry, r Route) (n int, err error) {
	list, err := PersistentRoutes(reg)
	if err != nil {
		return 0, err
	}
	for _, p := range list {
		if p.Destination != r.Destination || p.NextHop != r.NextHop {
			continue
		}
		if err := reg.DeleteValue(persistentKey, persistentName(p)); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
