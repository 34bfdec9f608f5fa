// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package compile

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

// TableName is the default name of the nftables table.
const TableName = "mullion"

// ConflictError reports that two objects of the intent claim the same thing.
type ConflictError struct {
	Object, Other string // "load balancer 5f0c…"
	What          string // "10.96.0.1:80/tcp", "address 10.244.1.5"
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s: %s is in use by %s", e.Object, e.What, e.Other)
}

// Compile creates the plan for an intent. previous may be nil; it only saves
// work. The intent must not be changed afterwards while the plan is in use.
func Compile(want intent.Host, previous *Plan) (*Plan, error) {
	if previous == nil || previous.uplink != want.Uplink {
		previous = &Plan{}
	}
	c := compiler{
		want:     want,
		previous: previous,
		plan: &Plan{uplink: want.Uplink,
			Table: Table{Name: TableName,
				fragments: make(map[objectKey]*fragment, len(want.LoadBalancers)+len(want.Endpoints))}},
		families:  families(want.Uplink),
		networks:  map[string]*intent.Network{},
		fronts:    make(map[front]objectKey, len(want.LoadBalancers)),
		claimed:   map[string]string{},
		preserved: map[netip.Addr][]preserved{},
	}
	for i := range want.Networks {
		n := &want.Networks[i]
		if err := c.claim("network "+n.ID, "network id "+n.ID); err != nil {
			return nil, err
		}
		c.networks[n.ID] = n
	}
	c.preserve()
	if err := c.endpoints(); err != nil {
		return nil, fmt.Errorf("compile endpoints: %w", err)
	}
	c.gateways()
	if err := c.overlays(); err != nil {
		return nil, fmt.Errorf("compile overlays: %w", err)
	}
	if err := c.hostRoutes(); err != nil {
		return nil, fmt.Errorf("compile routes: %w", err)
	}
	if err := c.loadBalancers(); err != nil {
		return nil, fmt.Errorf("compile load balancers: %w", err)
	}
	c.sourceVIPRoutes()
	c.sysctls()
	c.proxies()
	c.plan.Table.Sets = c.sets()
	c.plan.Table.Chains = c.closeNetworks(c.guardTunnels(c.preserveChains(c.baseChains())))
	c.plan.Table.collect()
	return c.plan, nil
}

type compiler struct {
	want      intent.Host
	previous  *Plan
	plan      *Plan
	families  []family
	networks  map[string]*intent.Network
	fronts    map[front]objectKey        // front end → its object
	claimed   map[string]string          // ids, link names, addresses → their object
	sources   []netip.Addr               // distinct SourceVIPs
	held      []netip.Addr               // addresses of attached endpoints
	preserved map[netip.Addr][]preserved // backend → the front ends that it sees as destinations
	tunnels   []tunnel
	peers     map[netip.Addr][]string // other hosts of the overlays → rules for packets from them
}

// front is the front end that a client connects to. An invalid address means all
// of the host's own.
type front struct {
	address  netip.Addr
	protocol uint8
	port     uint16
}

func (f front) String() string {
	host := "*"
	if f.address.IsValid() {
		host = f.address.String()
	}
	return fmt.Sprintf("%s:%d/%s", host, f.port, protocolName(f.protocol))
}

// claim records that object uses the resource what, or returns an error that names
// the current user.
func (c *compiler) claim(object, what string) error {
	if other, taken := c.claimed[what]; taken {
		return &ConflictError{Object: object, Other: other, What: what}
	}
	c.claimed[what] = object
	return nil
}

func (c *compiler) claimFront(object objectKey, f front) error {
	if other, taken := c.fronts[f]; taken {
		return &ConflictError{Object: object.String(), Other: other.String(), What: f.String()}
	}
	c.fronts[f] = object
	return nil
}

// nodeAddress returns the uplink's IPv4 address, or the invalid address.
func (c *compiler) nodeAddress() netip.Addr {
	return ipv4().node(c.want.Uplink)
}

// sysctls returns the settings of the namespace as a whole
// (Documentation/networking/ip-sysctl.rst of Linux).
func (c *compiler) sysctls() {
	set := func(path, value string) {
		c.plan.Sysctls = append(c.plan.Sysctls, Sysctl{path, value})
	}
	set("net/ipv4/ip_forward", "1")
	// The host's programs ping without a right to, as everywhere on Windows (icmp(7), ping_group_range).
	set("net/ipv4/ping_group_range", "0 2147483647")
	// Spoofing by endpoints is stopped by the table, not by routes. (On a link
	// without an address, such as the host's end of an endpoint's, even the loose
	// check refuses packets that are routed elsewhere: net/ipv4/fib_frontend.c,
	// __fib_validate_source.) The stricter of "all" and the link's own value counts.
	set("net/ipv4/conf/all/rp_filter", "0")
	// A forwarded NodePort connection leaves by the link it came from; without this
	// the kernel redirects the client to the backend (ICMP).
	set("net/ipv4/conf/all/send_redirects", "0")
	set("net/ipv4/conf/default/send_redirects", "0")
	if c.want.Uplink.Name != "" {
		set("net/ipv4/conf/"+c.want.Uplink.Name+"/send_redirects", "0")
	}
	if len(c.families) > 1 {
		set("net/ipv6/conf/all/forwarding", "1")
	}
}

// protocolName is nft's word for a protocol number.
func protocolName(p uint8) string {
	switch p {
	case intent.TCP:
		return "tcp"
	case intent.UDP:
		return "udp"
	case intent.SCTP:
		return "sctp"
	}
	return fmt.Sprint(p)
}

func hasPorts(p uint8) bool { return p == intent.TCP || p == intent.UDP || p == intent.SCTP }

// usable reports whether a can be the address of one host in a network.
// 0.0.0.0/8 is "this network" (RFC 1122, 3.2.1.3).
func usable(a netip.Addr) bool {
	return a.IsValid() && !a.IsLoopback() && !a.IsMulticast() && !a.IsUnspecified() && (!a.Is4() || a.As4()[0] != 0)
}

func usable4(a netip.Addr) bool { return a.Is4() && usable(a) }

func addSorted(list []netip.Addr, a netip.Addr) []netip.Addr {
	i, found := slices.BinarySearchFunc(list, a, netip.Addr.Compare)
	if found {
		return list
	}
	return slices.Insert(list, i, a)
}
