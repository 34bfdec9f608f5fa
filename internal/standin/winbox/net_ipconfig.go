// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/host"
)

// ipconfig shows adapters in the format that scripts cut apart:
// learn.microsoft.com/windows-server/administration/windows-commands/ipconfig.
func ipconfig(ctx context.Context, env *Env) int {
	option := ""
	if len(env.Args) > 0 {
		option = strings.ToLower(strings.TrimLeft(env.Args[0], "/-"))
	}
	switch option {
	case "", "all":
	case "flushdns":
		env.printf("\nWindows IP Configuration\n\nSuccessfully flushed the DNS Resolver Cache.\n")
		return 0
	case "displaydns":
		env.printf("\nWindows IP Configuration\n")
		return 0
	default:
		env.printf("\nError: unrecognized or incomplete command line.\n\nUSAGE:\n" +
			"    ipconfig [/all | /flushdns | /displaydns]\n")
		return 1
	}
	adapters, err := env.Host.Net.Adapters(ctx)
	if err != nil {
		env.errorf("ipconfig: %v\n", err)
		return 1
	}
	all := option == "all"
	env.printf("\nWindows IP Configuration\n\n")
	if all {
		env.printf("%s\n", globalConfig(env))
	}
	for _, a := range adapters {
		if !a.Loopback {
			env.printf("%s", adapterConfig(a, all))
		}
	}
	return 0
}

// tcpipKey holds the settings of DNS.
const tcpipKey = `HKLM\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters`

// searchList returns the DNS suffixes that complete names.
func searchList(env *Env) []string {
	if list := env.registryText(tcpipKey, "SearchList"); list != "" {
		return strings.Split(list, ",")
	}
	return env.System.SearchList()
}

// row returns a line with the leader dots that fill the name up to 34 columns.
func row(name string, values ...string) string {
	const width = 34
	for len(name) < width {
		if len(name)%2 == 0 {
			name += "."
		} else {
			name += " "
		}
	}
	if len(values) == 0 {
		values = []string{""}
	}
	// Further values of a list go below the first.
	return fmt.Sprintf("   %s: %s\n", name, strings.Join(values, "\n"+strings.Repeat(" ", 39)))
}

func globalConfig(env *Env) string {
	text := row("Host Name ", env.Host.System.Hostname()) +
		row("Primary Dns Suffix  ", env.registryText(tcpipKey, "Domain")) + row("Node Type ", "Hybrid") +
		row("IP Routing Enabled", "No") + row("WINS Proxy Enabled", "No")
	if list := searchList(env); len(list) > 0 {
		text += row("DNS Suffix Search List", list...)
	}
	return text
}

func adapterConfig(a host.Adapter, all bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Ethernet adapter %s:\n\n", a.Name)
	if !a.Up {
		b.WriteString(row("Media State ", "Media disconnected"))
	}
	b.WriteString(row("Connection-specific DNS Suffix  ", a.Suffix))
	preferred := ""
	if all {
		preferred = "(Preferred) "
		dhcp := "No"
		if a.DHCP {
			dhcp = "Yes"
		}
		b.WriteString(row("Description ", a.Description) + row("Physical Address", a.MAC) + row("DHCP Enabled", dhcp) +
			row("Autoconfiguration Enabled ", "Yes"))
	}
	addresses := slices.Clone(a.Addresses)
	slices.SortStableFunc(addresses, func(x, y netip.Prefix) int { return order(x.Addr()) - order(y.Addr()) })
	for _, p := range addresses {
		switch {
		case p.Addr().Is4():
			b.WriteString(row("IPv4 Address", p.Addr().String()+preferred))
			b.WriteString(row("Subnet Mask ", host.Mask(p)))
		case p.Addr().IsLinkLocalUnicast():
			b.WriteString(row("Link-local IPv6 Address ", zoned(a)(p.Addr())+preferred))
		default:
			b.WriteString(row("IPv6 Address", p.Addr().String()+preferred))
		}
	}
	b.WriteString(row("Default Gateway ", texts(sixFirst(a.Gateways), zoned(a))...))
	if all {
		if len(a.DNS) > 0 {
			b.WriteString(row("DNS Servers ", texts(a.DNS, zoned(a))...))
		}
		b.WriteString(row("NetBIOS over Tcpip", "Disabled"))
	}
	b.WriteString("\n")
	return b.String()
}

// order is the position of an address in ipconfig's lists: IPv6 first, link-local addresses after others.
func order(a netip.Addr) int {
	switch {
	case a.Is4():
		return 2
	case a.IsLinkLocalUnicast():
		return 1
	}
	return 0
}

func sixFirst(list []netip.Addr) []netip.Addr {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(x, y netip.Addr) int { return boolInt(x.Is4()) - boolInt(y.Is4()) })
	return list
}

// zoned returns the text of an address, a link-local one of IPv6 with the zone of its adapter.
func zoned(a host.Adapter) func(netip.Addr) string {
	return func(ip netip.Addr) string {
		if ip.Is6() && ip.IsLinkLocalUnicast() && a.Index != 0 {
			ip = ip.WithZone(strconv.Itoa(a.Index))
		}
		return ip.String()
	}
}

func texts(addrs []netip.Addr, text func(netip.Addr) string) []string {
	var out []string
	for _, a := range addrs {
		out = append(out, text(a))
	}
	return out
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
