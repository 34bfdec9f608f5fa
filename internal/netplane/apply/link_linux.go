// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package apply

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/mullion-k8s/mullion/internal/fault/undo"
	"github.com/mullion-k8s/mullion/internal/netplane/compile"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
)

// newLinks returns the links of plan that old does not have in the same form.
func newLinks(old, plan *compile.Plan, trusted bool) []*compile.Link {
	known := map[string]*compile.Link{}
	if trusted {
		for i := range old.Links {
			known[old.Links[i].Name] = &old.Links[i]
		}
	}
	var list []*compile.Link
	for i := range plan.Links {
		l := &plan.Links[i]
		if k := known[l.Name]; k == nil || !reflect.DeepEqual(k, l) {
			list = append(list, l)
		}
	}
	return list
}

// ensureLink creates the link, or repairs an existing one without interrupting it.
func (p *Plane) ensureLink(ctx context.Context, want *compile.Link, back *undo.Stack) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("create link %s of %s: %w", want.Name, want.Alias, err)
		}
	}()
	link, err := p.space.FindLink(want.Name)
	if err != nil {
		return err
	}
	if link != nil && want.Kind == compile.VXLAN && !sameTunnel(link, want) {
		if err := p.space.DeleteLink(want.Name); err != nil {
			return err
		}
		link = nil
	}
	var inside *kernel.Space
	if want.Peer != nil {
		// A namespace that was removed is created again, empty: the endpoint must
		// not block all other changes of the host.
		if err := p.CreateNamespace(ctx, want.Peer.NamespaceID); err != nil {
			return err
		}
		if inside, err = kernel.Open(p.NamespacePath(want.Peer.NamespaceID)); err != nil {
			return err
		}
		defer inside.Close()
		if link != nil && findPeer(link, inside) == nil {
			if err := p.space.DeleteLink(want.Name); err != nil { // leads elsewhere
				return err
			}
			link = nil
		}
	}
	if link == nil {
		if err := p.makeLink(want, inside); err != nil {
			return err
		}
		back.Add("delete link "+want.Name, func(context.Context) error { return p.space.DeleteLink(want.Name) })
		if link, err = p.space.FindLink(want.Name); err != nil {
			return err
		}
		if link == nil {
			return errors.New("disappeared after it was created")
		}
	}
	if err := p.updateLink(link, want); err != nil {
		return err
	}
	if inside != nil {
		peer := findPeer(link, inside)
		if err := updatePeer(peer, inside, want, link.Attrs().HardwareAddr); err != nil {
			return err
		}
		return setRedirects(ctx, inside, peer, want.Peer.Redirects)
	}
	return nil
}

// findPeer returns the other end of a veth link if it is in the namespace. Both
// ends name the index of the other.
func findPeer(link netlink.Link, inside *kernel.Space) netlink.Link {
	if link.Type() != string(compile.Veth) {
		return nil
	}
	peer, err := inside.Netlink.LinkByIndex(link.Attrs().ParentIndex)
	if err != nil || peer.Type() != string(compile.Veth) || peer.Attrs().ParentIndex != link.Attrs().Index {
		return nil
	}
	return peer
}

func (p *Plane) makeLink(want *compile.Link, inside *kernel.Space) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = want.Name, want.MTU
	if want.MAC != "" {
		mac, err := net.ParseMAC(want.MAC)
		if err != nil {
			return err
		}
		attrs.HardwareAddr = mac
	}
	switch want.Kind {
	case compile.Bridge:
		return p.space.Netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs})
	case compile.VXLAN:
		return p.space.Netlink.LinkAdd(newTunnel(attrs, want.Tunnel))
	}
	mac, err := net.ParseMAC(want.Peer.MAC)
	if err != nil {
		return err
	}
	veth := netlink.NewVeth(attrs)
	veth.PeerHardwareAddr, veth.PeerMTU = mac, uint32(want.MTU)
	veth.PeerNamespace = netlink.NsFd(inside.Handle())
	veth.PeerName, err = freeName(inside, want.Peer.Name)
	if err != nil {
		return err
	}
	return p.space.Netlink.LinkAdd(veth)
}

// freeName returns the wanted name, or the next free of eth0, eth1, … if an endpoint
// that was attached later than another one has outlived it.
func freeName(inside *kernel.Space, want string) (string, error) {
	for i := 0; ; i++ {
		l, err := inside.FindLink(want)
		if err != nil || l == nil {
			return want, err
		}
		want = fmt.Sprintf("eth%d", i)
	}
}

// updateLink changes the settings that can change on a running link.
func (p *Plane) updateLink(link netlink.Link, want *compile.Link) error {
	if link.Attrs().Alias != want.Alias {
		if err := p.space.Netlink.LinkSetAlias(link, want.Alias); err != nil {
			return fmt.Errorf("set alias: %w", err)
		}
	}
	if err := setMTU(p.space, link, want.MTU); err != nil {
		return err
	}
	if err := p.space.Do(func() error {
		for _, s := range want.Sysctls {
			if err := kernel.WriteSysctl(s.Path, s.Value); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	if err := p.space.Netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	if err := p.space.AddAddresses(link, want.Addresses, true); err != nil {
		return err
	}
	for _, n := range want.Neighbours {
		mac, err := net.ParseMAC(n.MAC)
		if err != nil {
			return err
		}
		if err := p.space.SetNeighbour(link, n.Address, mac); err != nil {
			return err
		}
	}
	return p.setForwards(link, want.Forwards)
}

// updatePeer sets the inner end of a veth pair. host is the MAC address of the other end.
func updatePeer(link netlink.Link, inside *kernel.Space, want *compile.Link, host net.HardwareAddr) error {
	if link == nil {
		return errors.New("inner end disappeared after it was created")
	}
	name := link.Attrs().Name
	if err := setMTU(inside, link, want.MTU); err != nil {
		return err
	}
	if !strings.EqualFold(link.Attrs().HardwareAddr.String(), want.Peer.MAC) {
		mac, err := net.ParseMAC(want.Peer.MAC)
		if err != nil {
			return err
		}
		if err := inside.Netlink.LinkSetHardwareAddr(link, mac); err != nil {
			return fmt.Errorf("set MAC address of %s: %w", name, err)
		}
	}
	if err := addPeerAddresses(link, inside, want.Peer.Addresses); err != nil {
		return err
	}
	if err := inside.KeepAddresses(link, want.Peer.Addresses); err != nil {
		return err
	}
	if err := setBucket(inside, link, want.Peer.Bucket); err != nil {
		return err
	}
	if err := inside.Netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set up %s: %w", name, err)
	}
	for _, a := range want.Peer.HostIs {
		if err := inside.SetNeighbour(link, a, host); err != nil {
			return err
		}
	}
	if err := inside.SetAccepted(link, want.Peer.Accepts); err != nil {
		return err
	}
	for _, r := range want.Peer.Routes {
		err := inside.ReplaceRoute(kernel.Route{
			Destination: r.Destination,
			LinkIndex:   link.Attrs().Index,
			NextHop:     r.NextHop,
			OnLink:      r.OnLink,
			Source:      r.Source,
			Metric:      r.Metric,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// addPeerAddresses gives the inner end its addresses, the IPv6 ones without a route to their prefix: no host would
// answer there for the prefix' other addresses.
func addPeerAddresses(link netlink.Link, inside *kernel.Space, want []netip.Prefix) error {
	of := map[bool][]netip.Prefix{} // by "is IPv6"
	for _, a := range want {
		of[a.Addr().Is6()] = append(of[a.Addr().Is6()], a)
	}
	if len(of[true]) > 0 {
		path := "net/ipv6/conf/" + link.Attrs().Name
		for _, s := range []compile.Sysctl{
			{Path: path + "/addr_gen_mode", Value: "1"},
			{Path: path + "/accept_ra", Value: "0"},
			{Path: path + "/disable_ipv6", Value: "0"},
		} {
			if err := inside.Sysctl(s.Path, s.Value); err != nil {
				return err
			}
		}
	}
	if err := inside.AddAddresses(link, of[false], false); err != nil {
		return err
	}
	return inside.AddAddresses(link, of[true], true)
}

func setMTU(s *kernel.Space, link netlink.Link, mtu int) error {
	if mtu == 0 || link.Attrs().MTU == mtu {
		return nil
	}
	if err := s.Netlink.LinkSetMTU(link, mtu); err != nil {
		return fmt.Errorf("set MTU of %s to %d: %w", link.Attrs().Name, mtu, err)
	}
	return nil
}
