// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package dotnet

import (
	"slices"
	"strconv"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// sid is System.Security.Principal.SecurityIdentifier.
type sid struct{ text, name string }

// String returns the identifier itself.
func (s sid) String() string { return s.text }

func sidObject(r *interp.Runner, text, name string) any {
	s := sid{text, name}
	return instance(r, "System.Security.Principal.SecurityIdentifier", s, s.String)
}

// ntAccount is System.Security.Principal.NTAccount.
func ntAccount(name string) *value.Object {
	o := value.NewObject("System.Security.Principal.NTAccount", "Value", name)
	o.Str = name
	return o
}

// localGroup is the prefix of the identifiers of BUILTIN's groups.
const localGroup = "S-1-5-32-"

// identityClasses returns the types for the account that a program runs as.
func identityClasses() []*interp.Class {
	const principal = "System.Security.Principal."
	roles := numbered(principal+"WindowsBuiltInRole", false, member("Administrator", 544), member("User", 545),
		member("Guest", 546), member("PowerUser", 547))
	return []*interp.Class{
		roles,
		{Name: principal + "SecurityIdentifier", Props: []interp.Property{
			get("Value", func(s sid) any { return s.text }),
		}, Methods: []interp.Method{
			// Fidelity: simplified - for any requested type, the result is an account's name.
			method("Translate", func(_ *interp.Call, s sid) (any, error) {
				if s.name == "" {
					return nil, interp.Failf("System.Security.Principal.IdentityNotMappedException",
						"IdentityNotMappedException", "InvalidOperation", s.text,
						"Some or all identity references could not be translated.")
				}
				return value.NewObject(principal+"NTAccount", "Value", s.name), nil
			}),
		}},
		{Name: principal + "NTAccount", New: func(c *interp.Call) (any, error) {
			return ntAccount(c.Str(0)), c.Need(1)
		}},
		{Name: principal + "WindowsIdentity", StaticMethods: []interp.Method{
			static("GetCurrent", func(c *interp.Call) (any, error) {
				s := c.R.Handlers().System
				if s == nil {
					return nil, interp.NotImplemented("[WindowsIdentity]::GetCurrent()")
				}
				id, err := s.Identity()
				if err != nil {
					return nil, err
				}
				return instance(c.R, principal+"WindowsIdentity", id, nil), nil
			}),
		}, Props: []interp.Property{
			get("Name", func(id host.Identity) any { return id.Name }),
			getErr("User", func(c *interp.Call, id host.Identity) (any, error) {
				return sidObject(c.R, id.SID, id.Name), nil
			}),
			getErr("Groups", func(c *interp.Call, id host.Identity) (any, error) {
				a := &value.Array{Elem: "Object"}
				for _, g := range id.Groups {
					a.Items = append(a.Items, sidObject(c.R, g.SID, g.Name))
				}
				return a, nil
			}),
			get("IsSystem", func(id host.Identity) any { return id.SID == "S-1-5-18" }),
			get("IsAuthenticated", func(host.Identity) any { return true }),
			get("IsAnonymous", func(host.Identity) any { return false }),
			get("IsGuest", func(host.Identity) any { return false }),
		}},
		{Name: principal + "WindowsPrincipal", New: func(c *interp.Call) (any, error) {
			id, ok := data[host.Identity](c.Arg(0))
			if !ok {
				return nil, argError("Value cannot be null. Parameter name: ntIdentity")
			}
			return instance(c.R, principal+"WindowsPrincipal", &id, nil), nil
		}, Props: []interp.Property{
			getErr("Identity", func(c *interp.Call, id *host.Identity) (any, error) {
				return instance(c.R, principal+"WindowsIdentity", *id, nil), nil
			}),
		}, Methods: []interp.Method{
			method("IsInRole", func(c *interp.Call, id *host.Identity) (any, error) {
				role := c.Arg(0)
				want := c.Str(0)
				if s, ok := data[sid](role); ok {
					want = s.text
				} else if n, err := c.R.ConvertTo(role, principal+"WindowsBuiltInRole"); err == nil {
					if number, err := c.R.ConvertTo(n, "System.String"); err == nil {
						for _, m := range roles.Enum {
							if m.Name == number {
								want = localGroup + strconv.FormatInt(m.Value, 10)
							}
						}
					}
				}
				return slices.ContainsFunc(id.Groups, func(g host.IdentityGroup) bool {
					return g.SID == want || strings.EqualFold(g.Name, want)
				}), nil
			}),
		}},
	}
}
