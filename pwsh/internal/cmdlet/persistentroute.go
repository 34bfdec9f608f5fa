// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
)

// persistentKey holds the persistent routes, where route.exe -p keeps them: the
// names of its values are "destination,mask,next hop,metric".
// Source: https://learn.microsoft.com/windows-server/administration/windows-commands/route_ws2008, read 2026-11.
const persistentKey = `HKLM\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters\PersistentRoutes`

func persistentName(rt host.Route) string {
	mask := [4]byte{}
	for i := range rt.Destination.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	return fmt.Sprintf("%s,%s,%s,%d", rt.Destination.Addr(), netip.AddrFrom4(mask), rt.NextHop, rt.Metric)
}

// persistentRoutes lists them; a value that does not read as a route is left out.
func persistentRoutes(c *interp.Invocation) ([]host.Route, error) {
	reg := c.R.Handlers().Registry
	if reg == nil || !reg.Exists(persistentKey) {
		return nil, nil
	}
	values, err := reg.Values(persistentKey)
	if err != nil {
		return nil, err
	}
	list, err := adapters(c)
	if err != nil {
		return nil, err
	}
	var out []host.Route
	for _, v := range values {
		if rt, ok := parsePersistent(v.Name); ok {
			rt.Interface, rt.Alias = adapterOf(list, rt.NextHop)
			out = append(out, rt)
		}
	}
	return out, nil
}

func parsePersistent(name string) (rt host.Route, ok bool) {
	parts := strings.Split(name, ",")
	if len(parts) != 4 {
		return rt, false
	}
	destination, err1 := netip.ParseAddr(parts[0])
	mask, err2 := netip.ParseAddr(parts[1])
	hop, err3 := netip.ParseAddr(parts[2])
	metric, err4 := strconv.Atoi(parts[3])
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil || !destination.Is4() || !mask.Is4() {
		return rt, false
	}
	bits := 0
	for _, b := range mask.As4() {
		for ; b != 0; b <<= 1 {
			bits++
		}
	}
	return host.Route{Destination: netip.PrefixFrom(destination, bits), NextHop: hop, Metric: metric}, true
}

// adapterOf finds the adapter by which a next hop is reached: of those with a
// default route the first, unless it lies in a subnet.
func adapterOf(list []host.Adapter, hop netip.Addr) (int, string) {
	covers := func(a host.Adapter) bool {
		return slices.ContainsFunc(a.Addresses, func(p netip.Prefix) bool { return p.Masked().Contains(hop) })
	}
	i := slices.IndexFunc(list, covers)
	if i < 0 {
		i = slices.IndexFunc(list, func(a host.Adapter) bool { return len(a.Gateways) > 0 })
	}
	if i < 0 {
		return 0, ""
	}
	return list[i].Index, list[i].Name
}

func keepRoute(c *interp.Invocation, rt host.Route) error {
	reg := c.R.Handlers().Registry
	if reg == nil || !rt.Destination.Addr().Is4() {
		return nil // such a machine keeps none
	}
	if err := reg.CreateKey(persistentKey); err != nil {
		return err
	}
	return reg.SetValue(persistentKey, host.RegValue{Name: persistentName(rt), Kind: "String", Data: ""})
}

// forgetRoute removes the route with whatever metric, and reports whether there
// was one.
func forgetRoute(c *interp.Invocation, rt host.Route) (bool, error) {
	list, err := persistentRoutes(c)
	if err != nil {
		return false, err
	}
	found := false
	for _, p := range list {
		if p.Destination == rt.Destination && p.NextHop == rt.NextHop {
			found = true
			if err := c.R.Handlers().Registry.DeleteValue(persistentKey, persistentName(p)); err != nil {
				return found, err
			}
		}
	}
	return found, nil
}
