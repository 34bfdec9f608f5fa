// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"io/fs"
	"sort"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// paths returns the arguments -Path (with wildcards expanded, where the path has
// any and is of the file system) and -LiteralPath.
func paths(c *interp.Invocation) []string {
	var out []string
	for _, p := range c.Strs("Path") {
		if value.HasWildcard(p) {
			if d, _, ok := providerPath(p); !ok || d == "file" {
				if found := expand(c.R, p); found != nil {
					out = append(out, found...)
					continue
				}
				if !c.R.Exists(c.R.Path(p)) {
					continue
				}
			}
		}
		out = append(out, p)
	}
	return append(out, c.Strs("LiteralPath")...)
}

// providerPath splits the drive of a provider off a path: env, reg, variable,
// function, alias, or file.
func providerPath(p string) (drive, rest string, ok bool) {
	if cut, has := strings.CutPrefix(p, "Registry::"); has {
		return "reg", shortHive(cut), true
	}
	if i := strings.Index(p, "Microsoft.PowerShell.Core\\Registry::"); i == 0 {
		return "reg", shortHive(p[len("Microsoft.PowerShell.Core\\Registry::"):]), true
	}
	i := strings.IndexByte(p, ':')
	if i < 2 {
		return "file", p, i == 1
	}
	rest = strings.TrimLeft(p[i+1:], `/\`)
	switch name := lower(p[:i]); name {
	case "env", "variable", "function", "alias":
		return name, rest, true
	case "hklm", "hkcu", "hkcr", "hku":
		return "reg", strings.TrimRight(strings.ToUpper(name)+`\`+strings.ReplaceAll(rest, "/", `\`), `\`), true
	case "filesystem", "microsoft.powershell.core\\filesystem":
		return "file", p, true
	case "cert", "wsman", "http", "https":
		return name, rest, true
	}
	return "file", p, false
}

func shortHive(p string) string {
	for long, short := range map[string]string{"HKEY_LOCAL_MACHINE": "HKLM", "HKEY_CURRENT_USER": "HKCU",
		"HKEY_CLASSES_ROOT": "HKCR", "HKEY_USERS": "HKU"} {
		if len(p) >= len(long) && strings.EqualFold(p[:len(long)], long) {
			return strings.TrimRight(short+p[len(long):], `\`)
		}
	}
	return p
}

func longHive(p string) string {
	short, rest, _ := strings.Cut(p, `\`)
	long := map[string]string{"HKLM": "HKEY_LOCAL_MACHINE", "HKCU": "HKEY_CURRENT_USER", "HKCR": "HKEY_CLASSES_ROOT",
		"HKU": "HKEY_USERS"}[strings.ToUpper(short)]
	if rest == "" {
		return long
	}
	return long + `\` + rest
}

// providerGet reads an item of a drive that is not the file system.
func providerGet(c *interp.Invocation, drive, name string) (any, error) {
	missing := func() error {
		return interp.Failf("System.Management.Automation.ItemNotFoundException", "PathNotFound", "ObjectNotFound",
			drive+":"+name, "Cannot find path '%s' because it does not exist.", name)
	}
	switch drive {
	case "env":
		if e := c.R.Handlers().Env; e != nil {
			if v, ok := e.Get(name); ok {
				return v, nil
			}
		}
		return nil, missing()
	case "variable":
		if v, ok := c.R.GetVariable(name); ok {
			return v, nil
		}
		return nil, missing()
	case "function":
		if f := c.R.Functions()[lower(name)]; f != nil {
			return f.Block, nil
		}
		return nil, missing()
	case "alias":
		if a, ok := c.R.Aliases()[lower(name)]; ok {
			return a, nil
		}
		return nil, missing()
	}
	return nil, interp.NotImplemented("the drive " + drive + ": here")
}

func providerSet(c *interp.Invocation, drive, name string, v any) error {
	switch drive {
	case "env":
		e := c.R.Handlers().Env
		if e == nil {
			return interp.NotImplemented("the environment drive")
		}
		return e.Set(name, c.R.Text(v))
	case "variable":
		_, err := c.R.SetVariable(name, v, "")
		return err
	case "function":
		b, ok := v.(*interp.ScriptBlock)
		if !ok {
			var err error
			if b, err = c.R.ParseBlock(c.R.Text(v)); err != nil {
				return err
			}
		}
		c.R.Define(nil, name, &interp.Function{Name: name, Block: b})
		return nil
	case "alias":
		c.R.Aliases()[lower(name)] = c.R.Text(v)
		return nil
	}
	return interp.NotImplemented("the drive " + drive + ": here")
}

func statPath(r *interp.Runner, p string) (fs.FileInfo, error) {
	f := r.Handlers().Files
	if f == nil {
		return nil, interp.NotImplemented("the file system")
	}
	fi, err := f.Stat(r.Path(p))
	if err != nil { // a link whose target is gone is still an item
		if li, lerr := f.Lstat(r.Path(p)); lerr == nil && li.Mode()&fs.ModeSymlink != 0 {
			return li, nil
		}
	}
	return fi, err
}

// expand lists the items that match a path with wildcards, sorted by name.
func expand(r *interp.Runner, pattern string) []string {
	files := r.Handlers().Files
	if files == nil {
		return nil
	}
	full := r.Path(pattern)
	sep := r.Separator()
	parts := strings.Split(full, sep)
	dirs := []string{parts[0]}
	for i, part := range parts[1:] {
		var next []string
		for _, d := range dirs {
			if !value.HasWildcard(part) {
				if p := d + sep + part; i < len(parts)-2 || r.Exists(p) {
					next = append(next, p)
				}
				continue
			}
			entries, err := files.ReadDir(d + sep)
			if err != nil {
				continue
			}
			for _, e := range entries {
				if value.Like(e.Name(), part, false) {
					next = append(next, d+sep+e.Name())
				}
			}
		}
		dirs = next
	}
	sort.Slice(dirs, func(i, j int) bool { return lower(dirs[i]) < lower(dirs[j]) })
	return dirs
}
