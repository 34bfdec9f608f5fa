// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package dotnet

import (
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// encodingArg returns an encoding argument, or UTF-8.
func encodingArg(v any) *encoding {
	if e, ok := data[*encoding](v); ok {
		return e
	}
	return encodings()[0]
}

// WriteFile replaces or extends a file.
func WriteFile(r *interp.Runner, name string, b []byte, appendTo bool) error {
	flag := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if appendTo {
		flag = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	s, err := openStream(r, name, flag)
	if err != nil {
		return err
	}
	_, err = s.w.Write(b)
	if cerr := s.close(); err == nil {
		err = cerr
	}
	return ioError(err)
}

// withFiles returns a static method whose first argument is a path.
func withFiles(name string, f func(c *interp.Call, files host.FileSystem, p string) (any, error)) interp.Method {
	return static(name, func(c *interp.Call) (any, error) {
		files := c.R.Handlers().Files
		if files == nil {
			return nil, interp.NotImplemented("the file system")
		}
		return f(c, files, c.R.Path(c.Str(0)))
	})
}

// writeText returns a method that writes a string, or the lines of a list.
func writeText(name string, appendTo, lines bool) interp.Method {
	return static(name, func(c *interp.Call) (any, error) {
		s := c.Str(1)
		if items, ok := value.Items(c.Arg(1)); ok && lines {
			s = ""
			for _, x := range items {
				s += value.String(x) + c.R.Newline()
			}
		} else if lines {
			s += c.R.Newline()
		}
		b := encodingArg(c.Arg(2)).encode(s)
		if e, ok := data[*encoding](c.Arg(2)); ok && !appendTo {
			b = append(append([]byte(nil), e.mark...), b...)
		}
		return interp.Void, WriteFile(c.R, c.Str(0), b, appendTo)
	})
}

// listMethod returns a method that lists a directory.
func listMethod(name string, wantFiles, wantDirs bool) interp.Method {
	return withFiles(name, func(c *interp.Call, files host.FileSystem, p string) (any, error) {
		entries, err := files.ReadDir(p)
		if err != nil {
			return nil, c.R.FileError(err, p)
		}
		pattern := "*"
		if c.N() > 1 {
			pattern = c.Str(1)
		}
		var out []string
		for _, e := range entries {
			if (e.IsDir() && wantDirs || !e.IsDir() && wantFiles) && value.Like(e.Name(), pattern, false) {
				out = append(out, c.R.JoinPath(c.Str(0), e.Name()))
			}
		}
		return value.NewStrings(out), nil
	})
}

// timeMethod returns a method for the time of a file's last change, the only time
// that is known.
func timeMethod(name string) interp.Method {
	return withFiles(name, func(c *interp.Call, files host.FileSystem, p string) (any, error) {
		fi, err := files.Stat(p)
		if err != nil {
			return nil, c.R.FileError(err, p)
		}
		return value.DateTime{Time: fi.ModTime().Local()}, nil
	})
}

// fileClasses are File, Directory and Path.
func fileClasses() []*interp.Class {
	stat := func(c *interp.Call, dir bool) bool {
		f := c.R.Handlers().Files
		if f == nil || c.Str(0) == "" {
			return false
		}
		fi, err := f.Stat(c.R.Path(c.Str(0)))
		return err == nil && fi.IsDir() == dir
	}
	readAll := func(c *interp.Call) ([]byte, error) {
		b, err := c.R.ReadFile(c.Str(0))
		if err != nil && !c.R.Exists(c.R.Path(c.Str(0))) {
			err = fileError(c.R, fs.ErrNotExist, c.R.Path(c.Str(0)))
		}
		return b, err
	}
	text := func(c *interp.Call) (string, error) {
		b, err := readAll(c)
		if err != nil {
			return "", err
		}
		if c.N() > 1 {
			return strings.TrimPrefix(encodingArg(c.Arg(1)).decode(b), "\ufeff"), nil
		}
		return interp.DecodeText(b), nil
	}
	return []*interp.Class{
		{Name: "System.IO.File", StaticMethods: []interp.Method{
			static("Exists", func(c *interp.Call) (any, error) { return stat(c, false), nil }),
			static("ReadAllText", func(c *interp.Call) (any, error) { return text(c) }),
			static("ReadAllLines", func(c *interp.Call) (any, error) {
				s, err := text(c)
				return value.NewStrings(interp.SplitLines(s)), err
			}),
			static("ReadLines", func(c *interp.Call) (any, error) {
				s, err := text(c)
				return value.NewStrings(interp.SplitLines(s)), err
			}),
			static("ReadAllBytes", func(c *interp.Call) (any, error) {
				b, err := readAll(c)
				return value.NewBytes(b), err
			}),
			writeText("WriteAllText", false, false), writeText("AppendAllText", true, false),
			writeText("WriteAllLines", false, true), writeText("AppendAllLines", true, true),
			static("WriteAllBytes", func(c *interp.Call) (any, error) {
				b, err := value.Bytes(c.Arg(1))
				if err != nil {
					return nil, err
				}
				return interp.Void, WriteFile(c.R, c.Str(0), b, false)
			}),
			withFiles("Delete", func(c *interp.Call, files host.FileSystem, p string) (any, error) {
				if !c.R.Exists(p) {
					return interp.Void, nil
				}
				if err := files.Remove(p); err != nil {
					return nil, c.R.FileError(err, p)
				}
				return interp.Void, nil
			}),
			withFiles("Move", func(c *interp.Call, files host.FileSystem, p string) (any, error) {
				if err := files.Rename(p, c.R.Path(c.Str(1))); err != nil {
					return nil, fileError(c.R, err, p)
				}
				return interp.Void, nil
			}),
			static("Copy", func(c *interp.Call) (any, error) {
				b, err := readAll(c)
				if err != nil {
					return nil, err
				}
				if c.R.Exists(c.R.Path(c.Str(1))) && !value.Bool(c.Arg(2)) {
					return nil, interp.Failf("System.IO.IOException", "IOException", "NotSpecified", nil,
						"The file '%s' already exists.", c.Str(1))
				}
				return interp.Void, WriteFile(c.R, c.Str(1), b, false)
			}),
			timeMethod("GetLastWriteTime"), timeMethod("GetCreationTime"), timeMethod("GetLastAccessTime"),
		}},
		{Name: "System.IO.Directory", StaticMethods: []interp.Method{
			static("Exists", func(c *interp.Call) (any, error) { return stat(c, true), nil }),
			withFiles("CreateDirectory", func(c *interp.Call, files host.FileSystem, p string) (any, error) {
				if err := files.MkdirAll(p, 0o777); err != nil {
					return nil, c.R.FileError(err, p)
				}
				return value.NewObject("System.IO.DirectoryInfo", "FullName", p, "Name", interp.LeafPath(p)), nil
			}),
			withFiles("Delete", func(c *interp.Call, files host.FileSystem, p string) (any, error) {
				remove := files.Remove
				if value.Bool(c.Arg(1)) {
					remove = files.RemoveAll
				}
				if err := remove(p); err != nil {
					return nil, c.R.FileError(err, p)
				}
				return interp.Void, nil
			}),
			listMethod("GetFiles", true, false), listMethod("GetDirectories", false, true),
			listMethod("GetFileSystemEntries", true, true),
			static("GetCurrentDirectory", func(c *interp.Call) (any, error) {
				return c.R.Location, nil
			}),
		}},
		pathClass(),
	}
}

func pathClass() *interp.Class {
	leaf := func(s string) string {
		return s[strings.LastIndexAny(s, `/\`)+1:]
	}
	return &interp.Class{Name: "System.IO.Path", StaticMethods: []interp.Method{
		static("Combine", func(c *interp.Call) (any, error) {
			out := ""
			for i := range c.N() {
				p := c.Str(i)
				switch {
				case out == "" || strings.HasPrefix(p, "/") || strings.HasPrefix(p, `\`) || len(p) > 1 && p[1] == ':':
					out = p
				case strings.HasSuffix(out, "/") || strings.HasSuffix(out, `\`):
					out += p
				case p != "":
					out += c.R.Separator() + p
				}
			}
			return out, nil
		}),
		static("GetFileName", func(c *interp.Call) (any, error) { return leaf(c.Str(0)), nil }),
		static("GetFileNameWithoutExtension", func(c *interp.Call) (any, error) {
			l := leaf(c.Str(0))
			return strings.TrimSuffix(l, path.Ext(l)), nil
		}),
		static("GetExtension", func(c *interp.Call) (any, error) { return path.Ext(leaf(c.Str(0))), nil }),
		static("GetDirectoryName", func(c *interp.Call) (any, error) { return c.R.ParentPath(c.Str(0)), nil }),
		static("ChangeExtension", func(c *interp.Call) (any, error) {
			s := c.Str(0)
			s = strings.TrimSuffix(s, path.Ext(leaf(s)))
			if e := c.Str(1); e != "" && !strings.HasPrefix(e, ".") {
				s += "."
			}
			return s + c.Str(1), nil
		}),
		static("GetFullPath", func(c *interp.Call) (any, error) { return c.R.Path(c.Str(0)), nil }),
		static("IsPathRooted", func(c *interp.Call) (any, error) {
			p := c.Str(0)
			return strings.HasPrefix(p, "/") || strings.HasPrefix(p, `\`) || len(p) > 1 && p[1] == ':', nil
		}),
		static("HasExtension", func(c *interp.Call) (any, error) { return path.Ext(leaf(c.Str(0))) != "", nil }),
		static("GetTempPath", func(c *interp.Call) (any, error) {
			if f := c.R.Handlers().Files; f != nil {
				return strings.TrimRight(f.TempDir(), `/\`) + c.R.Separator(), nil
			}
			return nil, interp.NotImplemented("the file system")
		}),
		static("GetTempFileName", func(c *interp.Call) (any, error) {
			f := c.R.Handlers().Files
			if f == nil {
				return nil, interp.NotImplemented("the file system")
			}
			p := c.R.JoinPath(f.TempDir(), "tmp"+string(NewGUID(c.R))[:8]+".tmp")
			return p, WriteFile(c.R, p, nil, false)
		}),
		static("GetRandomFileName", func(c *interp.Call) (any, error) {
			g := string(NewGUID(c.R))
			return g[:8] + "." + g[9:12], nil
		}),
		static("GetPathRoot", func(c *interp.Call) (any, error) {
			p := c.Str(0)
			switch {
			case len(p) > 2 && p[1] == ':':
				return p[:3], nil
			case strings.HasPrefix(p, "/") || strings.HasPrefix(p, `\`):
				return p[:1], nil
			}
			return "", nil
		}),
	}, Statics: []interp.Property{
		computed("DirectorySeparatorChar", func(c *interp.Call) (any, error) {
			return value.Char(c.R.Separator()[0]), nil
		}),
		computed("PathSeparator", func(c *interp.Call) (any, error) {
			if c.R.Windows() {
				return value.Char(';'), nil
			}
			return value.Char(':'), nil
		}),
	}}
}
