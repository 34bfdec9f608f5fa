// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package fabric

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/fault"
	"github.com/mullion-k8s/mullion/internal/fault/undo"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
)

// Fabric creates and changes the fabric of one plan.
type Fabric struct {
	plan    Plan
	machine string
}

// New describes a fabric without touching anything.
func New(cfg Config) (*Fabric, error) {
	plan, err := Describe(cfg)
	if err != nil {
		return nil, err
	}
	return &Fabric{plan: plan, machine: cfg.Machine}, nil
}

// Plan returns the plan that Apply carries out.
func (f *Fabric) Plan() Plan { return f.plan }

// InUseError reports that the machine uses a range of the cluster for something
// else.
type InUseError struct {
	Range netip.Prefix
	By    string // "address 10.89.0.7/24 of eth1"
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("range %s is in use on this machine: %s", e.Range, e.By)
}

// CheckRanges returns an *InUseError if the machine uses a range of the cluster for something
// else. It makes no changes.
func (f *Fabric) CheckRanges() error {
	machine, err := kernel.Open(f.machine)
	if err != nil {
		return fmt.Errorf("check ranges: %w", err)
	}
	defer machine.Close()
	return f.checkRanges(machine)
}

// Apply creates the fabric, or its missing parts.
func (f *Fabric) Apply(ctx context.Context) (err error) {
	machine, err := kernel.Open(f.machine)
	if err != nil {
		return fmt.Errorf("make fabric: %w", err)
	}
	defer machine.Close()
	if err := f.checkRanges(machine); err != nil {
		return fmt.Errorf("make fabric: %w", err)
	}
	var back undo.Stack
	defer back.OnError(ctx, &err)
	if !kernel.IsNamespace(f.plan.Namespace) {
		back.Add("delete fabric", f.Delete)
	}
	if err := kernel.CreateNamespace(f.plan.Namespace, nil); err != nil {
		return fmt.Errorf("make fabric: %w", err)
	}
	inside, err := kernel.Open(f.plan.Namespace)
	if err != nil {
		return fmt.Errorf("make fabric: %w", err)
	}
	defer inside.Close()
	for _, step := range []struct {
		name string
		do   func(inside, machine *kernel.Space) error
	}{
		{"bridge", f.makeBridge}, {"machine-link", f.makeMachineLink}, {"routes", f.makeRoutes},
		{"ipv6", f.makeIPv6},
		{"carrier", func(inside, machine *kernel.Space) error {
			return errors.Join(machine.AwaitUp(ctx, f.plan.MachineLink),
				inside.AwaitUp(ctx, f.plan.MachinePort, f.plan.Bridge))
		}},
		{"rules", func(_, machine *kernel.Space) error { return f.makeRules(ctx, machine) }},
		{"machine-ipv6", f.makeMachineIPv6},
	} {
		if err := errors.Join(ctx.Err(), fault.Point(ctx, "fabric.apply.before-"+step.name)); err != nil {
			return fmt.Errorf("make fabric: %w", err)
		}
		if err := step.do(inside, machine); err != nil {
			return fmt.Errorf("make fabric: %s: %w", step.name, err)
		}
	}
	return nil
}

// checkRanges refuses ranges that the machine uses otherwise.
func (f *Fabric) checkRanges(machine *kernel.Space) error {
	links, err := kernel.List(machine.Netlink.LinkList)
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	names, own := map[int]string{}, 0
	for _, l := range links {
		a := l.Attrs()
		names[a.Index] = a.Name
		switch {
		case f.owns(l):
			own = a.Index
		case a.Alias != "":
			names[a.Index] += " (" + a.Alias + ")"
		}
	}
	plan := f.plan.IPv6
	ranges := slices.DeleteFunc([]netip.Prefix{f.plan.NodeNet, f.plan.PodNet, f.plan.ServiceNet, f.plan.Pool,
		plan.NodeCIDR, plan.PodCIDR, plan.ServiceCIDR, f.plan.Pool6},
		func(r netip.Prefix) bool { return !r.IsValid() })
	check := func(p netip.Prefix, link int, what string) error {
		if p.Bits() == 0 || link != 0 && link == own {
			return nil
		}
		for _, r := range ranges {
			if r.Overlaps(p) {
				by := what + " " + p.String()
				if link != 0 {
					by += " of " + names[link]
				}
				return &InUseError{Range: r, By: by}
			}
		}
		return nil
	}
	family := netlink.FAMILY_V4
	if !plan.IsZero() {
		family = netlink.FAMILY_ALL
	}
	addresses, err := kernel.List(func() ([]netlink.Addr, error) { return machine.Netlink.AddrList(nil, family) })
	if err != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range addresses {
		if err := check(kernel.Prefix(a.IPNet).Masked(), a.LinkIndex, "address"); err != nil {
			return err
		}
	}
	routes, err := kernel.List(func() ([]netlink.Route, error) { return machine.Netlink.RouteList(nil, family) })
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	for _, r := range routes {
		if err := check(kernel.Prefix(r.Dst), r.LinkIndex, "route"); err != nil {
			return err
		}
	}
	return nil
}

// makeBridge makes the switch and the router on it.
func (f *Fabric) makeBridge(inside, _ *kernel.Space) error {
	for _, s := range [][2]string{
		{"net/ipv4/ip_forward", "1"},
		{"net/ipv4/conf/all/rp_filter", "2"},
		{"net/ipv4/conf/all/send_redirects", "0"},
		{"net/ipv4/conf/default/send_redirects", "0"},
		{"net/ipv6/conf/default/disable_ipv6", "1"},
	} {
		if err := inside.Sysctl(s[0], s[1]); err != nil {
			return err
		}
	}
	bridge, err := inside.FindLink(f.plan.Bridge)
	if err != nil {
		return err
	}
	if bridge == nil {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = f.plan.Bridge
		if attrs.HardwareAddr, err = net.ParseMAC(f.plan.RouterMAC); err != nil {
			return err
		}
		if err := inside.Netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
			return fmt.Errorf("add %s: %w", f.plan.Bridge, err)
		}
		if bridge, err = inside.FindLink(f.plan.Bridge); err != nil {
			return err
		}
	}
	// Frames between hosts are the switch's business, not the router's filter's.
	// The setting exists only while the kernel has br_netfilter.
	err = inside.Sysctl("net/bridge/bridge-nf-call-iptables", "0")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := inside.AddAddresses(bridge, []netip.Prefix{f.plan.Router}, false); err != nil {
		return err
	}
	return inside.Netlink.LinkSetUp(bridge)
}

// owns reports whether a link of the machine belongs to this cluster: by its
// alias, or because the process that created it was killed before it set one.
func (f *Fabric) owns(l netlink.Link) bool {
	a := l.Attrs()
	halfMade := a.Alias == "" && l.Type() == "veth" && a.Flags&net.FlagUp == 0
	return a.Name == f.plan.MachineLink && (a.Alias == f.plan.MachineAlias || halfMade)
}

// makeMachineLink joins the machine to the bridge.
func (f *Fabric) makeMachineLink(inside, machine *kernel.Space) error {
	link, err := machine.FindLink(f.plan.MachineLink)
	if err != nil {
		return err
	}
	if link != nil && !f.owns(link) {
		return fmt.Errorf("link %s exists and is not ours", f.plan.MachineLink)
	}
	if link != nil {
		// A link that outlived its fabric has lost its peer, or its peer is in a
		// namespace that can no longer be reached.
		if port, err := inside.FindLink(f.plan.MachinePort); err != nil || port == nil ||
			port.Attrs().ParentIndex != link.Attrs().Index {
			if err := machine.DeleteLink(f.plan.MachineLink); err != nil {
				return err
			}
			link = nil
		}
	}
	if link == nil {
		if err := addPair(machine, f.plan.MachineLink, mac(f.plan.MachineAddress.Addr()), inside, f.plan.MachinePort,
			0); err != nil {
			return err
		}
		if link, err = machine.FindLink(f.plan.MachineLink); err != nil {
			return err
		}
		if err := machine.Netlink.LinkSetAlias(link, f.plan.MachineAlias); err != nil {
			return fmt.Errorf("set alias of %s: %w", f.plan.MachineLink, err)
		}
	}
	if link.Attrs().Flags&net.FlagUp == 0 {
		// Not before the rules are there; see makeMachineIPv6.
		if err := disableIPv6(machine, f.plan.MachineLink); err != nil {
			return err
		}
	}
	if err := machine.Netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set up %s: %w", f.plan.MachineLink, err)
	}
	if err := machine.AddAddresses(link, []netip.Prefix{f.plan.MachineAddress}, false); err != nil {
		return err
	}
	return f.plug(inside, f.plan.MachinePort)
}

// addPair makes a veth pair between two namespaces.
func addPair(a *kernel.Space, nameA, macA string, b *kernel.Space, nameB string, mtu int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = nameA, mtu
	mac, err := net.ParseMAC(macA)
	if err != nil {
		return err
	}
	attrs.HardwareAddr = mac
	veth := netlink.NewVeth(attrs)
	veth.PeerName, veth.PeerMTU = nameB, uint32(mtu)
	veth.PeerNamespace = netlink.NsFd(b.Handle())
	if err := a.Netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("add %s: %w", nameA, err)
	}
	return nil
}

// plug makes the link a port of the bridge.
func (f *Fabric) plug(inside *kernel.Space, name string) error {
	port, err := inside.FindLink(name)
	if err != nil {
		return err
	}
	bridge, err := inside.FindLink(f.plan.Bridge)
	if err != nil {
		return err
	}
	if port == nil || bridge == nil {
		return fmt.Errorf("plug %s into %s: one of them is missing", name, f.plan.Bridge)
	}
	if err := inside.Netlink.LinkSetMaster(port, bridge); err != nil {
		return fmt.Errorf("plug %s into %s: %w", name, f.plan.Bridge, err)
	}
	return inside.Netlink.LinkSetUp(port)
}

func (f *Fabric) makeRoutes(inside, machine *kernel.Space) error {
	unreachable, routed := []netip.Prefix{f.plan.PodNet, f.plan.ServiceNet}, []netip.Prefix{f.plan.PodNet}
	if f.plan.Pool.IsValid() {
		unreachable, routed = append(unreachable, f.plan.Pool), append(routed, f.plan.Pool)
	}
	for _, r := range unreachable {
		if err := inside.ReplaceRoute(kernel.Route{Destination: r}); err != nil {
			return err
		}
	}
	bridge, err := inside.FindLink(f.plan.Bridge)
	if err != nil {
		return err
	}
	everything := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if err := inside.ReplaceRoute(kernel.Route{Destination: everything, LinkIndex: bridge.Attrs().Index,
		NextHop: f.plan.MachineAddress.Addr()}); err != nil {
		return err
	}
	link, err := machine.FindLink(f.plan.MachineLink)
	if err != nil {
		return err
	}
	for _, r := range routed {
		if err := machine.ReplaceRoute(kernel.Route{Destination: r, LinkIndex: link.Attrs().Index,
			NextHop: f.plan.Router.Addr()}); err != nil {
			return err
		}
	}
	return nil
}

// makeRules makes the machine's tables. Hosts reach the machine's destinations if the machine
// is a router already; the user decides whether it becomes one.
func (f *Fabric) makeRules(ctx context.Context, machine *kernel.Space) error {
	forwards := false
	err := machine.Do(func() error {
		b, err := os.ReadFile("/proc/sys/net/ipv4/ip_forward")
		forwards = strings.TrimSpace(string(b)) == "1"
		return err
	})
	if err != nil {
		return err
	}
	rules := f.plan.rules(forwards)
	if f.plan.MachineAddress6.IsValid() {
		rules += f.plan.ipv6Rules()
	}
	return machine.Nft(ctx, rules)
}

// Delete removes everything that Apply, Connect and AddPrefix made. The hosts'
// uplinks disappear with the bridge's ports. It is not an error if they do not
// exist.
func (f *Fabric) Delete(ctx context.Context) error {
	machine, err := kernel.Open(f.machine)
	if err != nil {
		return fmt.Errorf("delete fabric: %w", err)
	}
	defer machine.Close()
	var errs []error
	// A namespace that a host's process still holds would keep its links alive.
	if kernel.IsNamespace(f.plan.Namespace) {
		errs = append(errs, deleteLinks(f.plan.Namespace))
	}
	link, err := machine.FindLink(f.plan.MachineLink)
	if err == nil && link != nil && f.owns(link) {
		err = machine.DeleteLink(f.plan.MachineLink)
	}
	errs = append(errs, err, kernel.DeleteNamespace(f.plan.Namespace))
	families := []string{"ip"}
	if f.plan.MachineAddress6.IsValid() {
		families = append(families, "ip6")
	}
	for _, family := range families {
		// `add` first: deleting a table that does not exist is an error.
		errs = append(errs, machine.Nft(ctx, fmt.Sprintf("add table %[1]s %[2]s\ndelete table %[1]s %[2]s\n", family,
			f.plan.Table)))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("delete fabric: %w", err)
	}
	return nil
}

func deleteLinks(namespace string) error {
	inside, err := kernel.Open(namespace)
	if err != nil {
		return err
	}
	defer inside.Close()
	links, err := kernel.List(inside.Netlink.LinkList)
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	for _, l := range links {
		if l.Attrs().Flags&net.FlagLoopback != 0 {
			continue
		}
		if err := inside.Netlink.LinkDel(l); err != nil && !errors.Is(err, unix.ENODEV) &&
			!errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("delete link %s: %w", l.Attrs().Name, err)
		}
	}
	return nil
}
