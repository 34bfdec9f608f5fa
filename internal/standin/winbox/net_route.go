// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/host"
)

// route shows and changes the routing table:
// https://learn.microsoft.com/windows-server/administration/windows-commands/route_ws2008, read 2026-11.
// Its messages are the ones Windows Server 2019 prints.
func route(ctx context.Context, env *Env) int {
	var words []string
	persistent, four, six := false, false, false
	for _, a := range env.Args {
		switch strings.ToLower(a) {
		case "-p", "/p":
			persistent = true
		case "-4", "/4":
			four = true
		case "-6", "/6":
			six = true
		case "-f", "/f":
			env.errorf("route: %s is not supported by this stand-in\n", a)
			return 1
		default:
			words = append(words, strings.ToLower(a))
		}
	}
	if len(words) == 0 {
		return routeUsage(env)
	}
	if words[0] == "print" {
		return routePrint(ctx, env, words[1:], four || !six, six || !four)
	}
	if six {
		env.errorf("route: -6 is supported by this stand-in for PRINT only\n")
		return 1
	}
	switch words[0] {
	case "add", "change":
		return routeAdd(ctx, env, words, persistent)
	case "delete":
		return routeDelete(ctx, env, words[1:])
	}
	return routeUsage(env)
}

func routeUsage(env *Env) int {
	env.errorf("\nManipulates network routing tables.\n\nROUTE [-p] [-4|-6] command [destination]\n" +
		"                  [MASK netmask]  [gateway] [METRIC metric]  [IF interface]\n\n" +
		"  command      One of these:\n                 PRINT     Prints  a route\n                 ADD       Adds " +
		"   a route\n                 DELETE    Deletes a route\n" +
		"                 CHANGE    Modifies an existing route\n")
	return 1
}

// routeWords are the arguments after a command.
type routeWords struct {
	destination netip.Prefix
	hop         netip.Addr
	metric      int
	index       int
}

// parse reads DESTINATION [mask MASK] [GATEWAY] [metric N] [if N]. The error is
// Windows' text.
func parseRoute(words []string) (w routeWords, err error) {
	w.metric = 1
	address, mask := netip.Addr{}, netip.AddrFrom4([4]byte{255, 255, 255, 255})
	for i := 0; i < len(words); i++ {
		value := ""
		if i+1 < len(words) {
			value = words[i+1]
		}
		switch word := words[i]; {
		case word == "mask":
			if mask, err = netip.ParseAddr(value); err != nil {
				return w, fmt.Errorf("route: bad mask %s", value)
			}
			i++
		case word == "metric" || word == "if":
			base := 10
			if strings.HasPrefix(value, "0x") {
				base, value = 16, value[2:]
			}
			n, err := strconv.ParseUint(value, base, 16)
			if err != nil {
				return w, fmt.Errorf("route: bad argument %s", value)
			}
			if word == "if" {
				w.index = int(n)
			} else {
				w.metric = int(n)
			}
			i++
		case !address.IsValid():
			if address, err = netip.ParseAddr(word); err != nil {
				return w, fmt.Errorf("route: bad destination address %s", word)
			}
		default:
			if w.hop, err = netip.ParseAddr(word); err != nil {
				return w, fmt.Errorf("route: bad gateway address %s", word)
			}
		}
	}
	prefix, ok := host.MaskedPrefix(address, mask)
	if !ok {
		return w, fmt.Errorf("route: bad mask %s", mask)
	}
	w.destination = prefix
	return w, nil
}

func routeAdd(ctx context.Context, env *Env, words []string, persistent bool) int {
	w, err := parseRoute(words[1:])
	if err != nil {
		env.errorf("%v\n", err)
		return 1
	}
	fail := func(why string) int {
		env.errorf("The route addition failed: %s\n\n", why)
		return 1
	}
	if !w.hop.IsValid() {
		return routeUsage(env)
	}
	if w.destination != w.destination.Masked() {
		return fail("The specified mask parameter is invalid. (Destination & Mask) != Destination.")
	}
	list, err := links(ctx, env)
	if err != nil {
		return fail(err.Error())
	}
	i := slices.IndexFunc(list, func(i link) bool {
		return (w.index == 0 || i.Index == w.index) && (i.covers(w.hop) || w.hop.IsUnspecified() && w.index != 0)
	})
	if i < 0 {
		return fail("Either the interface index is wrong or the gateway does not lie on the same network as the " +
			"interface. Check the IP Address Table for the machine.")
	}
	r := host.Route{Interface: list[i].Index, Destination: w.destination, NextHop: w.hop, Metric: w.metric}
	if slices.ContainsFunc(list[i].Addresses, func(p netip.Prefix) bool { return p.Addr() == w.hop }) {
		r.NextHop = netip.IPv4Unspecified()
	}
	if words[0] == "change" {
		if code := routeDelete(ctx, env, []string{w.destination.Addr().String(), "mask",
			host.Mask(w.destination)}); code != 0 {
			return code
		}
	}
	err = env.Host.Net.AddRoute(ctx, r)
	if err == nil && persistent {
		err = host.KeepRoute(env.Host.Registry, r)
	}
	if err != nil {
		return fail(windowsText(err))
	}
	if words[0] == "add" {
		env.printf(" OK!\n")
	}
	return 0
}

// windowsText returns Windows' text of an error, or route.exe's own message for a caller without rights.
func windowsText(err error) string {
	switch {
	case errors.Is(err, fs.ErrExist):
		return "The object already exists."
	case errors.Is(err, fs.ErrNotExist):
		return "Element not found."
	case errors.Is(err, fs.ErrPermission):
		return "The requested operation requires elevation."
	}
	return err.Error()
}

// link is an adapter with its IPv4.
type link struct {
	host.Adapter
	ip host.IPInterface
}

// links returns the adapters that have IPv4.
func links(ctx context.Context, env *Env) ([]link, error) {
	adapters, err := env.Host.Net.Adapters(ctx)
	if err != nil {
		return nil, err
	}
	settings, err := env.Host.Net.IPInterfaces(ctx)
	if err != nil {
		return nil, err
	}
	var out []link
	for _, a := range adapters {
		for _, s := range settings {
			if s.Index == a.Index && !s.IPv6 {
				out = append(out, link{a, s})
			}
		}
	}
	return out, nil
}

func (l link) covers(a netip.Addr) bool {
	return slices.ContainsFunc(l.Addresses, func(p netip.Prefix) bool { return p.Masked().Contains(a) })
}

// own returns the first IPv4 address of the adapter.
func (l link) own() netip.Addr {
	for _, p := range l.Addresses {
		if p.Addr().Is4() {
			return p.Addr()
		}
	}
	return netip.IPv4Unspecified()
}

// routesOf returns the table of IPv4, or of IPv6.
func routesOf(ctx context.Context, env *Env, ipv6 bool) ([]host.Route, error) {
	list, err := env.Host.Net.Routes(ctx)
	return slices.DeleteFunc(list, func(r host.Route) bool { return r.Destination.Addr().Is6() != ipv6 }), err
}

func routeDelete(ctx context.Context, env *Env, words []string) int {
	w, err := parseRoute(words)
	if err != nil {
		env.errorf("%v\n", err)
		return 1
	}
	named := slices.Contains(words, "mask")
	routes, err := routesOf(ctx, env, false)
	if err != nil {
		env.errorf("The route deletion failed: %v\n\n", err)
		return 1
	}
	n := 0
	for _, r := range routes {
		if r.Destination.Addr() != w.destination.Addr() || named && r.Destination != w.destination ||
			w.hop.IsValid() && r.NextHop != w.hop || w.index != 0 && r.Interface != w.index {
			continue
		}
		kept := 0
		err := env.Host.Net.DeleteRoute(ctx, r)
		if err == nil {
			kept, err = host.ForgetRoute(env.Host.Registry, r)
		}
		if err != nil {
			env.errorf("The route deletion failed: %s\n\n", windowsText(err))
			return 1
		}
		n += 1 + kept
	}
	if n == 0 {
		env.errorf("The route deletion failed: Element not found.\n\n")
		return 1
	}
	env.printf(" OK!\n")
	return 0
}

const routeRule = "===========================================================================\n"

// routePrint shows the interfaces, and the tables of the families that are wanted.
func routePrint(ctx context.Context, env *Env, words []string, four, six bool) int {
	list, err := links(ctx, env)
	if err != nil {
		env.errorf("route: %v\n", err)
		return 1
	}
	wanted := func(r host.Route) bool {
		return len(words) == 0 || strings.HasPrefix(r.Destination.Addr().String(), strings.TrimRight(words[0], "*"))
	}
	tables := ""
	if four {
		text, err := table4(ctx, env, list, wanted)
		if err != nil {
			env.errorf("route: %v\n", err)
			return 1
		}
		tables += text
	}
	if six {
		text, err := table6(ctx, env, list, wanted)
		if err != nil {
			env.errorf("route: %v\n", err)
			return 1
		}
		tables += text
	}
	env.printf("%sInterface List\n", routeRule)
	for _, i := range slices.Backward(list) {
		mac := "..........................." // 27, as wide as an address and its dots
		if i.MAC != "" {
			mac = "..." + strings.ToLower(strings.ReplaceAll(i.MAC, "-", " ")) + " ......"
		}
		env.printf("%3d%s%s\n", i.Index, mac, i.Description)
	}
	env.printf("%s%s", routeRule, tables)
	return 0
}

// table4 is the IPv4 part of `route print`.
func table4(ctx context.Context, env *Env, list []link, wanted func(host.Route) bool) (string, error) {
	routes, err := routesOf(ctx, env, false)
	if err != nil {
		return "", err
	}
	kept, err := host.PersistentRoutes(env.Host.Registry)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nIPv4 Route Table\n%sActive Routes:\n", routeRule)
	b.WriteString("Network Destination        Netmask          Gateway       Interface  Metric\n")
	for _, r := range routes {
		i := slices.IndexFunc(list, func(l link) bool { return l.Index == r.Interface })
		if i < 0 || !wanted(r) {
			continue
		}
		fmt.Fprintf(&b, "%17s %16s %16s %16s %6d\n", r.Destination.Addr(), host.Mask(r.Destination), gateway(r),
			list[i].own(), r.Metric+list[i].ip.Metric)
	}
	fmt.Fprintf(&b, "%sPersistent Routes:\n", routeRule)
	var lines strings.Builder
	for _, r := range kept {
		if wanted(r) {
			fmt.Fprintf(&lines, "%17s %16s %16s %7d\n", r.Destination.Addr(), host.Mask(r.Destination), r.NextHop,
				r.Metric)
		}
	}
	if lines.Len() == 0 {
		b.WriteString("  None\n")
	} else {
		fmt.Fprintf(&b, "  Network Address          Netmask  Gateway Address  Metric\n%s%s", lines.String(), routeRule)
	}
	return b.String(), nil
}

func gateway(r host.Route) string {
	if r.NextHop.IsUnspecified() {
		return "On-link"
	}
	return r.NextHop.String()
}

// table6 is the IPv6 part of `route print`. The gateway of a long destination goes on a separate line.
func table6(ctx context.Context, env *Env, list []link, wanted func(host.Route) bool) (string, error) {
	routes, err := routesOf(ctx, env, true)
	if err != nil {
		return "", err
	}
	var lines strings.Builder
	for _, r := range routes {
		i := slices.IndexFunc(list, func(l link) bool { return l.Index == r.Interface })
		if i < 0 || !wanted(r) {
			continue
		}
		const width = 24
		destination := fmt.Sprintf("%-*s", width, r.Destination)
		if len(destination) > width {
			destination += "\n" + strings.Repeat(" ", 35)
		}
		fmt.Fprintf(&lines, "%3d %6d %s %s\n", r.Interface, r.Metric+list[i].ip.Metric, destination, gateway(r))
	}
	text := fmt.Sprintf("\nIPv6 Route Table\n%sActive Routes:\n", routeRule)
	if lines.Len() == 0 {
		text += "  None\n"
	} else {
		text += " If Metric Network Destination      Gateway\n" + lines.String() + routeRule
	}
	return text + "Persistent Routes:\n  None\n", nil
}
