// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cmdlet

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"sort"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/pwsh/internal/dotnet"
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/syntax"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// fileItem returns a file or directory as an object.
func fileItem(r *interp.Runner, full string, fi fs.FileInfo) *value.Object {
	name := interp.LeafPath(full)
	if name == "" {
		name = full
	}
	dir := r.ParentPath(full)
	mode := fileMode(fi, r.Edition())
	t := value.DateTime{Time: fi.ModTime().Local()}
	common := []any{"Mode", mode, "LastWriteTime", t, "Name", name, "FullName", full, "Exists", true,
		"CreationTime", t, "LastAccessTime", t, "LastWriteTimeUtc", value.DateTime{Time: fi.ModTime().UTC()},
		"Extension", path.Ext(name), "Attributes", attributes(fi), "PSPath", "Microsoft.PowerShell.Core\\FileSystem::" +
			full, "PSParentPath", "Microsoft.PowerShell.Core\\FileSystem::" + dir, "PSChildName", name, "PSIsContainer",
		fi.IsDir(), "PSProvider", "Microsoft.PowerShell.Core\\FileSystem"}
	var o *value.Object
	if fi.IsDir() {
		o = value.NewObject("System.IO.DirectoryInfo", append(common, "Parent", interp.LeafPath(dir), "Root", "",
			"BaseName", name)...)
	} else {
		o = value.NewObject("System.IO.FileInfo", append(common, "Length", fi.Size(), "DirectoryName", dir, "Directory",
			dir, "IsReadOnly", fi.Mode()&0o200 == 0, "BaseName", strings.TrimSuffix(name, path.Ext(name)))...)
	}
	if f := r.Handlers().Files; f != nil {
		if link, err := f.Lstat(full); err == nil && link.Mode()&fs.ModeSymlink != 0 {
			o.Set("LinkType", "SymbolicLink")
			if target, err := f.Readlink(full); err == nil {
				o.Set("Target", target)
			}
		}
	}
	o.Str = full
	if r.Edition() == 0 && !fi.IsDir() {
		o.Str = name // .NET Framework returns the path as given
	}
	return show(o, "Mode", "LastWriteTime", "Length", "Name")
}

// fileMode is the property Mode: six letters in Windows PowerShell, and five in
// PowerShell 7, where a link has l in the first place.
func fileMode(fi fs.FileInfo, edition syntax.Edition) string {
	m := []byte("-a----")
	if fi.IsDir() {
		m = []byte("d-----")
	}
	if fi.Mode()&0o200 == 0 {
		m[2] = 'r'
	}
	link := fi.Mode()&fs.ModeSymlink != 0
	if edition != syntax.Desktop {
		if link {
			m[0] = 'l'
		}
		return string(m[:5])
	}
	if link {
		m[5] = 'l'
	}
	return string(m)
}

func attributes(fi fs.FileInfo) string {
	a := "Archive"
	if fi.IsDir() {
		a = "Directory"
	}
	if fi.Mode()&0o200 == 0 {
		a = "ReadOnly, " + a
	}
	if fi.Mode()&fs.ModeSymlink != 0 {
		a += ", ReparsePoint"
	}
	return a
}

// childItemCmdlets is Get-ChildItem.
func childItemCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{{Name: "Get-ChildItem", Aliases: []string{"dir", "gci", "ls"},
		Params: "Path[]@0.< Filter@1 LiteralPath|PSPath[] Include[] Exclude[] Recurse|s? Depth:int Force? Name? " +
			"File|af? Directory|ad|d? Hidden|ah|h?~ ReadOnly?~ System?~ Attributes~ FollowSymlink?~",
		Process: func(c *interp.Invocation) error {
			list := append(append([]string{}, c.Strs("Path")...), c.Strs("LiteralPath")...)
			if len(list) == 0 {
				list = []string{"."}
			}
			for _, p := range list {
				if err := c.Error(children(c, p)); err != nil {
					return err
				}
			}
			return nil
		}}}
}

func children(c *interp.Invocation, p string) error {
	if d, rest, ok := providerPath(p); ok && d != "file" {
		return providerChildren(c, d, rest)
	}
	if value.HasWildcard(p) && !c.Has("LiteralPath") {
		for _, f := range expand(c.R, p) {
			fi, err := statPath(c.R, f)
			if err != nil {
				continue // it has just gone
			}
			if fi.IsDir() && c.Switch("Recurse") {
				if err := walk(c, f, f, 0); err != nil {
					return err
				}
				continue
			}
			if err := writeChild(c, f, interp.LeafPath(f), fi); err != nil {
				return err
			}
		}
		return nil
	}
	full := c.R.Path(p)
	fi, err := statPath(c.R, p)
	if err != nil {
		return interp.Failf("System.Management.Automation.ItemNotFoundException", "PathNotFound", "ObjectNotFound",
			full, "Cannot find path '%s' because it does not exist.", full)
	}
	if !fi.IsDir() {
		return writeChild(c, full, interp.LeafPath(full), fi)
	}
	return walk(c, full, full, 0)
}

func walk(c *interp.Invocation, root, dir string, depth int) error {
	entries, err := files(c).ReadDir(dir)
	if err != nil {
		return c.Error(c.R.FileError(err, dir))
	}
	// Directories first, each by name without case, as NTFS and PowerShell order them.
	sort.SliceStable(entries, func(i, j int) bool {
		if entries[i].IsDir() != entries[j].IsDir() {
			return entries[i].IsDir()
		}
		return lower(entries[i].Name()) < lower(entries[j].Name())
	})
	for _, e := range entries {
		full := c.R.JoinPath(dir, e.Name())
		fi, err := statPath(c.R, full)
		if err != nil {
			continue // it has just gone
		}
		rel := strings.TrimLeft(strings.TrimPrefix(full, root), `/\`)
		if err := writeChild(c, full, rel, fi); err != nil {
			return err
		}
	}
	if !c.Switch("Recurse") && !c.Has("Depth") || c.Has("Depth") && depth >= c.Int("Depth", 0) {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() { // links to directories are not followed
			if err := walk(c, root, c.R.JoinPath(dir, e.Name()), depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeChild(c *interp.Invocation, full, rel string, fi fs.FileInfo) error {
	name := interp.LeafPath(full)
	if isHidden(fi) && !c.Switch("Force") {
		return nil
	}
	if c.Switch("File") && fi.IsDir() || c.Switch("Directory") && !fi.IsDir() {
		return nil
	}
	if f := c.Str("Filter", ""); f != "" && !value.Like(name, f, false) {
		return nil
	}
	if !matches(c.Strs("Include"), name) || len(c.Strs("Exclude")) > 0 && matches(c.Strs("Exclude"), name) {
		return nil
	}
	if c.Switch("Name") {
		return c.Write(rel)
	}
	return c.Write(fileItem(c.R, full, fi))
}

func providerChildren(c *interp.Invocation, drive, name string) error {
	switch drive {
	case "env":
		e := c.R.Handlers().Env
		if e == nil {
			return interp.NotImplemented("the environment drive")
		}
		list := e.List()
		sort.Strings(list)
		for _, kv := range list {
			if kv == "" || kv[0] == '=' {
				continue // cmd.exe's current directories
			}
			k, v, _ := strings.Cut(kv, "=")
			if name != "" && !value.Like(k, name, false) {
				continue
			}
			o := value.NewObject("System.Collections.DictionaryEntry", "Name", k, "Value", v, "Key", k)
			if err := c.Write(show(o, "Name", "Value")); err != nil {
				return err
			}
		}
		return nil
	case "variable":
		return writeVariables(c, []string{orStar(name)})
	case "alias":
		return writeAliases(c, []string{orStar(name)})
	case "function":
		return writeFunctions(c, []string{orStar(name)})
	case "reg":
		return registryChildren(c, name)
	}
	return interp.NotImplemented("the drive " + drive + ":")
}

func orStar(s string) string {
	if s == "" {
		return "*"
	}
	return s
}

// itemCmdlets work on files, directories and other items.
func itemCmdlets() []*interp.Cmdlet {
	return []*interp.Cmdlet{
		{Name: "Get-Item", Aliases: []string{"gi"},
			Params: "Path[]@0.< LiteralPath|PSPath[] Force? Filter~ Include[]~ Exclude[]~ Stream~",
			Process: func(c *interp.Invocation) error {
				for _, p := range paths(c) {
					if err := c.Error(getItem(c, p)); err != nil {
						return err
					}
				}
				return nil
			}},
		{Name: "mkdir", Aliases: []string{"md"}, Params: "Path[]@0.< Name Force?",
			Process: func(c *interp.Invocation) error {
				for _, p := range c.Strs("Path") {
					if err := c.Error(makeDir(c, c.R.Path(p), c.Switch("Force"))); err != nil {
						return err
					}
				}
				return nil
			}},
		newItem(), removeItem(), copyItem("Copy-Item", []string{"cp", "copy", "cpi"}, false),
		copyItem("Move-Item", []string{"mv", "move", "mi"}, true), renameItem(),
		{Name: "Set-Item", Aliases: []string{"si"}, Params: "Path[]@0 Value:any@1< LiteralPath[] Force? PassThru?",
			Process: func(c *interp.Invocation) error {
				for _, p := range append(c.Strs("Path"), c.Strs("LiteralPath")...) {
					d, rest, ok := providerPath(p)
					if !ok || d == "file" {
						return interp.NotImplemented("Set-Item on a file")
					}
					if err := providerSet(c, d, rest, c.Any("Value")); err != nil {
						return err
					}
				}
				return nil
			}},
	}
}

func getItem(c *interp.Invocation, p string) error {
	d, rest, ok := providerPath(p)
	if ok && d == "reg" {
		return registryItem(c, rest)
	}
	if ok && d == "env" || d == "variable" || d == "alias" || d == "function" {
		if _, err := providerGet(c, d, rest); err != nil && !value.HasWildcard(rest) {
			return err
		}
		return providerChildren(c, d, rest)
	}
	if ok && d != "file" {
		return interp.NotImplemented("the drive " + d + ":")
	}
	full := c.R.Path(p)
	fi, err := statPath(c.R, p)
	if err != nil {
		return interp.Failf("System.Management.Automation.ItemNotFoundException", "PathNotFound", "ObjectNotFound",
			full, "Cannot find path '%s' because it does not exist.", full)
	}
	return c.Write(fileItem(c.R, full, fi))
}

func newItem() *interp.Cmdlet {
	return &interp.Cmdlet{
		Name:    "New-Item",
		Aliases: []string{"ni"},
		Params:  "Path[]@0. Name ItemType|Type Value|Target:any< Force? Credential:any",
		Process: func(c *interp.Invocation) error {
			list := c.Strs("Path")
			if len(list) == 0 {
				list = []string{"."}
			}
			for _, p := range list {
				if n := c.Str("Name", ""); n != "" {
					p = c.R.JoinPath(p, n)
				}
				if err := c.Error(makeItem(c, p)); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func makeItem(c *interp.Invocation, p string) error {
	if d, rest, ok := providerPath(p); ok && d != "file" {
		if d == "reg" {
			return newRegistryKey(c, rest)
		}
		return providerSet(c, d, rest, c.Any("Value"))
	}
	files := files(c)
	full := c.R.Path(p)
	kind := lower(c.Str("ItemType", "file"))
	action := "Create File"
	switch kind {
	case "directory", "d", "container":
		action = "Create Directory"
	case "symboliclink":
		action = "Create Symbolic Link"
	case "junction":
		action = "Create Junction"
	}
	if ok, err := c.ShouldProcess("Destination: "+full, action); err != nil || !ok {
		return err
	}
	exists := c.R.Exists(full)
	switch kind {
	case "directory", "d", "container":
		return makeDir(c, full, c.Switch("Force"))
	case "file", "f", "leaf":
		if exists && !c.Switch("Force") {
			return interp.Failf("System.IO.IOException", "NewItemIOError", "WriteError", full,
				"The file '%s' already exists.", full)
		}
		if c.Switch("Force") {
			if err := files.MkdirAll(c.R.ParentPath(full), 0o777); err != nil {
				return c.R.FileError(err, full)
			}
		}
		text := ""
		if v := c.Any("Value"); v != nil {
			text = c.R.Text(v)
		}
		if err := dotnet.WriteFile(c.R, full, []byte(text), false); err != nil {
			return err
		}
	case "symboliclink", "junction":
		if err := files.Symlink(c.R.Path(c.R.Text(c.Any("Value"))), full); err != nil {
			return c.R.FileError(err, full)
		}
	default:
		return badArgument("ItemType", "The type '%s' is not a known type for the file system. Only \"file\", "+
			"\"directory\" or \"symboliclink\" can be specified.", kind)
	}
	fi, err := statPath(c.R, full)
	if err != nil {
		return c.R.FileError(err, full)
	}
	return c.Write(fileItem(c.R, full, fi))
}

func makeDir(c *interp.Invocation, full string, force bool) error {
	files := files(c)
	if c.R.Exists(full) && !force {
		return interp.Failf("System.IO.IOException", "DirectoryExist", "ResourceExists", full,
			"An item with the specified name %s already exists.", full)
	}
	if err := files.MkdirAll(full, 0o777); err != nil {
		return c.R.FileError(err, full)
	}
	fi, err := files.Stat(full)
	if err != nil {
		return c.R.FileError(err, full)
	}
	return c.Write(fileItem(c.R, full, fi))
}

func removeItem() *interp.Cmdlet {
	return &interp.Cmdlet{
		Name:    "Remove-Item",
		Aliases: []string{"rm", "del", "erase", "rd", "ri", "rmdir"},
		Params:  "Path[]@0.< LiteralPath|PSPath[] Recurse? Force? Filter Include[] Exclude[]",
		Process: func(c *interp.Invocation) error {
			for _, p := range paths(c) {
				if err := c.Error(removeOne(c, p)); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func removeOne(c *interp.Invocation, p string) error {
	if d, rest, ok := providerPath(p); ok && d != "file" {
		switch d {
		case "env":
			if _, err := providerGet(c, d, rest); err != nil {
				return err
			}
			return c.R.Handlers().Env.Unset(rest)
		case "variable":
			c.R.RemoveVariable(rest)
			return nil
		case "alias":
			delete(c.R.Aliases(), lower(rest))
			return nil
		case "function":
			c.R.RemoveFunction(rest)
			return nil
		case "reg":
			return removeRegistryKey(c, rest)
		}
		return interp.NotImplemented("Remove-Item on the drive " + d + ":")
	}
	full := c.R.Path(p)
	name := interp.LeafPath(full)
	if !matches(c.Strs("Include"), name) || len(c.Strs("Exclude")) > 0 && matches(c.Strs("Exclude"), name) ||
		c.Str("Filter", "") != "" && !value.Like(name, c.Str("Filter", ""), false) {
		return nil
	}
	fi, err := statPath(c.R, p)
	if err != nil {
		return interp.Failf("System.Management.Automation.ItemNotFoundException", "PathNotFound", "ObjectNotFound",
			full, "Cannot find path '%s' because it does not exist.", full)
	}
	action := "Remove File"
	if fi.IsDir() {
		action = "Remove Directory"
	}
	if ok, err := c.ShouldProcess(full, action); err != nil || !ok {
		return err
	}
	files := files(c)
	if fi.IsDir() {
		entries, err := files.ReadDir(full)
		if err != nil {
			return c.R.FileError(err, full)
		}
		if len(entries) > 0 && !c.Switch("Recurse") {
			// PowerShell prompts; without a user it fails.
			return interp.Failf("System.Management.Automation.PSInvalidOperationException", "InvalidOperation",
				"InvalidOperation", full, "The item at %s has children and the Recurse parameter was not specified. "+
					"Windows PowerShell is in NonInteractive mode. Read and Prompt functionality is not available.",
				full)
		}
		if err := files.RemoveAll(full); err != nil {
			return c.R.FileError(err, full)
		}
		return nil
	}
	if err := files.Remove(full); err != nil {
		return c.R.FileError(err, full)
	}
	return nil
}

func copyItem(name string, aliases []string, move bool) *interp.Cmdlet {
	return &interp.Cmdlet{
		Name:    name,
		Aliases: aliases,
		Params: "Path[]@0.< Destination@1 LiteralPath|PSPath[] Recurse? Container?= Force? PassThru? Filter~ " +
			"Include[] Exclude[]",
		Process: func(c *interp.Invocation) error {
			list := paths(c)
			if len(list) == 0 && len(c.Strs("Path")) > 0 && !value.HasWildcard(c.Strs("Path")[0]) {
				list = c.Strs("Path")
			}
			for _, p := range list {
				if err := c.Error(copyOne(c, p, move)); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func copyOne(c *interp.Invocation, p string, move bool) error {
	files := files(c)
	from := c.R.Path(p)
	fi, err := statPath(c.R, p)
	if err != nil {
		return interp.Failf("System.Management.Automation.ItemNotFoundException", "PathNotFound", "ObjectNotFound",
			from, "Cannot find path '%s' because it does not exist.", from)
	}
	name := interp.LeafPath(from)
	if !matches(c.Strs("Include"), name) || len(c.Strs("Exclude")) > 0 && matches(c.Strs("Exclude"), name) {
		return nil
	}
	to := c.R.Path(c.Str("Destination", "."))
	if d, err := statPath(c.R, to); err == nil && d.IsDir() {
		to = c.R.JoinPath(to, name)
	}
	verb := "Copy File"
	if move {
		verb = "Move File"
	}
	if ok, err := c.ShouldProcess("Item: "+from+" Destination: "+to, verb); err != nil || !ok {
		return err
	}
	switch {
	case move:
		if c.R.Exists(to) && !c.Switch("Force") && from != to {
			return interp.Failf("System.IO.IOException", "MoveFileInfoItemIOError", "WriteError", from,
				"Cannot create a file when that file already exists.")
		}
		if err := files.Rename(from, to); err != nil {
			if fi.IsDir() {
				return c.R.FileError(err, from)
			}
			if err := copyFile(c.R, from, to, fi); err != nil { // across drives
				return err
			}
			if err := files.Remove(from); err != nil {
				return c.R.FileError(err, from)
			}
		}
	case fi.IsDir():
		err = copyTree(c, from, to, c.Switch("Recurse"))
	default:
		err = copyFile(c.R, from, to, fi)
	}
	if err != nil {
		return err
	}
	if c.Switch("PassThru") {
		if fi, err := statPath(c.R, to); err == nil {
			return c.Write(fileItem(c.R, to, fi))
		}
	}
	return nil
}

func copyTree(c *interp.Invocation, from, to string, recurse bool) error {
	files := files(c)
	if err := files.MkdirAll(to, 0o777); err != nil {
		return c.R.FileError(err, to)
	}
	if !recurse {
		return nil
	}
	entries, err := files.ReadDir(from)
	if err != nil {
		return c.R.FileError(err, from)
	}
	for _, e := range entries {
		src, dst := c.R.JoinPath(from, e.Name()), c.R.JoinPath(to, e.Name())
		fi, err := statPath(c.R, src)
		if err != nil {
			continue // it has just gone
		}
		if e.IsDir() {
			err = copyTree(c, src, dst, true)
		} else if !fi.IsDir() {
			err = copyFile(c.R, src, dst, fi)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func copyFile(r *interp.Runner, from, to string, fi fs.FileInfo) error {
	files := r.Handlers().Files
	in, err := files.OpenFile(from, os.O_RDONLY, 0)
	if err != nil {
		return r.FileError(err, from)
	}
	defer in.Close() // read only
	out, err := files.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fi.Mode().Perm()|0o200)
	if err != nil {
		return r.FileError(err, to)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		return r.FileError(err, to)
	}
	if err := files.Chtimes(to, time.Now(), fi.ModTime()); err != nil {
		return r.FileError(err, to)
	}
	return nil
}

func renameItem() *interp.Cmdlet {
	return &interp.Cmdlet{
		Name:    "Rename-Item",
		Aliases: []string{"ren", "rni"},
		Params:  "Path@0!.< NewName:any@1! LiteralPath|PSPath Force? PassThru?",
		Process: func(c *interp.Invocation) error {
			from := c.R.Path(c.Str("Path", c.Str("LiteralPath", "")))
			if !c.R.Exists(from) {
				return c.Error(interp.Failf("System.Management.Automation.PSInvalidOperationException",
					"InvalidOperation", "InvalidOperation", from, "Cannot rename because item at '%s' does not exist.",
					c.Str("Path", c.Str("LiteralPath", ""))))
			}
			name := c.Any("NewName")
			if b, ok := name.(*interp.ScriptBlock); ok {
				var err error
				if name, err = c.Call(b, c.Item); err != nil {
					return err
				}
			}
			text := c.R.Text(name)
			if strings.ContainsAny(text, `/\`) && c.R.ParentPath(c.R.Path(text)) != c.R.ParentPath(from) {
				return badArgument("NewName", "Cannot rename the specified target, because it represents a path or "+
					"device name.")
			}
			to := c.R.JoinPath(c.R.ParentPath(from), interp.LeafPath(text))
			if c.R.Exists(to) && !c.Switch("Force") {
				return c.Error(interp.Failf("System.IO.IOException", "RenameItemIOError", "WriteError", from,
					"Cannot create a file when that file already exists."))
			}
			if err := files(c).Rename(from, to); err != nil {
				return c.Error(c.R.FileError(err, from))
			}
			if c.Switch("PassThru") {
				if fi, err := statPath(c.R, to); err == nil {
					return c.Write(fileItem(c.R, to, fi))
				}
			}
			return nil
		},
	}
}
