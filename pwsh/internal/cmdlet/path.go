// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"path"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// pathCmdlets work on the text of paths, and Test-Path on the named items.
//
// Length: one table; splitting hides which names belong together.
func pathCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{
		{Name: "Test-Path", Params: "Path[]@0.< LiteralPath|PSPath[] PathType|Type IsValid? Filter~ Include[]~ " +
			"Exclude[]~ NewerThan:any OlderThan:any", Process: func(c *interp.Invocation) error {
			if _, ok := c.Get("Path"); !ok && !c.Has("LiteralPath") {
				return badArgument("Path", "Cannot bind argument to parameter 'Path' because it is null.")
			}
			for _, p := range append(append([]string{}, c.Strs("Path")...), c.Strs("LiteralPath")...) {
				ok, err := testPath(c, p)
				if err != nil {
					return err
				}
				if err := c.Write(ok); err != nil {
					return err
				}
			}
			return nil
		}},
		{Name: "Join-Path", Params: "Path[]@0!.< ChildPath@1! AdditionalChildPath[]@2* Resolve?~",
			Process: func(c *interp.Invocation) error {
				for _, p := range c.Strs("Path") {
					out := c.R.JoinPath(p, c.Str("ChildPath", ""))
					for _, more := range c.Strs("AdditionalChildPath") {
						out = c.R.JoinPath(out, more)
					}
					if err := c.Write(out); err != nil {
						return err
					}
				}
				return nil
			}},
		{Name: "Split-Path", Params: "Path[]@0!.< LiteralPath|PSPath[] Parent? Leaf? Qualifier? NoQualifier? " +
			"Extension? LeafBase? IsAbsolute? Resolve?~", Process: func(c *interp.Invocation) error {
			for _, p := range append(append([]string{}, c.Strs("Path")...), c.Strs("LiteralPath")...) {
				v, err := splitPath(c, p)
				if err != nil {
					return err
				}
				if err := c.Write(v); err != nil {
					return err
				}
			}
			return nil
		}},
		{Name: "Resolve-Path", Aliases: []string{"rvpa"}, Params: "Path[]@0!.< LiteralPath|PSPath[] Relative?~",
			Process: func(c *interp.Invocation) error {
				list := paths(c)
				if len(list) == 0 {
					list = c.Strs("Path")
				}
				for _, p := range list {
					full := c.R.Path(p)
					if !c.R.Exists(full) {
						if err := c.Error(interp.Failf("System.Management.Automation.ItemNotFoundException",
							"PathNotFound", "ObjectNotFound", full, "Cannot find path '%s' because it does not exist.",
							full)); err != nil {
							return err
						}
						continue
					}
					if err := c.Write(c.R.PathInfo(full)); err != nil {
						return err
					}
				}
				return nil
			}},
		{Name: "Convert-Path", Aliases: []string{"cvpa"}, Params: "Path[]@0!.< LiteralPath|PSPath[]",
			Process: func(c *interp.Invocation) error {
				for _, p := range append(c.Strs("Path"), c.Strs("LiteralPath")...) {
					if err := c.Write(c.R.Path(p)); err != nil {
						return err
					}
				}
				return nil
			}},
		{Name: "New-TemporaryFile", Process: func(c *interp.Invocation) error {
			v, err := c.R.CallStatic("System.IO.Path", "GetTempFileName", nil)
			if err != nil {
				return err
			}
			p := value.String(v)
			fi, err := statPath(c.R, p)
			if err != nil {
				return c.R.FileError(err, p)
			}
			return c.Write(fileItem(c.R, p, fi))
		}},
	}
}

func testPath(c *interp.Invocation, p string) (bool, error) {
	if c.Switch("IsValid") {
		return !strings.ContainsAny(p, "\x00|<>\""), nil
	}
	if p == "" {
		return false, nil
	}
	if d, rest, ok := providerPath(p); ok && d != "file" {
		switch d {
		case "reg":
			reg, err := registry(c)
			return err == nil && reg.Exists(rest), err
		case "env", "variable", "function", "alias":
			if rest == "" || rest == "*" {
				return true, nil
			}
			_, err := providerGet(c, d, rest)
			return err == nil, nil
		}
		return false, interp.NotImplemented("the drive " + d + ":")
	}
	if d := strings.IndexByte(p, ':'); d > 1 {
		return false, nil // an unknown drive
	}
	list := []string{p}
	if value.HasWildcard(p) && !c.Has("LiteralPath") {
		if list = expand(c.R, p); len(list) == 0 {
			list = []string{p}
		}
	}
	for _, f := range list {
		fi, err := statPath(c.R, f)
		if err != nil {
			continue
		}
		switch lower(c.Str("PathType", "any")) {
		case "leaf":
			if fi.IsDir() {
				continue
			}
		case "container":
			if !fi.IsDir() {
				continue
			}
		}
		for name, want := range map[string]int{"NewerThan": 1, "OlderThan": -1} {
			if v, ok := c.Get(name); ok {
				d, err := value.ToDate(v)
				if err != nil {
					return false, err
				}
				if fi.ModTime().Compare(d.Time) != want {
					return false, nil
				}
			}
		}
		return true, nil
	}
	return false, nil
}

func splitPath(c *interp.Invocation, p string) (any, error) {
	leaf := interp.LeafPath(p)
	switch {
	case c.Switch("Leaf"):
		if len(p) == 3 && p[1] == ':' {
			return p, nil // a drive's root is its own leaf
		}
		return leaf, nil
	case c.Switch("LeafBase"):
		return strings.TrimSuffix(leaf, path.Ext(leaf)), nil
	case c.Switch("Extension"):
		return path.Ext(leaf), nil
	case c.Switch("IsAbsolute"):
		return strings.HasPrefix(p, "/") || strings.HasPrefix(p, `\`) || len(p) > 1 && p[1] == ':', nil
	case c.Switch("Qualifier"):
		if i := strings.IndexByte(p, ':'); i > 0 {
			return p[:i+1], nil
		}
		return nil, interp.Failf("System.FormatException", "ParsePathFormatError", "InvalidArgument", p,
			"Cannot parse path because path '%s' does not have a qualifier specified.", p)
	case c.Switch("NoQualifier"):
		if i := strings.IndexByte(p, ':'); i > 0 {
			return p[i+1:], nil
		}
		return p, nil
	}
	t := strings.TrimRight(p, `/\`)
	if t == "" {
		return "", nil
	}
	out := c.R.ParentPath(t)
	if c.R.Windows() {
		out = strings.ReplaceAll(out, "/", `\`)
	}
	return out, nil
}

// locationCmdlets returns the cmdlets for the current location.
func locationCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{
		{Name: "Get-Location", Aliases: []string{"pwd", "gl"}, Params: "PSDrive[]~ PSProvider[] Stack?~",
			Process: func(c *interp.Invocation) error {
				return c.Write(c.R.PathInfo(c.R.Location))
			}},
		{Name: "Set-Location", Aliases: []string{"cd", "chdir", "sl"},
			Params: "Path@0.< LiteralPath|PSPath PassThru? StackName~", Process: func(c *interp.Invocation) error {
				return setLocation(c, c.Str("Path", c.Str("LiteralPath", "~")))
			}},
		{Name: "Push-Location", Aliases: []string{"pushd"}, Params: "Path@0.< LiteralPath|PSPath PassThru? StackName~",
			Process: func(c *interp.Invocation) error {
				c.R.PushLocation()
				if p := c.Str("Path", c.Str("LiteralPath", "")); p != "" {
					if err := setLocation(c, p); err != nil {
						c.R.PopLocation()
						return err
					}
				}
				return nil
			}},
		{Name: "Pop-Location", Aliases: []string{"popd"}, Params: "PassThru? StackName~",
			Process: func(c *interp.Invocation) error {
				c.R.PopLocation()
				return nil
			}},
		{Name: "Get-PSDrive", Aliases: []string{"gdr"}, Params: "Name[]@0 PSProvider[] LiteralName[]~",
			Fidelity: "sizes are not shown", Process: func(c *interp.Invocation) error {
				if f := c.R.Handlers().Files; f != nil {
					for _, d := range f.Drives() {
						name := strings.TrimSuffix(strings.TrimSuffix(d, `\`), ":")
						if matches(c.Strs("Name"), name) && matches(c.Strs("PSProvider"), "FileSystem") {
							o := value.NewObject("System.Management.Automation.PSDriveInfo", "Name", name, "Provider",
								"FileSystem", "Root", d)
							o.Str = name
							if err := c.Write(show(o, "Name", "Provider", "Root")); err != nil {
								return err
							}
						}
					}
				}
				for _, d := range []string{"Alias", "Env", "Function", "HKCU", "HKLM", "Variable"} {
					provider := map[bool]string{true: "Registry", false: d}[strings.HasPrefix(d, "HK")]
					if provider == "Env" {
						provider = "Environment"
					}
					if !matches(c.Strs("Name"), d) || !matches(c.Strs("PSProvider"), provider) {
						continue
					}
					o := value.NewObject("System.Management.Automation.PSDriveInfo", "Name", d, "Provider", provider,
						"Root", "")
					o.Str = d
					if err := c.Write(show(o, "Name", "Provider", "Root")); err != nil {
						return err
					}
				}
				return nil
			}},
	}
}

func setLocation(c *interp.Invocation, p string) error {
	if d, _, ok := providerPath(p); ok && d != "file" {
		return interp.NotImplemented("a location on the drive " + d + ":")
	}
	if value.HasWildcard(p) {
		if found := expand(c.R, p); len(found) == 1 {
			p = found[0]
		}
	}
	full := c.R.Path(p)
	fi, err := statPath(c.R, p)
	if err != nil || !fi.IsDir() {
		return interp.Failf("System.Management.Automation.ItemNotFoundException", "PathNotFound", "ObjectNotFound",
			full, "Cannot find path '%s' because it does not exist.", full)
	}
	c.R.Location = full
	if c.Switch("PassThru") {
		return c.Write(c.R.PathInfo(full))
	}
	return nil
}
