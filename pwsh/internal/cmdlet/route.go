// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"net/netip"

	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

func routeObject(rt host.Route) *value.Object {
	o := value.NewObject("Microsoft.Management.Infrastructure.CimInstance#ROOT/StandardCimv2/MSFT_NetRoute",
		"ifIndex", i32(rt.Interface), "DestinationPrefix", rt.Destination.String(), "NextHop", rt.NextHop.String(),
		"RouteMetric", i32(rt.Metric), "ifMetric", int32(15), "PolicyStore", "ActiveStore", "InterfaceIndex",
		i32(rt.Interface), "InterfaceAlias", rt.Alias, "AddressFamily",
		map[bool]string{true: "IPv4", false: "IPv6"}[rt.Destination.Addr().Is4()], "Protocol", "NetMgmt", "State",
		"Alive", "Publish", "No", "Store", "ActiveStore", "TypeOfRoute", int32(3))
	o.Str = "MSFT_NetRoute (InstanceID = \"" + rt.Destination.String() + "\")"
	return show(o, "ifIndex", "DestinationPrefix", "NextHop", "RouteMetric", "ifMetric", "PolicyStore")
}

const routeParams = "DestinationPrefix[]@0 InterfaceIndex|ifIndex:any InterfaceAlias|ifAlias[] NextHop[] " +
	"AddressFamily[] RouteMetric:any PolicyStore Protocol[] State[] CimSession:any~ AsJob? PassThru? InputObject:any<"

func routeMatches(c *interp.Invocation, rt host.Route) (bool, error) {
	if v, ok := c.Get("InterfaceIndex"); ok {
		if yes, err := containsInt(v, rt.Interface); err != nil || !yes {
			return false, err
		}
	}
	if list := c.Strs("DestinationPrefix"); len(list) > 0 && !matches(list, rt.Destination.String()) {
		return false, nil
	}
	if list := c.Strs("NextHop"); len(list) > 0 && !matches(list, rt.NextHop.String()) {
		return false, nil
	}
	if list := c.Strs("InterfaceAlias"); len(list) > 0 && !matches(list, rt.Alias) {
		return false, nil
	}
	if list := c.Strs("AddressFamily"); len(list) > 0 {
		return matches(list, map[bool]string{true: "IPv4", false: "IPv6"}[rt.Destination.Addr().Is4()]), nil
	}
	return true, nil
}

func routes(c *interp.Invocation) ([]host.Route, error) {
	n := c.R.Handlers().Net
	if n == nil {
		return nil, interp.NotImplemented("the network")
	}
	all, err := n.Routes(c.R.Context())
	if err != nil {
		return nil, err
	}
	var out []host.Route
	for _, rt := range all {
		ok, err := routeMatches(c, rt)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, rt)
		}
	}
	return out, nil
}

// routeCmdlets work on the routing table; flannel's host-gw backend runs them.
func routeCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{
		{Name: "Get-NetRoute", Params: routeParams, Process: func(c *interp.Invocation) error {
			list, err := routes(c)
			if err != nil {
				return err
			}
			for _, rt := range list {
				if err := c.Write(routeObject(rt)); err != nil {
					return err
				}
			}
			if want := c.Strs("DestinationPrefix"); len(list) == 0 && len(want) > 0 {
				return c.Error(noObjects("MSFT_NetRoute", "DestinationPrefix", want[0]))
			}
			return nil
		}},
		{Name: "New-NetRoute", Params: routeParams, Process: func(c *interp.Invocation) error {
			rt, err := routeArgs(c)
			if err != nil {
				return err
			}
			if ok, err := c.ShouldProcess(rt.Destination.String(), "New-NetRoute"); err != nil || !ok {
				return err
			}
			if c.R.Handlers().Net == nil {
				return interp.NotImplemented("the network")
			}
			if err := c.R.Handlers().Net.AddRoute(c.R.Context(), rt); err != nil {
				return c.Error(interp.Failf("Microsoft.Management.Infrastructure.CimException",
					"Windows System Error 87", "ResourceExists", rt.Destination.String(), "Add route %s: %s",
					rt.Destination, err.Error()))
			}
			return c.Write(routeObject(rt))
		}},
		{Name: "Remove-NetRoute", Params: routeParams, Process: func(c *interp.Invocation) error {
			if v, ok := pipedIndex(c); ok {
				_ = v
				p, _ := c.R.HasProperty(c.Item, "DestinationPrefix")
				h, _ := c.R.HasProperty(c.Item, "NextHop")
				d, err := netip.ParsePrefix(value.String(p))
				if err != nil {
					return badArgument("DestinationPrefix", "Instance DestinationPrefix: %s", err.Error())
				}
				hop, err := netip.ParseAddr(value.String(h))
				if err != nil {
					return badArgument("NextHop", "Instance NextHop: %s", err.Error())
				}
				return removeRoute(c, host.Route{Interface: v, Destination: d, NextHop: hop})
			}
			list, err := routes(c)
			if err != nil {
				return err
			}
			if want := c.Strs("DestinationPrefix"); len(list) == 0 && len(want) > 0 {
				return c.Error(noObjects("MSFT_NetRoute", "DestinationPrefix", want[0]))
			}
			for _, rt := range list {
				if err := removeRoute(c, rt); err != nil {
					return err
				}
			}
			return nil
		}},
	}
}

func removeRoute(c *interp.Invocation, rt host.Route) error {
	if ok, err := c.ShouldProcess("NetRoute -DestinationPrefix "+rt.Destination.String()+" -InterfaceIndex "+
		value.String(i32(rt.Interface))+" -NextHop "+rt.NextHop.String(), "Remove"); err != nil || !ok {
		return err
	}
	if err := c.R.Handlers().Net.DeleteRoute(c.R.Context(), rt); err != nil {
		return c.Error(interp.Failf("Microsoft.Management.Infrastructure.CimException", "Windows System Error 1168",
			"ObjectNotFound", rt.Destination.String(), "Remove route %s: %s", rt.Destination, err.Error()))
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
