// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package dotnet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// accessControl is the namespace of the types that describe who may use a file.
const accessControl = "System.Security.AccessControl."

// FileSecurity is the state of a FileSecurity or DirectorySecurity.
type FileSecurity struct {
	host.Security
	NewOwner bool // the owner was set
}

// NewFileSecurity returns a FileSecurity, or a DirectorySecurity for a directory.
func NewFileSecurity(r *interp.Runner, s host.Security, dir bool) *interp.Instance {
	class := accessControl + "FileSecurity"
	if dir {
		class = accessControl + "DirectorySecurity"
	}
	return instance(r, class, &FileSecurity{Security: s}, nil)
}

// SecurityOf returns the state of a FileSecurity.
func SecurityOf(v any) (*FileSecurity, bool) { return data[*FileSecurity](v) }

// accessClasses returns the types of access control.
func accessClasses() []*interp.Class {
	classes := append(accessEnums(), ruleClass())
	for _, name := range []string{"FileSecurity", "DirectorySecurity"} {
		classes = append(classes, securityClass(accessControl+name))
	}
	return classes
}

func accessEnums() []*interp.Class {
	return []*interp.Class{
		enum(accessControl+"AccessControlType", "Allow", "Deny"),
		numbered(accessControl+"InheritanceFlags", true,
			member("None", 0), member("ContainerInherit", 1), member("ObjectInherit", 2)),
		numbered(accessControl+"PropagationFlags", true,
			member("None", 0), member("NoPropagateInherit", 1), member("InheritOnly", 2)),
		// Of two names of a number the first is shown.
		numbered(accessControl+"FileSystemRights", true,
			member("ReadData", 1), member("ListDirectory", 1), member("CreateFiles", 2), member("WriteData", 2),
			member("AppendData", 4), member("CreateDirectories", 4), member("ReadExtendedAttributes", 8),
			member("WriteExtendedAttributes", 0x10), member("ExecuteFile", 0x20), member("Traverse", 0x20),
			member("DeleteSubdirectoriesAndFiles", 0x40), member("ReadAttributes", 0x80),
			member("WriteAttributes", 0x100), member("Write", 0x116), member("Delete", 0x10000),
			member("ReadPermissions", 0x20000), member("Read", 0x20089), member("ReadAndExecute", 0x200a9),
			member("Modify", 0x301bf), member("ChangePermissions", 0x40000), member("TakeOwnership", 0x80000),
			member("Synchronize", 0x100000), member("FullControl", 0x1f01ff)),
	}
}

// fileRights shows the rights; the generic ones are a negative number as on .NET.
func fileRights(r *interp.Runner, n uint32) interp.EnumValue {
	return interp.EnumValue{Class: r.Class(accessControl + "FileSystemRights"), N: int64(int32(n))}
}

func identityReference(r *interp.Runner, a host.Account) any {
	if a.Name == "" {
		return sidObject(r, a.SID, "")
	}
	return ntAccount(a.Name)
}

func ruleObject(r *interp.Runner, rule host.AccessRule) *interp.Instance {
	return instance(r, accessControl+"FileSystemAccessRule", &rule, nil)
}

// findAccount returns the account that an argument names.
func findAccount(c *interp.Call, i int) (host.Account, error) {
	s := c.R.Handlers().Security
	if s == nil {
		return host.Account{}, interp.NotImplemented("access control, which only Windows has,")
	}
	name := c.Str(i)
	a, err := s.FindAccount(name)
	if err != nil {
		return a, interp.Failf("System.Security.Principal.IdentityNotMappedException", "IdentityNotMappedException",
			"InvalidOperation", name, "Some or all identity references could not be translated.")
	}
	return a, nil
}

func accessEnum(c *interp.Call, i int, class string) (int64, error) {
	v, err := interp.EnumOf(c.R.Class(accessControl+class), value.Unwrap(c.Arg(i)))
	return v.N, err
}

// newRule is FileSystemAccessRule(identity, rights, [inheritance, propagation,] type).
func newRule(c *interp.Call) (any, error) {
	if err := c.Need(3, 5); err != nil {
		return nil, err
	}
	a, err := findAccount(c, 0)
	if err != nil {
		return nil, err
	}
	rule := host.AccessRule{Account: a}
	rights, err := accessEnum(c, 1, "FileSystemRights")
	if err != nil {
		return nil, err
	}
	if c.N() == 5 {
		inheritance, err := accessEnum(c, 2, "InheritanceFlags")
		if err != nil {
			return nil, err
		}
		propagation, err := accessEnum(c, 3, "PropagationFlags")
		if err != nil {
			return nil, err
		}
		rule.Inheritance, rule.Propagation = int(inheritance), int(propagation)
	}
	kind, err := accessEnum(c, c.N()-1, "AccessControlType")
	if err != nil {
		return nil, err
	}
	rule.Deny = kind == 1
	rule.Rights = uint32(rights)
	if !rule.Deny { // as .NET does
		rule.Rights |= 0x100000
	}
	return ruleObject(c.R, rule), nil
}

func ruleClass() *interp.Class {
	type rule = *host.AccessRule
	number := func(name, class string, f func(r rule) int64) interp.Property {
		return getErr(name, func(c *interp.Call, r rule) (any, error) {
			return interp.EnumValue{Class: c.R.Class(accessControl + class), N: f(r)}, nil
		})
	}
	return &interp.Class{Name: accessControl + "FileSystemAccessRule", New: newRule, Props: []interp.Property{
		getErr("FileSystemRights", func(c *interp.Call, r rule) (any, error) { return fileRights(c.R, r.Rights), nil }),
		number("AccessControlType", "AccessControlType", func(r rule) int64 {
			if r.Deny {
				return 1
			}
			return 0
		}),
		getErr("IdentityReference", func(c *interp.Call, r rule) (any, error) {
			return identityReference(c.R, r.Account), nil
		}),
		get("IsInherited", func(r rule) any { return r.Inherited }),
		number("InheritanceFlags", "InheritanceFlags", func(r rule) int64 { return int64(r.Inheritance) }),
		number("PropagationFlags", "PropagationFlags", func(r rule) int64 { return int64(r.Propagation) }),
	}}
}

func securityClass(name string) *interp.Class {
	type security = *FileSecurity
	change := func(name string, f func(s security, r *host.AccessRule)) interp.Method {
		return method(name, func(c *interp.Call, s security) (any, error) {
			r, ok := data[*host.AccessRule](c.Arg(0))
			if !ok {
				return nil, argError("Value cannot be null. Parameter name: rule")
			}
			f(s, r)
			return interp.Void, nil
		})
	}
	same := func(r *host.AccessRule) func(have host.AccessRule) bool {
		return func(have host.AccessRule) bool {
			return !have.Inherited && have.SID == r.SID && have.Deny == r.Deny
		}
	}
	return &interp.Class{
		Name: name,
		New: func(c *interp.Call) (any, error) {
			return NewFileSecurity(c.R, host.Security{}, strings.HasSuffix(name, "DirectorySecurity")), c.Need(0)
		},
		Props: []interp.Property{
			get("Owner", func(s security) any { return accountName(s.Owner) }),
			get("Group", func(s security) any { return accountName(s.Group) }),
			getErr("Access", func(c *interp.Call, s security) (any, error) { return rules(c.R, s), nil }),
			getErr("AccessToString", func(c *interp.Call, s security) (any, error) { return accessText(c.R, s), nil }),
			get("Sddl", func(s security) any { return sddl(s.Security) }),
			get("AreAccessRulesProtected", func(s security) any { return s.Protected }),
		},
		Methods: []interp.Method{
			change("AddAccessRule", func(s security, r *host.AccessRule) { s.Rules = addRule(s.Rules, *r) }),
			change("SetAccessRule", func(s security, r *host.AccessRule) {
				s.Rules = addRule(slices.DeleteFunc(slices.Clone(s.Rules), same(r)), *r)
			}),
			change("RemoveAccessRuleAll", func(s security, r *host.AccessRule) {
				s.Rules = slices.DeleteFunc(slices.Clone(s.Rules), same(r))
			}),
			method("RemoveAccessRule", func(c *interp.Call, s security) (any, error) {
				r, ok := data[*host.AccessRule](c.Arg(0))
				if !ok {
					return nil, argError("Value cannot be null. Parameter name: rule")
				}
				s.Rules = removeRule(s.Rules, *r)
				return true, nil
			}),
			method("SetAccessRuleProtection", func(c *interp.Call, s security) (any, error) {
				if err := c.Need(2); err != nil {
					return nil, err
				}
				protect(s, value.Bool(c.Arg(0)), value.Bool(c.Arg(1)))
				return interp.Void, nil
			}),
			method("SetOwner", func(c *interp.Call, s security) (any, error) {
				a, err := findAccount(c, 0)
				if err == nil {
					s.Owner, s.NewOwner = a, true
				}
				return interp.Void, err
			}),
			// Fidelity: simplified - the rules name accounts, for any requested type.
			method("GetAccessRules", func(c *interp.Call, s security) (any, error) {
				own, others := value.Bool(c.Arg(0)), value.Bool(c.Arg(1))
				wanted := slices.DeleteFunc(slices.Clone(s.Rules), func(r host.AccessRule) bool {
					return r.Inherited && !others || !r.Inherited && !own
				})
				return rules(c.R, &FileSecurity{Security: host.Security{Rules: wanted}}), nil
			}),
		},
	}
}

func accountName(a host.Account) string {
	if a.Name == "" {
		return a.SID
	}
	return a.Name
}

func rules(r *interp.Runner, s *FileSecurity) *value.Array {
	a := &value.Array{Elem: "Object"}
	for _, rule := range s.Rules {
		a.Items = append(a.Items, ruleObject(r, rule))
	}
	return a
}

// accessText is AccessToString: a line for each rule.
func accessText(r *interp.Runner, s *FileSecurity) string {
	var lines []string
	for _, rule := range s.Rules {
		kind := "Allow"
		if rule.Deny {
			kind = "Deny"
		}
		rights := fileRights(r, rule.Rights).Text()
		lines = append(lines, fmt.Sprintf("%s %s  %s", accountName(rule.Account), kind, rights))
	}
	return strings.Join(lines, "\n")
}

// addRule merges a rule with one of the same kind, or puts it into its place: own
// refusals, own grants, inherited rules.
func addRule(list []host.AccessRule, r host.AccessRule) []host.AccessRule {
	list = slices.Clone(list)
	for i, have := range list {
		merged := have
		merged.Rights = r.Rights
		if merged == r {
			list[i].Rights |= r.Rights
			return list
		}
	}
	at := slices.IndexFunc(list, func(have host.AccessRule) bool {
		return have.Inherited || r.Deny && !have.Deny
	})
	if at < 0 {
		at = len(list)
	}
	return slices.Insert(list, at, r)
}

// removeRule removes rights, and a rule without remaining rights.
func removeRule(list []host.AccessRule, r host.AccessRule) []host.AccessRule {
	var out []host.AccessRule
	for _, have := range list {
		if !have.Inherited && have.SID == r.SID && have.Deny == r.Deny && have.Inheritance == r.Inheritance {
			have.Rights &^= r.Rights
			if have.Rights&^0x100000 == 0 {
				continue
			}
		}
		out = append(out, have)
	}
	return out
}

// protect is SetAccessRuleProtection.
func protect(s *FileSecurity, on, keep bool) {
	s.Protected = on
	if !on {
		return
	}
	var out []host.AccessRule
	for _, r := range s.Rules {
		if r.Inherited && !keep {
			continue
		}
		r.Inherited = false
		out = append(out, r)
	}
	s.Rules = out
}

// sddl returns a descriptor in the language of security descriptors:
// learn.microsoft.com, "Security Descriptor String Format".
func sddl(s host.Security) string {
	names := map[string]string{
		"S-1-5-32-544": "BA", "S-1-5-32-545": "BU", "S-1-5-18": "SY", "S-1-1-0": "WD", "S-1-3-0": "CO",
		"S-1-5-11": "AU",
		"S-1-5-19": "LS", "S-1-5-20": "NS",
	}
	short := func(sid string) string {
		if n, ok := names[sid]; ok {
			return n
		}
		return sid
	}
	var b strings.Builder
	if s.Owner.SID != "" {
		b.WriteString("O:" + short(s.Owner.SID))
	}
	if s.Group.SID != "" {
		b.WriteString("G:" + short(s.Group.SID))
	}
	b.WriteString("D:")
	if s.Protected {
		b.WriteString("P")
	}
	b.WriteString("AI")
	for _, r := range s.Rules {
		kind, flags := "A", ""
		if r.Deny {
			kind = "D"
		}
		for i, f := range []bool{
			r.Inheritance&2 != 0, r.Inheritance&1 != 0, r.Propagation&1 != 0, r.Propagation&2 != 0, r.Inherited,
		} {
			if f {
				flags += []string{"OI", "CI", "NP", "IO", "ID"}[i]
			}
		}
		rights := fmt.Sprintf("%#x", r.Rights)
		switch r.Rights {
		case 0x1f01ff:
			rights = "FA"
		case 0x10000000:
			rights = "GA"
		}
		fmt.Fprintf(&b, "(%s;%s;%s;;;%s)", kind, flags, rights, short(r.SID))
	}
	return b.String()
}
