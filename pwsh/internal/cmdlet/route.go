// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"cmp"
	"errors"
	"io/fs"
	"net/netip"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// The two stores of routes. Cmdlets that change something work on both by default.
const (
	activeStore     = "ActiveStore"
	persistentStore = "PersistentStore"
)

// stores returns the stores that -PolicyStore chooses.
func stores(c *interp.Invocation, usual ...string) ([]string, error) {
	name := c.Str("PolicyStore", "")
	switch {
	case name == "":
		return usual, nil
	case strings.EqualFold(name, activeStore):
		return []string{activeStore}, nil
	case strings.EqualFold(name, persistentStore):
		return []string{persistentStore}, nil
	}
	return nil, badArgument("PolicyStore", "The PolicyStore parameter was set to an invalid value: %s", name)
}

func routeObject(rt host.Route, store string, metrics map[int]int) *value.Object {
	protocol := "NetMgmt"
	if rt.Local {
		protocol = "Local"
	}
	var interfaceMetric any
	if m, ok := metrics[rt.Interface]; ok && store == activeStore {
		interfaceMetric = i32(m)
	}
	o := value.NewObject("Microsoft.Management.Infrastructure.CimInstance#ROOT/StandardCimv2/MSFT_NetRoute",
		"ifIndex", i32(rt.Interface), "DestinationPrefix", rt.Destination.String(), "NextHop", rt.NextHop.String(),
		"RouteMetric", i32(rt.Metric), "ifMetric", interfaceMetric, "PolicyStore", store, "InterfaceIndex",
		i32(rt.Interface), "InterfaceAlias", rt.Alias, "InterfaceMetric", interfaceMetric, "AddressFamily",
		map[bool]string{true: "IPv4", false: "IPv6"}[rt.Destination.Addr().Is4()], "Protocol", protocol, "State",
		"Alive", "Publish", "No", "Store", store, "TypeOfRoute", int32(3))
	o.Str = "MSFT_NetRoute (InstanceID = \"" + rt.Destination.String() + "\")"
	return show(o, "ifIndex", "DestinationPrefix", "NextHop", "RouteMetric", "ifMetric", "PolicyStore")
}

const routeParams = "DestinationPrefix[]@0 InterfaceIndex|ifIndex:any InterfaceAlias|ifAlias[] NextHop[] " +
	"AddressFamily[] RouteMetric:any PolicyStore Protocol[] State[] CimSession:any~ AsJob? PassThru? InputObject:any<"

func routeMatches(c *interp.Invocation, rt host.Route) (bool, error) {
	for name, have := range map[string]int{"InterfaceIndex": rt.Interface, "RouteMetric": rt.Metric} {
		v, ok := c.Get(name)
		if !ok {
			continue
		}
		if yes, err := containsInt(v, have); err != nil || !yes {
			return false, err
		}
	}
	protocol := "NetMgmt"
	if rt.Local {
		protocol = "Local"
	}
	for name, have := range map[string]string{
		"DestinationPrefix": rt.Destination.String(), "NextHop": rt.NextHop.String(), "InterfaceAlias": rt.Alias,
		"AddressFamily": map[bool]string{true: "IPv4", false: "IPv6"}[rt.Destination.Addr().Is4()],
		"Protocol":      protocol, "State": "Alive",
	} {
		if list := c.Strs(name); len(list) > 0 && !matches(list, have) {
			return false, nil
		}
	}
	return true, nil
}

// routes returns the routes of a store that the arguments name, in Windows' order: IPv4
// before IPv6, and within each the largest destination first.
func routes(c *interp.Invocation, store string) ([]host.Route, error) {
	n := c.R.Handlers().Net
	if n == nil {
		return nil, interp.NotImplemented("the network")
	}
	all, err := n.Routes(c.R.Context())
	if store == persistentStore {
		all, err = persistentRoutes(c)
	}
	if err != nil {
		return nil, err
	}
	want, piped := pipedIndex(c)
	var out []host.Route
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b host.Route) int {
		return cmp.Compare(a.Destination.Addr().BitLen(), b.Destination.Addr().BitLen())
	})
	for _, rt := range all {
		ok, err := routeMatches(c, rt)
		if err != nil {
			return nil, err
		}
		if ok && (!piped || rt.Interface == want) {
			out = append(out, rt)
		}
	}
	return out, nil
}

// interfaceMetrics returns the IPv4 metrics by interface index.
func interfaceMetrics(c *interp.Invocation) map[int]int {
	metrics := map[int]int{}
	n := c.R.Handlers().Net
	if n == nil {
		return metrics
	}
	list, err := n.IPInterfaces(c.R.Context())
	if err != nil {
		return metrics // they are shown only
	}
	for _, p := range list {
		if !p.IPv6 {
			metrics[p.Index] = p.Metric
		}
	}
	return metrics
}

// routeCmdlets work on the routing table; flannel's host-gw backend runs them.
func routeCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{
		{Name: "Get-NetRoute", Params: routeParams, Process: getRoutes},
		{Name: "New-NetRoute", Params: routeParams, Process: newRoute,
			Fidelity: "persistent routes are stored without their adapter, as by `route -p`"},
		{Name: "Remove-NetRoute", Params: routeParams, Process: removeRoutes},
	}
}

func getRoutes(c *interp.Invocation) error {
	list, err := stores(c, activeStore)
	if err != nil {
		return err
	}
	found, metrics := false, interfaceMetrics(c)
	for _, store := range list {
		routes, err := routes(c, store)
		if err != nil {
			return err
		}
		for _, rt := range routes {
			found = true
			if err := c.Write(routeObject(rt, store, metrics)); err != nil {
				return err
			}
		}
	}
	return noRoutes(c, found)
}

// noRoutes is the error if a route is named and not found.
func noRoutes(c *interp.Invocation, found bool) error {
	for _, name := range []string{"DestinationPrefix", "NextHop", "InterfaceAlias"} {
		if want := c.Strs(name); !found && len(want) > 0 && !value.HasWildcard(want[0]) {
			return c.Error(noObjects(c, "MSFT_NetRoute", name, want[0]))
		}
	}
	return nil
}

func newRoute(c *interp.Invocation) error {
	rt, err := routeArgs(c)
	if err != nil {
		return err
	}
	list, err := stores(c, activeStore, persistentStore)
	if err != nil {
		return err
	}
	if ok, err := c.ShouldProcess(rt.Destination.String(), "New-NetRoute"); err != nil || !ok {
		return err
	}
	if c.R.Handlers().Net == nil {
		return interp.NotImplemented("the network")
	}
	for _, store := range list {
		if store == persistentStore {
			err = host.KeepRoute(c.R.Handlers().Registry, rt)
		} else {
			err = c.R.Handlers().Net.AddRoute(c.R.Context(), rt)
		}
		if err != nil {
			return c.Error(cimError(c, "MSFT_NetRoute", err))
		}
		if err := c.Write(routeObject(rt, store, interfaceMetrics(c))); err != nil {
			return err
		}
	}
	return nil
}

func removeRoutes(c *interp.Invocation) error {
	list, err := stores(c, activeStore, persistentStore)
	if err != nil {
		return err
	}
	rt, piped, err := pipedRoute(c)
	if err != nil {
		return err
	}
	if piped {
		return removeRoute(c, rt, list)
	}
	found, done := false, map[host.Route]bool{}
	for _, store := range list {
		routes, err := routes(c, store)
		if err != nil {
			return err
		}
		for _, rt := range routes {
			found = true
			key := host.Route{Interface: rt.Interface, Destination: rt.Destination, NextHop: rt.NextHop}
			if done[key] {
				continue
			}
			done[key] = true
			if err := removeRoute(c, rt, list); err != nil {
				return err
			}
		}
	}
	return noRoutes(c, found)
}

// pipedRoute reads an object of Get-NetRoute from the pipeline.
func pipedRoute(c *interp.Invocation) (rt host.Route, ok bool, err error) {
	if rt.Interface, ok = pipedIndex(c); !ok {
		return rt, false, nil
	}
	d, ok1 := c.R.HasProperty(c.Item, "DestinationPrefix")
	h, ok2 := c.R.HasProperty(c.Item, "NextHop")
	if !ok1 || !ok2 {
		return rt, false, nil // an adapter: its routes are meant
	}
	if rt.Destination, err = netip.ParsePrefix(value.String(d)); err != nil {
		return rt, false, badArgument("DestinationPrefix", "Instance DestinationPrefix: %s", err.Error())
	}
	if rt.NextHop, err = netip.ParseAddr(value.String(h)); err != nil {
		return rt, false, badArgument("NextHop", "Instance NextHop: %s", err.Error())
	}
	return rt, true, nil
}

func removeRoute(c *interp.Invocation, rt host.Route, stores []string) error {
	if ok, err := c.ShouldProcess("NetRoute -DestinationPrefix "+rt.Destination.String()+" -InterfaceIndex "+
		value.String(i32(rt.Interface))+" -NextHop "+rt.NextHop.String(), "Remove"); err != nil || !ok {
		return err
	}
	kept := 0
	if slices.Contains(stores, persistentStore) {
		var err error
		if kept, err = host.ForgetRoute(c.R.Handlers().Registry, rt); err != nil {
			return c.Error(cimError(c, "MSFT_NetRoute", err))
		}
	}
	if !slices.Contains(stores, activeStore) {
		return nil
	}
	err := c.R.Handlers().Net.DeleteRoute(c.R.Context(), rt)
	if err != nil && (kept == 0 || !errors.Is(err, fs.ErrNotExist)) {
		return c.Error(cimError(c, "MSFT_NetRoute", err))
	}
	return nil
}

func routeArgs(c *interp.Invocation) (rt host.Route, err error) {
	want := c.Strs("DestinationPrefix")
	if len(want) != 1 {
		return rt, badArgument("DestinationPrefix", "Cannot process command because of one or more missing mandatory "+
			"parameters: DestinationPrefix.")
	}
	if rt.Destination, err = netip.ParsePrefix(want[0]); err != nil {
		return rt, badArgument("DestinationPrefix", "Invalid parameter DestinationPrefix %s", want[0])
	}
	rt.NextHop = netip.IPv4Unspecified()
	if !rt.Destination.Addr().Is4() {
		rt.NextHop = netip.IPv6Unspecified()
	}
	if hops := c.Strs("NextHop"); len(hops) > 0 {
		if rt.NextHop, err = netip.ParseAddr(hops[0]); err != nil {
			return rt, badArgument("NextHop", "Invalid parameter NextHop %s", hops[0])
		}
	}
	if v, ok := c.Get("RouteMetric"); ok {
		if rt.Metric, err = value.ToInt(v); err != nil {
			return rt, err
		}
	} else {
		rt.Metric = 256 // the default of New-NetRoute
	}
	if v, ok := c.Get("InterfaceIndex"); ok {
		rt.Interface, err = value.ToInt(v)
		return rt, err
	}
	list, err := adapters(c)
	if err != nil {
		return rt, err
	}
	for _, a := range list {
		if len(c.Strs("InterfaceAlias")) > 0 && matches(c.Strs("InterfaceAlias"), a.Name) {
			rt.Interface, rt.Alias = a.Index, a.Name
			return rt, nil
		}
	}
	return rt, badArgument("InterfaceIndex", "Cannot process command because of one or more missing mandatory "+
		"parameters: InterfaceIndex.")
}

// persistentRoutes lists the persistent routes with their adapters.
func persistentRoutes(c *interp.Invocation) ([]host.Route, error) {
	out, err := host.PersistentRoutes(c.R.Handlers().Registry)
	if err != nil || len(out) == 0 {
		return nil, err
	}
	list, err := adapters(c)
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i].Interface, out[i].Alias = adapterOf(list, out[i].NextHop)
	}
	return out, nil
}

// adapterOf finds the adapter by which a next hop is reached: the adapter whose
// subnet contains it, else the first one with a default route.
func adapterOf(list []host.Adapter, hop netip.Addr) (int, string) {
	covers := func(a host.Adapter) bool {
		return slices.ContainsFunc(a.Addresses, func(p netip.Prefix) bool { return p.Masked().Contains(hop) })
	}
	i := slices.IndexFunc(list, covers)
	if i < 0 {
		i = slices.IndexFunc(list, func(a host.Adapter) bool { return len(a.Gateways) > 0 })
	}
	if i < 0 {
		return 0, ""
	}
	return list[i].Index, list[i].Name
}
