// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// SetAccepted lets the namespace take packets to the addresses, and to no others by an earlier call, as its own if they
// come by the link. The link does not have the addresses: programs of the namespace do not see them among its own. A
// socket that is bound to no address answers with them.
func (s *Space) SetAccepted(link netlink.Link, want []netip.Addr) error {
	name := link.Attrs().Name
	have, err := List(func() ([]netlink.Route, error) {
		return s.Netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{
			Protocol: routeProtocol, Table: unix.RT_TABLE_LOCAL, LinkIndex: link.Attrs().Index,
		}, netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE|netlink.RT_FILTER_OIF)
	})
	if err != nil {
		return fmt.Errorf("list addresses that %s accepts: %w", name, err)
	}
	var known []netip.Addr
	for _, r := range have {
		a := destinationOf(&r).Addr()
		if slices.Contains(want, a) {
			known = append(known, a)
			continue
		}
		if err := s.Netlink.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("no longer accept %s on %s: %w", a, name, err)
		}
	}
	for _, a := range want {
		if slices.Contains(known, a) {
			continue
		}
		if err := s.Netlink.RouteReplace(&netlink.Route{
			Dst:       ipNet(netip.PrefixFrom(a, a.BitLen())),
			LinkIndex: link.Attrs().Index,
			Type:      unix.RTN_LOCAL,
			Table:     unix.RT_TABLE_LOCAL,
			Scope:     netlink.SCOPE_HOST,
			Protocol:  routeProtocol,
		}); err != nil {
			return fmt.Errorf("accept %s on %s: %w", a, name, err)
		}
	}
	return nil
}
