// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package fabric

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"

	"github.com/vishvananda/netlink"

	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
)

// makeIPv6 gives the router its IPv6 address and the routes of that family. Ranges without a host are unreachable,
// and so are all other addresses: IPv6 ends at the router.
func (f *Fabric) makeIPv6(inside, _ *kernel.Space) error {
	if !f.plan.Router6.IsValid() {
		return nil
	}
	if err := inside.Sysctl("net/ipv6/conf/all/forwarding", "1"); err != nil {
		return err
	}
	bridge, err := inside.FindLink(f.plan.Bridge)
	if err != nil {
		return err
	}
	if err := enableIPv6(inside, bridge, f.plan.Router6); err != nil {
		return err
	}
	everything := netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	for _, r := range append(f.plan.routed6(), f.plan.IPv6.ServiceCIDR, everything) {
		if err := inside.ReplaceRoute(kernel.Route{Destination: r}); err != nil {
			return err
		}
	}
	return nil
}

// makeMachineIPv6 gives the machine's link its IPv6 address and the routes of that family, or takes the family away.
// Preconditions: the rules are there; no packet of the family may pass without them.
func (f *Fabric) makeMachineIPv6(_, machine *kernel.Space) error {
	if !f.plan.MachineAddress6.IsValid() {
		return disableIPv6(machine, f.plan.MachineLink)
	}
	link, err := machine.FindLink(f.plan.MachineLink)
	if err != nil {
		return err
	}
	if err := enableIPv6(machine, link, f.plan.MachineAddress6); err != nil {
		return err
	}
	for _, r := range f.plan.routed6() {
		if err := machine.ReplaceRoute(kernel.Route{Destination: r, LinkIndex: link.Attrs().Index,
			NextHop: f.plan.Router6.Addr()}); err != nil {
			return err
		}
	}
	return nil
}

// disableIPv6 takes IPv6 off a link of the machine, whose kernel may lack it.
func disableIPv6(machine *kernel.Space, link string) error {
	err := machine.Sysctl("net/ipv6/conf/"+link+"/disable_ipv6", "1")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// connectIPv6 gives a host's uplink its IPv6 address and the default route of that family, or takes the family away.
func (f *Fabric) connectIPv6(host *kernel.Space, eth0 netlink.Link, a netip.Prefix) error {
	if !a.IsValid() {
		return host.Sysctl("net/ipv6/conf/"+Uplink+"/disable_ipv6", "1")
	}
	if err := enableIPv6(host, eth0, a); err != nil {
		return fmt.Errorf("address %s: %w", a, err)
	}
	return nil
}

// enableIPv6 gives a link an IPv6 address. Neighbour solicitations come from a link-local one, which the kernel makes
// (Linux, net/ipv6/ndisc.c, ndisc_send_ns); no other link can have it, so it is used at once.
func enableIPv6(s *kernel.Space, link netlink.Link, a netip.Prefix) error {
	path := "net/ipv6/conf/" + link.Attrs().Name
	for _, setting := range [][2]string{{"addr_gen_mode", "0"}, {"accept_dad", "0"}, {"accept_ra", "0"},
		{"accept_redirects", "0"}, {"disable_ipv6", "0"}} {
		if err := s.Sysctl(path+"/"+setting[0], setting[1]); err != nil {
			return err
		}
	}
	return s.AddAddresses(link, []netip.Prefix{a}, false)
}
