// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package compile

import (
	"net/netip"
	"slices"

	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

// family is an address family with nft's words for it. Each has its own sets, because the keys of a set have one
// type.
type family struct {
	word     string // of matches and statements
	protocol string // of meta nfproto
	address  string // type of an address in a set
	suffix   string // of the names of sets and chains
	loopback string
	// unserved are local addresses of the host at which node ports do not answer.
	unserved string
	metadata netip.Addr // where clouds give out credentials
}

// ipv4 is the family that every host has.
func ipv4() family {
	return family{
		word: "ip", protocol: "ipv4", address: "ipv4_addr", loopback: "127.0.0.0/8", unserved: "127.0.0.0/8",
		metadata: netip.AddrFrom4([4]byte{169, 254, 169, 254}), // AWS, Azure, GCP
	}
}

// ipv6 is the family that a host has if its uplink has an address of it. Node ports do not answer at link-local
// addresses: Linux makes these, and the emulated host does not have them.
func ipv6() family {
	return family{
		word: "ip6", protocol: "ipv6", address: "ipv6_addr", suffix: "6", loopback: "::1",
		unserved: "{ ::1, fe80::/10 }",
		// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
		metadata: netip.AddrFrom16([16]byte{0xfd, 0x00, 0x0e, 0xc2, 14: 0x02, 15: 0x54}),
	}
}

// familyFor returns the family that a flag of HNS stands for.
func familyFor(v6 bool) family {
	if v6 {
		return ipv6()
	}
	return ipv4()
}

// set returns the name of the family's own set.
func (f family) set(name string) string { return name + f.suffix }

// frontKey is the key of a front end with an explicit address.
func (f family) frontKey() string { return f.word + " daddr . " + nodePortKey }

// toNode matches packets to an address of the host itself.
func (f family) toNode() string {
	return "fib daddr type local " + f.word + " daddr != " + f.unserved + " "
}

// has reports whether an address belongs to the family.
func (f family) has(a netip.Addr) bool {
	if f.suffix == "" {
		return a.Is4()
	}
	return a.Is6() && !a.Is4In6()
}

// usable reports whether a can be the address of one host, in this family.
func (f family) usable(a netip.Addr) bool { return f.has(a) && usable(a) }

// all is the prefix of all addresses.
func (f family) all() netip.Prefix {
	if f.suffix == "" {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
}

// node returns the uplink's address of the family, or the invalid address.
func (f family) node(u intent.Uplink) netip.Addr {
	for _, a := range []netip.Addr{u.Address.Addr(), u.Address6.Addr()} {
		if f.has(a) {
			return a
		}
	}
	return netip.Addr{}
}

// sourceTo returns the statement that gives a connection the source a.
func (f family) sourceTo(a netip.Addr) string {
	if !a.IsValid() {
		return "masquerade"
	}
	return "snat " + f.word + " to " + a.String()
}

// families lists the families of a host. HNS gives endpoints addresses of a family whether or not the host has it;
// missing ones are left out.
func families(u intent.Uplink) []family {
	if ipv6().usable(u.Address6.Addr()) {
		return []family{ipv4(), ipv6()}
	}
	return []family{ipv4()}
}

// familyOf returns the host's family of an address.
func (c *compiler) familyOf(a netip.Addr) (family, bool) {
	i := slices.IndexFunc(c.families, func(f family) bool { return f.has(a) })
	if i < 0 {
		return family{}, false
	}
	return c.families[i], true
}

// nodeLike returns the uplink's address of the family of a.
func (c *compiler) nodeLike(a netip.Addr) netip.Addr {
	f, _ := c.familyOf(a)
	return f.node(c.want.Uplink)
}

// addresses lists an endpoint's addresses of the host's families, each once.
func (c *compiler) addresses(e *intent.Endpoint) []netip.Prefix {
	var list []netip.Prefix
	for _, a := range e.Addresses {
		if _, ok := c.familyOf(a.Addr()); ok && a.IsValid() && !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	return list
}

// ipv6Sysctls are the settings of a link that has the family or not. The link gets no address of the kernel's making:
// its neighbours are permanent, and without a link-local address the kernel sends no redirects by it (Linux,
// net/ipv6/ndisc.c, ndisc_send_redirect).
func (c *compiler) ipv6Sysctls(link string) []Sysctl {
	path := "net/ipv6/conf/" + link
	if len(c.families) == 1 {
		return []Sysctl{{path + "/disable_ipv6", "1"}}
	}
	return []Sysctl{{path + "/addr_gen_mode", "1"}, {path + "/accept_ra", "0"}, {path + "/disable_ipv6", "0"}}
}
