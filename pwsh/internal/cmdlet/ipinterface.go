// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/internal/dotnet"
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

const ipInterfaceParams = "InterfaceAlias|ifAlias[]@0 InterfaceIndex|ifIndex:any AddressFamily "

// ipInterfaceCmdlets work on the protocols of adapters.
func ipInterfaceCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{
		{Name: "Get-NetIPInterface", Params: ipInterfaceParams + "Forwarding PolicyStore~ InputObject:any<",
			Process: func(c *interp.Invocation) error {
				list, err := ipInterfaces(c)
				if err != nil {
					return err
				}
				for _, p := range list {
					o := ipInterfaceObject(c.R, p)
					if f := c.Str("Forwarding", ""); f != "" && !strings.EqualFold(f, onOff(p.Forwarding)) {
						continue
					}
					if err := c.Write(o); err != nil {
						return err
					}
				}
				return nil
			}},
		{Name: "Set-NetIPInterface", Params: ipInterfaceParams + "Forwarding NlMtuBytes:int~ InterfaceMetric:int " +
			"Dhcp~ AutomaticMetric WeakHostSend WeakHostReceive PolicyStore PassThru? AsJob? InputObject:any<",
			Fidelity: "the settings of the persistent and of the active store are the same",
			Process:  setIPInterface},
	}
}

// ipInterface is a protocol with its adapter.
type ipInterface struct {
	host.IPInterface
	alias string
}

// ipInterfaces returns the interfaces that the arguments name, or that came down
// the pipeline; IPv6 first, as on Windows.
func ipInterfaces(c *interp.Invocation) ([]ipInterface, error) {
	list, err := chosen(c)
	if err != nil {
		return nil, err
	}
	protocols, err := c.R.Handlers().Net.IPInterfaces(c.R.Context())
	if err != nil {
		return nil, err
	}
	want, piped := pipedIndex(c)
	var out []ipInterface
	for _, family := range []string{"IPv6", "IPv4"} {
		if !strings.EqualFold(c.Str("AddressFamily", family), family) {
			continue
		}
		for _, a := range list {
			for _, p := range protocols {
				if p.Index == a.Index && p.IPv6 == (family == "IPv6") && (!piped || a.Index == want) {
					out = append(out, ipInterface{p, a.Name})
				}
			}
		}
	}
	if len(out) == 0 && (c.Has("InterfaceIndex") || c.Has("InterfaceAlias")) {
		property := "InterfaceIndex"
		if c.Has("InterfaceAlias") {
			property = "InterfaceAlias"
		}
		return nil, noObjects(c, "MSFT_NetIPInterface", property, c.R.Text(c.Any(property)))
	}
	return out, nil
}

func onOff(on bool) string {
	if on {
		return "Enabled"
	}
	return "Disabled"
}

func ipInterfaceObject(r *interp.Runner, p ipInterface) *value.Object {
	family := "IPv4"
	if p.IPv6 {
		family = "IPv6"
	}
	onOff := func(on bool) any {
		n := int64(0)
		if on {
			n = 1
		}
		return interp.EnumValue{Class: r.Class(dotnet.NetIPSwitch), N: n}
	}
	o := value.NewObject("Microsoft.Management.Infrastructure.CimInstance#ROOT/StandardCimv2/MSFT_NetIPInterface",
		"ifIndex", i32(p.Index), "InterfaceAlias", p.alias, "InterfaceIndex", i32(p.Index), "AddressFamily", family,
		"NlMtu", i32(p.MTU), "NlMtu(Bytes)", i32(p.MTU), "InterfaceMetric", i32(p.Metric), "AutomaticMetric",
		onOff(p.AutomaticMetric), "Dhcp", "Disabled", "ConnectionState", "Connected", "PolicyStore", "ActiveStore",
		"Forwarding", onOff(p.Forwarding), "WeakHostSend", onOff(p.WeakHostSend), "WeakHostReceive",
		onOff(p.WeakHostReceive))
	return show(o, "ifIndex", "InterfaceAlias", "AddressFamily", "NlMtu(Bytes)", "InterfaceMetric", "Dhcp",
		"ConnectionState", "PolicyStore")
}

func setIPInterface(c *interp.Invocation) error {
	change, err := ipInterfaceChange(c)
	if err != nil {
		return err
	}
	list, err := ipInterfaces(c)
	if err != nil {
		return c.Error(err)
	}
	for _, p := range list {
		change.Index, change.IPv6 = p.Index, p.IPv6
		if err := c.R.Handlers().Net.SetIPInterface(c.R.Context(), change); err != nil {
			return c.Error(cimError(c, "MSFT_NetIPInterface", err))
		}
	}
	return nil
}

func ipInterfaceChange(c *interp.Invocation) (change host.IPInterfaceChange, err error) {
	for name, to := range map[string]**bool{
		"Forwarding": &change.Forwarding, "AutomaticMetric": &change.AutomaticMetric,
		"WeakHostSend": &change.WeakHostSend, "WeakHostReceive": &change.WeakHostReceive,
	} {
		text := c.Str(name, "")
		switch {
		case !c.Has(name):
		case strings.EqualFold(text, "Enabled"):
			*to = new(true)
		case strings.EqualFold(text, "Disabled"):
			*to = new(false)
		default:
			return change, badArgument(name, "Cannot process argument transformation on parameter '%s'. Specify one "+
				"of the following enumerator names and try again: Enabled, Disabled", name)
		}
	}
	if c.Has("InterfaceMetric") {
		change.Metric = new(c.Int("InterfaceMetric", 0))
	}
	return change, nil
}

// cimError is the error of a CIM class for a change that the system refused. The
// number in its name is Windows' error code.
func cimError(c *interp.Invocation, class string, err error) error {
	fail := func(code, category, text string) error {
		return interp.Failf("Microsoft.Management.Infrastructure.CimException", "Windows System Error "+code+","+
			c.Cmd.Name, category, class, "%s", text)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return fail("87", "InvalidArgument", "Instance "+class+" already exists")
	case errors.Is(err, fs.ErrNotExist):
		return fail("1168", "ObjectNotFound", "Element not found.")
	case errors.Is(err, fs.ErrPermission):
		return fail("5", "PermissionDenied", "Access is denied.")
	}
	return fail("87", "InvalidArgument", err.Error())
}
