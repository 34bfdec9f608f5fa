// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"encoding/hex"
	"net/netip"
	"strconv"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// adapters lists the network interfaces, with and without a link.
func adapters(c *interp.Invocation) ([]host.Adapter, error) {
	n := c.R.Handlers().Net
	if n == nil {
		return nil, interp.NotImplemented("the network")
	}
	return n.Adapters(c.R.Context())
}

// linkLocal returns the address that every Windows interface has: where the
// interface doesn't show it, the one that RFC 4291 derives from its MAC.
func linkLocal(a host.Adapter) (netip.Prefix, bool) {
	mac, err := hex.DecodeString(strings.NewReplacer("-", "", ":", "").Replace(a.MAC))
	if err != nil || len(mac) != 6 {
		return netip.Prefix{}, false
	}
	b := [16]byte{0: 0xfe, 1: 0x80, 8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4],
		15: mac[5]}
	return netip.PrefixFrom(netip.AddrFrom16(b), 64), true
}

// addresses returns an adapter's addresses in the order of Get-NetIPAddress: IPv6
// first, link-local ones before others.
func addresses(a host.Adapter) []netip.Prefix {
	var six, rest, four []netip.Prefix
	for _, p := range a.Addresses {
		switch {
		case p.Addr().Unmap().Is4():
			four = append(four, p)
		case p.Addr().IsLinkLocalUnicast():
			six = append(six, p)
		default:
			rest = append(rest, p)
		}
	}
	if len(six) == 0 && !a.Loopback {
		if p, ok := linkLocal(a); ok {
			six = append(six, p)
		}
	}
	return append(append(six, rest...), four...)
}

func adapterObject(a host.Adapter) *value.Object {
	status, speed := "Up", strconv.FormatInt(a.BitsPerSec/1_000_000_000, 10)+" Gbps"
	if !a.Up {
		status = "Disconnected"
	}
	if a.BitsPerSec < 1_000_000_000 {
		speed = strconv.FormatInt(a.BitsPerSec/1_000_000, 10) + " Mbps"
	}
	o := value.NewObject("Microsoft.Management.Infrastructure.CimInstance#ROOT/StandardCimv2/MSFT_NetAdapter",
		"Name", a.Name, "InterfaceDescription", a.Description, "ifIndex", i32(a.Index), "Status", status, "MacAddress",
		a.MAC, "LinkSpeed", speed, "InterfaceIndex", i32(a.Index), "InterfaceAlias", a.Name, "ifAlias", a.Name,
		"ifName", a.Name, "MtuSize", i32(a.MTU), "AdminStatus", "Up", "MediaConnectionState",
		map[bool]string{true: "Connected", false: "Disconnected"}[a.Up], "Virtual", true, "HardwareInterface", false,
		"Speed", a.BitsPerSec, "SystemName", "")
	o.Str = "MSFT_NetAdapter (Name = \"" + a.Name + "\")"
	return show(o, "Name", "InterfaceDescription", "ifIndex", "Status", "MacAddress", "LinkSpeed")
}

func addressObject(a host.Adapter, p netip.Prefix) *value.Object {
	addr := p.Addr().Unmap()
	family, text := "IPv6", addr.String()
	prefixOrigin, suffixOrigin := "Manual", "Manual"
	if addr.Is4() {
		family = "IPv4"
	} else if addr.IsLinkLocalUnicast() {
		text = addr.WithZone("").String() + "%" + strconv.Itoa(a.Index)
		prefixOrigin, suffixOrigin = "WellKnown", "Link"
	}
	if a.Loopback {
		prefixOrigin, suffixOrigin = "WellKnown", "WellKnown"
	}
	o := value.NewObject("Microsoft.Management.Infrastructure.CimInstance#ROOT/StandardCimv2/MSFT_NetIPAddress",
		"IPAddress", text, "InterfaceIndex", i32(a.Index), "InterfaceAlias", a.Name, "AddressFamily", family, "Type",
		"Unicast", "PrefixLength", uint8(p.Bits()), "PrefixOrigin", prefixOrigin, "SuffixOrigin", suffixOrigin,
		"AddressState", "Preferred", "ValidLifetime", "Infinite ([TimeSpan]::MaxValue)", "PreferredLifetime",
		"Infinite ([TimeSpan]::MaxValue)", "SkipAsSource", false, "PolicyStore", "ActiveStore", "ifIndex", i32(a.Index),
		"IPv4Address", nil, "IPv6Address", nil)
	if addr.Is4() {
		o.Set("IPv4Address", text)
	} else {
		o.Set("IPv6Address", text)
	}
	o.Str = "MSFT_NetIPAddress (Name = \"" + text + "\")"
	return asList(o, "IPAddress", "InterfaceIndex", "InterfaceAlias", "AddressFamily", "Type", "PrefixLength",
		"PrefixOrigin", "SuffixOrigin", "AddressState", "ValidLifetime", "PreferredLifetime", "SkipAsSource",
		"PolicyStore")
}

// chosen returns the adapters that the arguments name, or that came down the
// pipeline.
func chosen(c *interp.Invocation) ([]host.Adapter, error) {
	list, err := adapters(c)
	if err != nil {
		return nil, err
	}
	var out []host.Adapter
	for _, a := range list {
		if v, ok := c.Get("InterfaceIndex"); ok {
			n, err := containsInt(v, a.Index)
			if err != nil {
				return nil, err
			}
			if !n {
				continue
			}
		}
		if list := c.Strs("InterfaceAlias"); len(list) > 0 && !matches(list, a.Name) {
			continue
		}
		if list := c.Strs("Name"); len(list) > 0 && !matches(list, a.Name) {
			continue
		}
		out = append(out, a)
	}
	return out, nil
}

func containsInt(v any, want int) (bool, error) {
	items, ok := value.Items(v)
	if !ok {
		items = []any{v}
	}
	for _, x := range items {
		n, err := value.ToInt(x)
		if err != nil {
			return false, err
		}
		if n == want {
			return true, nil
		}
	}
	return false, nil
}

// noObjects is the CIM cmdlets' error for a query without results.
func noObjects(c *interp.Invocation, class, property, val string) error {
	return interp.Failf("Microsoft.PowerShell.Cmdletization.Cim.CimJobException", "CmdletizationQuery_NotFound_"+
		property+","+c.Cmd.Name, "ObjectNotFound", val, "No matching %s objects found by CIM query for instances of "+
		"the ROOT/StandardCimv2/%s class on the  CIM server: verify the query parameters and retry.", class, class)
}

// pipedIndex returns the ifIndex of an object from the pipeline (-AssociatedAdapter
// and its like), which Windows associates.
func pipedIndex(c *interp.Invocation) (int, bool) {
	if !c.HasItem {
		return 0, false
	}
	v, ok := c.R.HasProperty(c.Item, "ifIndex")
	if !ok {
		return 0, false
	}
	n, err := value.ToInt(v)
	return n, err == nil
}

// netCmdlets are adapters, addresses and name servers.
//
// Length: one table; splitting hides which names belong together.
func netCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{
		{Name: "Get-NetAdapter", Params: "Name|ifAlias|InterfaceAlias[]@0 InterfaceIndex|ifIndex:any " +
			"InterfaceDescription|ifDesc[] Physical?~ IncludeHidden?= CimSession:any~",
			Fidelity: "a pod's adapter is a veth with Linux's name and description",
			Process: func(c *interp.Invocation) error {
				list, err := chosen(c)
				if err != nil {
					return err
				}
				found := false
				for _, a := range list {
					if a.Loopback || len(c.Strs("InterfaceDescription")) > 0 && !matches(c.Strs("InterfaceDescription"),
						a.Description) {
						continue
					}
					found = true
					if err := c.Write(adapterObject(a)); err != nil {
						return err
					}
				}
				if names := c.Strs("Name"); !found && len(names) > 0 && !value.HasWildcard(names[0]) {
					return c.Error(interp.Failf("Microsoft.PowerShell.Cmdletization.Cim.CimJobException",
						"CmdletizationQuery_NotFound_Name", "ObjectNotFound", names[0],
						"No MSFT_NetAdapter objects found with property 'Name' equal to '%s'.  Verify the value of "+
							"the property and retry.", names[0]))
				}
				return nil
			}},
		{Name: "Get-NetIPAddress", Params: "IPAddress|LocalAddress[]@0 InterfaceIndex|ifIndex:any " +
			"InterfaceAlias|ifAlias[] AddressFamily PrefixLength:any AddressState[] Type[] PrefixOrigin[] " +
			"SuffixOrigin[] AssociatedIPInterface:any~ CimSession:any~ PolicyStore InputObject:any<",
			Fidelity: "an adapter without a link-local IPv6 address shows the address of its MAC",
			Process: func(c *interp.Invocation) error {
				list, err := chosen(c)
				if err != nil {
					return err
				}
				want, piped := pipedIndex(c)
				found := false
				for _, a := range list {
					if piped && a.Index != want {
						continue
					}
					for _, p := range addresses(a) {
						o := addressObject(a, p)
						if !addressMatches(c, o) {
							continue
						}
						found = true
						if err := c.Write(o); err != nil {
							return err
						}
					}
				}
				if ips := c.Strs("IPAddress"); !found && len(ips) > 0 {
					return c.Error(noObjects(c, "MSFT_NetIPAddress", "IPAddress", ips[0]))
				}
				return nil
			}},
		{Name: "Get-NetIPConfiguration", Aliases: []string{"gip"},
			Params: "InterfaceAlias|ifAlias[]@0.< InterfaceIndex|ifIndex:any All?= Detailed?~",
			Process: func(c *interp.Invocation) error {
				list, err := chosen(c)
				if err != nil {
					return err
				}
				for _, a := range list {
					if a.Loopback {
						continue
					}
					if err := c.Write(configObject(a)); err != nil {
						return err
					}
				}
				return nil
			}},
		{Name: "Get-DnsClientServerAddress", Params: "InterfaceAlias|ifAlias[]@0 InterfaceIndex|ifIndex:any " +
			"AddressFamily", Process: func(c *interp.Invocation) error {
			list, err := chosen(c)
			if err != nil {
				return err
			}
			want, piped := pipedIndex(c)
			for _, a := range list {
				if piped && a.Index != want {
					continue
				}
				for _, family := range []string{"IPv4", "IPv6"} {
					if f := c.Str("AddressFamily", family); !strings.EqualFold(f, family) {
						continue
					}
					servers := []string{}
					for _, d := range a.DNS {
						if d.Unmap().Is4() == (family == "IPv4") {
							servers = append(servers, d.Unmap().String())
						}
					}
					o := value.NewObject(
						"Microsoft.Management.Infrastructure.CimInstance#"+
							"ROOT/StandardCimv2/MSFT_DNSClientServerAddress",
						"InterfaceAlias", a.Name, "InterfaceIndex", i32(a.Index), "AddressFamily",
						uint16(map[string]int{"IPv4": 2, "IPv6": 23}[family]), "ServerAddresses",
						value.NewStrings(servers), "Address", value.NewStrings(servers))
					if err := c.Write(show(o, "InterfaceAlias", "InterfaceIndex", "AddressFamily",
						"ServerAddresses")); err != nil {
						return err
					}
				}
			}
			return nil
		}},
	}
}

func addressMatches(c *interp.Invocation, o *value.Object) bool {
	for _, f := range []struct{ param, prop string }{{"IPAddress", "IPAddress"}, {"AddressState", "AddressState"},
		{"Type", "Type"}, {"PrefixOrigin", "PrefixOrigin"}, {"SuffixOrigin", "SuffixOrigin"}} {
		v, _ := o.Get(f.prop)
		if list := c.Strs(f.param); len(list) > 0 && !matches(list, value.String(v)) {
			return false
		}
	}
	if want, ok := c.Get("PrefixLength"); ok {
		v, _ := o.Get("PrefixLength")
		if !value.Equal(v, want, false) {
			return false
		}
	}
	if fam := c.Str("AddressFamily", ""); fam != "" {
		v, _ := o.Get("AddressFamily")
		return strings.EqualFold(fam, value.String(v))
	}
	return true
}

func configObject(a host.Adapter) *value.Object {
	var four, six []any
	for _, p := range addresses(a) {
		o := addressObject(a, p)
		if p.Addr().Unmap().Is4() {
			four = append(four, o)
		} else {
			six = append(six, o)
		}
	}
	gateways := map[bool][]any{} // of IPv4, and of IPv6
	for _, g := range a.Gateways {
		o := value.NewObject("Microsoft.Management.Infrastructure.CimInstance#ROOT/StandardCimv2/MSFT_NetRoute",
			"NextHop", g.String(), "DestinationPrefix", map[bool]string{true: "0.0.0.0/0", false: "::/0"}[g.Is4()],
			"ifIndex", i32(a.Index))
		o.Str = "MSFT_NetRoute"
		gateways[g.Is4()] = append(gateways[g.Is4()], o)
	}
	var dns []any
	for _, d := range a.DNS {
		dns = append(dns, d.Unmap().String())
	}
	return asList(value.NewObject("NetIPConfiguration", "InterfaceAlias", a.Name, "InterfaceIndex", i32(a.Index),
		"InterfaceDescription", a.Description, "NetAdapter", adapterObject(a), "IPv4Address", value.Collapse(four),
		"IPv6LinkLocalAddress", value.Collapse(six), "IPv4DefaultGateway", value.Collapse(gateways[true]),
		"IPv6DefaultGateway", value.Collapse(gateways[false]), "DNSServer",
		value.NewObject("", "ServerAddresses", value.NewArray(dns...))),
		"InterfaceAlias", "InterfaceIndex", "InterfaceDescription", "IPv4Address", "IPv4DefaultGateway", "DNSServer")
}
