// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

func registry(c *interp.Invocation) (host.Registry, error) {
	if r := c.R.Handlers().Registry; r != nil {
		return r, nil
	}
	return nil, interp.NotImplemented("the registry, which only Windows has,")
}

func noKey(name string) error {
	return interp.Failf("System.Management.Automation.ItemNotFoundException", "PathNotFound", "ObjectNotFound", name,
		"Cannot find path '%s' because it does not exist.", drivePath(name))
}

// drivePath returns the path of a key as a path of its drive.
func drivePath(name string) string {
	hive, rest, _ := strings.Cut(name, `\`)
	return hive + `:\` + rest
}

func registryItem(c *interp.Invocation, name string) error {
	reg, err := registry(c)
	if err != nil {
		return err
	}
	if !reg.Exists(name) {
		return noKey(name)
	}
	vals, err := reg.Values(name)
	if err != nil {
		return err
	}
	keys, err := reg.Keys(name)
	if err != nil {
		return err
	}
	names := make([]string, len(vals))
	for i, v := range vals {
		names[i] = v.Name
	}
	o := value.NewObject("Microsoft.Win32.RegistryKey", "Name", longHive(name), "Property", value.NewStrings(names),
		"SubKeyCount", i32(len(keys)), "ValueCount", i32(len(vals)), "PSPath", "Microsoft.PowerShell.Core\\Registry::"+
			longHive(name), "PSChildName", interp.LeafPath(name), "PSIsContainer", true)
	o.Str = longHive(name)
	return c.Write(show(o, "Name", "Property"))
}

func registryChildren(c *interp.Invocation, name string) error {
	reg, err := registry(c)
	if err != nil {
		return err
	}
	keys, err := reg.Keys(name)
	if err != nil {
		return noKey(name)
	}
	for _, k := range keys {
		if err := registryItem(c, name+`\`+k); err != nil {
			return err
		}
	}
	return nil
}

func newRegistryKey(c *interp.Invocation, name string) error {
	reg, err := registry(c)
	if err != nil {
		return err
	}
	if err := reg.CreateKey(name); err != nil {
		return err
	}
	return registryItem(c, name)
}

func removeRegistryKey(c *interp.Invocation, name string) error {
	reg, err := registry(c)
	if err != nil {
		return err
	}
	if !reg.Exists(name) {
		return noKey(name)
	}
	if c.Switch("Recurse") {
		keys, err := reg.Keys(name)
		if err != nil {
			return err
		}
		for _, k := range keys {
			if err := removeRegistryKey(c, name+`\`+k); err != nil {
				return err
			}
		}
	}
	return reg.DeleteKey(name)
}

func regValue(v host.RegValue) any {
	switch x := v.Data.(type) {
	case []string:
		return value.NewStrings(x)
	case []byte:
		return value.NewBytes(x)
	case uint32:
		return int32(x)
	case uint64:
		return int64(x)
	}
	return v.Data
}

// itemPropertyCmdlets work on registry values and files' properties.
func itemPropertyCmdlets() []*interp.Cmdlet {
	set := func(name string, aliases []string) *interp.Cmdlet {
		return &interp.Cmdlet{
			Name:    name,
			Aliases: aliases,
			Params:  "Path[]@0. Name@1 Value:any@2 LiteralPath|PSPath[] Type|PropertyType Force? PassThru?",
			Process: func(c *interp.Invocation) error {
				for _, p := range append(c.Strs("Path"), c.Strs("LiteralPath")...) {
					if err := c.Error(setProperty(c, p)); err != nil {
						return err
					}
				}
				return nil
			},
		}
	}
	return []*interp.Cmdlet{
		{Name: "Get-ItemProperty", Aliases: []string{"gp"}, Params: "Path[]@0.< Name[]@1 LiteralPath|PSPath[] Filter",
			Process: func(c *interp.Invocation) error {
				for _, p := range append(c.Strs("Path"), c.Strs("LiteralPath")...) {
					if err := c.Error(getProperty(c, p, false)); err != nil {
						return err
					}
				}
				return nil
			}},
		{Name: "Get-ItemPropertyValue", Aliases: []string{"gpv"},
			Params: "Path[]@0.< Name[]@1! LiteralPath|PSPath[] Filter", Process: func(c *interp.Invocation) error {
				for _, p := range append(c.Strs("Path"), c.Strs("LiteralPath")...) {
					if err := c.Error(getProperty(c, p, true)); err != nil {
						return err
					}
				}
				return nil
			}},
		set("Set-ItemProperty", []string{"sp"}), set("New-ItemProperty", nil),
		{Name: "Remove-ItemProperty", Aliases: []string{"rp"},
			Params: "Path[]@0. Name[]@1! LiteralPath|PSPath[] Force?", Process: func(c *interp.Invocation) error {
				reg, err := registry(c)
				if err != nil {
					return err
				}
				for _, p := range append(c.Strs("Path"), c.Strs("LiteralPath")...) {
					_, key, _ := providerPath(p)
					for _, n := range c.Strs("Name") {
						if err := reg.DeleteValue(key, n); err != nil {
							if err := c.Error(noProperty(n, longHive(key))); err != nil {
								return err
							}
						}
					}
				}
				return nil
			}},
	}
}

func noProperty(name, path string) error {
	return interp.Failf("System.Management.Automation.PSArgumentException",
		"System.Management.Automation.PSArgumentException", "InvalidArgument", name,
		"Property %s does not exist at path %s.", name, path)
}

func getProperty(c *interp.Invocation, p string, only bool) error {
	d, key, ok := providerPath(p)
	if !ok || d == "file" {
		fi, err := statPath(c.R, p)
		if err != nil {
			return c.R.FileError(err, c.R.Path(p))
		}
		o := fileItem(c.R, c.R.Path(p), fi)
		for _, n := range c.Strs("Name") {
			v, ok := o.Get(n)
			if !ok {
				return noProperty(n, c.R.Path(p))
			}
			if only {
				if err := c.Write(v); err != nil {
					return err
				}
			}
		}
		if only {
			return nil
		}
		return c.Write(o)
	}
	if d != "reg" {
		return interp.NotImplemented("properties of the drive " + d + ":")
	}
	reg, err := registry(c)
	if err != nil {
		return err
	}
	if !reg.Exists(key) {
		return noKey(key)
	}
	vals, err := reg.Values(key)
	if err != nil {
		return err
	}
	o := &value.Object{}
	for _, v := range vals {
		name := v.Name
		if name == "" {
			name = "(default)"
		}
		if matches(c.Strs("Name"), name) {
			if only {
				if err := c.Write(regValue(v)); err != nil {
					return err
				}
			}
			o.Set(name, regValue(v))
		}
	}
	for _, n := range c.Strs("Name") {
		if _, ok := o.Get(n); !ok && !value.HasWildcard(n) {
			return noProperty(n, longHive(key))
		}
	}
	if only {
		return nil
	}
	o.Set("PSPath", "Microsoft.PowerShell.Core\\Registry::"+longHive(key))
	o.Set("PSParentPath", "Microsoft.PowerShell.Core\\Registry::"+longHive(c.R.ParentPath(key)))
	o.Set("PSChildName", interp.LeafPath(key))
	o.Set("PSProvider", "Microsoft.PowerShell.Core\\Registry")
	return c.Write(o)
}

func setProperty(c *interp.Invocation, p string) error {
	d, key, ok := providerPath(p)
	if !ok || d != "reg" {
		if strings.EqualFold(c.Str("Name", ""), "LastWriteTime") {
			t, err := value.ToDate(c.Any("Value"))
			if err != nil {
				return err
			}
			if err := files(c).Chtimes(c.R.Path(p), t.Time, t.Time); err != nil {
				return c.R.FileError(err, c.R.Path(p))
			}
			return nil
		}
		return interp.NotImplemented("Set-ItemProperty -Name " + c.Str("Name", "") + " on a file")
	}
	reg, err := registry(c)
	if err != nil {
		return err
	}
	if !reg.Exists(key) {
		return noKey(key)
	}
	v := host.RegValue{Name: c.Str("Name", "")}
	if strings.EqualFold(v.Name, "(default)") {
		v.Name = ""
	}
	raw := c.Any("Value")
	kind := lower(c.Str("Type", ""))
	if kind == "" {
		switch raw.(type) {
		case int32:
			kind = "dword"
		case int64:
			kind = "qword"
		case *value.Array:
			kind = "multistring"
			if value.TypeName(raw) == "System.Byte[]" {
				kind = "binary"
			}
		default:
			kind = "string"
		}
	}
	switch kind {
	case "dword":
		n, err := value.Int(raw, "System.Int64")
		if err != nil {
			return err
		}
		v.Kind, v.Data = "DWord", uint32(n.(int64))
	case "qword":
		n, err := value.Int(raw, "System.Int64")
		if err != nil {
			return err
		}
		v.Kind, v.Data = "QWord", uint64(n.(int64))
	case "multistring":
		var list []string
		items, ok := value.Items(raw)
		if !ok {
			items = []any{raw}
		}
		for _, x := range items {
			list = append(list, c.R.Text(x))
		}
		v.Kind, v.Data = "MultiString", list
	case "binary":
		b, err := value.Bytes(raw)
		if err != nil {
			return err
		}
		v.Kind, v.Data = "Binary", b
	case "expandstring":
		v.Kind, v.Data = "ExpandString", c.R.Text(raw)
	default:
		v.Kind, v.Data = "String", c.R.Text(raw)
	}
	return reg.SetValue(key, v)
}
