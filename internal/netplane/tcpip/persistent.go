// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package tcpip

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/mullion-k8s/mullion/internal/logkey"
)

// PersistentRoutesKey is the key of HKEY_LOCAL_MACHINE whose values' names are
// the persistent routes: https://learn.microsoft.com/windows-server/administration/windows-commands/route_ws2008,
// read 2026-11.
const PersistentRoutesKey = `System\CurrentControlSet\Services\Tcpip\Parameters\PersistentRoutes`

// PersistentRoute is a route that a host has after each boot.
type PersistentRoute struct {
	Destination netip.Prefix
	NextHop     netip.Addr // unspecified: on the link
	Metric      uint32
}

// parsePersistentRoute reads the name of a value: "10.0.0.0,255.0.0.0,10.1.1.1,1",
// which is destination, mask, next hop and metric.
func parsePersistentRoute(text string) (PersistentRoute, error) {
	var p PersistentRoute
	parts := strings.Split(text, ",")
	if len(parts) != 4 {
		return p, fmt.Errorf("persistent route %q: want destination, mask, next hop and metric", text)
	}
	destination, err1 := netip.ParseAddr(parts[0])
	mask, err2 := netip.ParseAddr(parts[1])
	hop, err3 := netip.ParseAddr(parts[2])
	metric, err4 := strconv.ParseUint(parts[3], 10, 16)
	err := errors.Join(err1, err2, err3, err4)
	if err == nil && (!destination.Is4() || !mask.Is4() || !hop.Is4()) {
		err = errors.New("want IPv4 addresses")
	}
	if err != nil {
		return p, fmt.Errorf("persistent route %q: %w", text, err)
	}
	length, size := net.IPMask(mask.AsSlice()).Size()
	if size == 0 {
		return p, fmt.Errorf("persistent route %q: %s is not a mask", text, mask)
	}
	return PersistentRoute{netip.PrefixFrom(destination, length), hop, uint32(metric)}, nil
}

// ParsePersistentRoutes reads the names of all values. Invalid names are logged and
// left out.
func ParsePersistentRoutes(names []string, log *slog.Logger) []PersistentRoute {
	var list []PersistentRoute
	for _, name := range names {
		p, err := parsePersistentRoute(name)
		if err != nil {
			log.Warn("value of the registry is not a persistent route", logkey.Error, err)
			continue
		}
		list = append(list, p)
	}
	return list
}

// route finds the adapter: the registry does not name it. It is the one whose
// subnet the next hop is in.
func (p PersistentRoute) route(list []adapter, uplink string) (route, error) {
	link := uplink
	if i := slices.IndexFunc(list, func(a adapter) bool { return a.covers(p.NextHop) }); i >= 0 {
		link = list[i].Link
	}
	i := slices.IndexFunc(list, func(a adapter) bool { return a.Link == link })
	if i < 0 {
		return route{}, fmt.Errorf("no adapter for next hop %s", p.NextHop)
	}
	r, _, err := find(list, tableRow{
		Interface: list[i].Index, Destination: p.Destination, NextHop: p.NextHop, Metric: p.Metric,
	})
	return r, err
}
