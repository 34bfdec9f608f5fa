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

// netsh implements the part of `netsh interface ipv4` that is about routes and
// interfaces. Words may be shortened, as SDN's scripts do (`netsh in ipv4 set int 4
// fo=dis`):
// https://learn.microsoft.com/windows-server/administration/windows-commands/netsh-interface-ipv4, read 2026-11.
func netsh(ctx context.Context, env *Env) int {
	args := env.Args
	short := func(i int, word string, least int) bool {
		return i < len(args) && len(args[i]) >= least && strings.HasPrefix(word, strings.ToLower(args[i]))
	}
	if len(args) == 4 && short(0, "interface", 2) && short(1, "ipv6", 4) && short(2, "show", 2) &&
		short(3, "route", 1) {
		return netshShowRoute(ctx, env, true)
	}
	if len(args) < 4 || !short(0, "interface", 2) || !short(1, "ipv4", 2) {
		env.errorf("The following command was not found: %s.\n", strings.Join(args, " "))
		env.errorf("This stand-in knows `netsh interface ipv4` add, delete, show route and set, show interface,\n" +
			"and `netsh interface ipv6 show route`.\n")
		return 1
	}
	rest := args[4:]
	interfaces := short(3, "interfaces", 3)
	switch {
	case short(2, "add", 1) && short(3, "route", 1):
		return netshRoute(ctx, env, rest, true)
	case short(2, "delete", 1) && short(3, "route", 1):
		return netshRoute(ctx, env, rest, false)
	case short(2, "show", 2) && short(3, "route", 1):
		return netshShowRoute(ctx, env, false)
	case short(2, "set", 3) && interfaces:
		return netshSetInterface(ctx, env, rest)
	case short(2, "show", 2) && interfaces:
		return netshShowInterface(ctx, env, rest)
	}
	env.errorf("The following command was not found: %s.\n", strings.Join(args, " "))
	return 1
}

// netshWords gives words names: KEY=VALUE, where a key may be shortened, or values in
// the order of the keys.
func netshWords(words, keys []string) (map[string]string, bool) {
	got := map[string]string{}
	next := 0
	for _, w := range words {
		key, value, named := strings.Cut(w, "=")
		if !named {
			if next == len(keys) {
				return nil, false
			}
			got[keys[next]] = w
			next++
			continue
		}
		key = strings.ToLower(key)
		i := slices.IndexFunc(keys, func(k string) bool { return key != "" && strings.HasPrefix(k, key) })
		if i < 0 {
			return nil, false
		}
		got[keys[i]], next = value, i+1
	}
	return got, true
}

// netshInterface finds an interface by its name or index.
func netshInterface(ctx context.Context, env *Env, text string) (link, bool) {
	list, err := links(ctx, env)
	if err != nil {
		return link{}, false
	}
	i := slices.IndexFunc(list, func(i link) bool {
		return strconv.Itoa(i.Index) == text || strings.EqualFold(i.Name, text)
	})
	if i < 0 {
		return link{}, false
	}
	return list[i], true
}

// noInterface is Windows' message about a missing interface.
const noInterface = "The filename, directory name, or volume label syntax is incorrect."

func netshFail(env *Env, text string) int {
	env.printf("%s\n\n", text)
	return 1
}

func netshRoute(ctx context.Context, env *Env, words []string, add bool) int {
	keys := []string{"prefix", "interface", "nexthop", "siteprefixlength", "metric", "publish", "age", "validlifetime",
		"preferredlifetime", "store"}
	got, ok := netshWords(words, keys)
	if !ok {
		return netshFail(env, "The syntax supplied for this command is not valid. Check help for the correct syntax.")
	}
	prefix, err := netip.ParsePrefix(got["prefix"])
	i, found := netshInterface(ctx, env, got["interface"])
	if !found {
		return netshFail(env, noInterface)
	}
	r := host.Route{Interface: i.Index, Destination: prefix, NextHop: netip.IPv4Unspecified()}
	if hop := got["nexthop"]; err == nil && hop != "" {
		r.NextHop, err = netip.ParseAddr(hop)
	}
	if metric := got["metric"]; err == nil && metric != "" {
		r.Metric, err = strconv.Atoi(metric)
	}
	if err != nil || !prefix.Addr().Is4() || !r.NextHop.Is4() {
		return netshFail(env, "The parameter is incorrect.")
	}
	active := strings.HasPrefix("active", strings.ToLower(got["store"])) && got["store"] != ""
	if add {
		if err = env.Host.Net.AddRoute(ctx, r); err == nil && !active {
			err = host.KeepRoute(env.Host.Registry, r)
		}
	} else {
		if err = env.Host.Net.DeleteRoute(ctx, r); err == nil && !active {
			_, err = host.ForgetRoute(env.Host.Registry, r)
		}
	}
	if err != nil {
		return netshFail(env, windowsText(err))
	}
	env.printf("Ok.\n\n")
	return 0
}

func netshShowRoute(ctx context.Context, env *Env, ipv6 bool) int {
	routes, err := routesOf(ctx, env, ipv6)
	if err != nil {
		return netshFail(env, err.Error())
	}
	env.printf("\nPublish  Type      Met  Prefix                    Idx  Gateway/Interface Name\n" +
		"-------  --------  ---  ------------------------  ---  ------------------------\n")
	for _, r := range routes {
		kind, hop := "Manual", r.NextHop.String()
		if r.Local {
			kind = "System"
		}
		if r.NextHop.IsUnspecified() {
			hop = r.Alias
		}
		env.printf("No       %-8s  %-3d  %-24s  %3d  %s\n", kind, r.Metric, r.Destination, r.Interface, hop)
	}
	env.printf("\n")
	return 0
}

func netshSetInterface(ctx context.Context, env *Env, words []string) int {
	got, ok := netshWords(words, []string{"interface", "forwarding", "advertise", "mtu", "siteprefixlength", "nud",
		"basereachabletime", "retransmittime", "dadtransmits", "routerdiscovery", "managedaddress", "otherstateful",
		"weakhostsend", "weakhostreceive", "ignoredefaultroutes", "advertisedrouterlifetime", "advertisedefaultroute",
		"currenthoplimit", "forcearpndwolpattern", "enabledirectedmacwolpattern", "ecncapability", "rabaseddnsconfig",
		"dhcp", "dhcpstaticipcoexistence", "store", "metric"})
	if !ok {
		return netshFail(env, "The syntax supplied for this command is not valid. Check help for the correct syntax.")
	}
	i, found := netshInterface(ctx, env, got["interface"])
	if !found {
		return netshFail(env, noInterface)
	}
	change := host.IPInterfaceChange{Index: i.Index}
	for key, value := range got {
		to := map[string]**bool{
			"forwarding": &change.Forwarding, "weakhostsend": &change.WeakHostSend,
			"weakhostreceive": &change.WeakHostReceive,
		}[key]
		on := strings.HasPrefix("enabled", strings.ToLower(value))
		n, err := strconv.Atoi(value)
		switch {
		case key == "interface" || key == "store":
		case to != nil && value != "" && (on || strings.HasPrefix("disabled", strings.ToLower(value))):
			*to = &on
		case key == "metric" && err == nil && n > 0:
			change.Metric = &n
		case key == "metric" && strings.EqualFold(value, "automatic"):
			automatic := true
			change.AutomaticMetric = &automatic
		case to != nil || key == "metric":
			return netshFail(env, fmt.Sprintf("%s is not an acceptable value for %s.", value, key))
		default:
			return netshFail(env, "The request is not supported.")
		}
	}
	if err := env.Host.Net.SetIPInterface(ctx, change); err != nil {
		return netshFail(env, windowsText(err))
	}
	env.printf("Ok.\n\n")
	return 0
}

func netshShowInterface(ctx context.Context, env *Env, words []string) int {
	if len(words) == 0 {
		list, err := links(ctx, env)
		if err != nil {
			return netshFail(env, err.Error())
		}
		env.printf("\nIdx     Met         MTU          State                Name\n" +
			"---  ----------  ----------  ------------  ---------------------------\n")
		for _, i := range list {
			env.printf("%3d  %10d  %10d  connected     %s\n", i.Index, i.ip.Metric, i.ip.MTU, i.Name)
		}
		env.printf("\n")
		return 0
	}
	got, _ := netshWords(words[:1], []string{"interface"})
	i, found := netshInterface(ctx, env, got["interface"])
	if !found {
		return netshFail(env, noInterface)
	}
	title := fmt.Sprintf("Interface %s Parameters", i.Name)
	env.printf("\n%s\n%s\n", title, strings.Repeat("-", 46))
	for _, line := range []struct{ name, value string }{
		{"IfIndex", strconv.Itoa(i.Index)}, {"State", "connected"}, {"Metric", strconv.Itoa(i.ip.Metric)},
		{"Link MTU", fmt.Sprintf("%d bytes", i.ip.MTU)}, {"Forwarding", netshSwitch(i.ip.Forwarding)},
		{"Weak Host Sends", netshSwitch(i.ip.WeakHostSend)}, {"Weak Host Receives", netshSwitch(i.ip.WeakHostReceive)},
		{"Use Automatic Metric", netshSwitch(i.ip.AutomaticMetric)},
	} {
		env.printf("%-35s: %s\n", line.name, line.value)
	}
	env.printf("\n")
	return 0
}

func netshSwitch(on bool) string {
	if on {
		return "enabled"
	}
	return "disabled"
}
