// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// tarCommand is a parsed command line of bsdtar (in Windows since build 17063).
type tarCommand struct {
	mode    byte // 'c', 'x' or 't'
	file    string
	dir     string
	gzip    bool
	verbose bool
	touch   bool // -m: set the time of extraction, not the archive's
	paths   []string
}

// parseTar parses `tar -xmf - -C DIR`, `tar cf - PATH…` and the like: the forms
// that `kubectl cp` and scripts use.
func parseTar(args []string) (tarCommand, error) {
	c := tarCommand{file: "-", dir: "."}
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case i == 0 || strings.HasPrefix(a, "-") && len(a) > 1:
			for _, o := range strings.TrimPrefix(a, "-") {
				switch o {
				case 'c', 'x', 't':
					c.mode = byte(o)
				case 'z':
					c.gzip = true
				case 'v':
					c.verbose = true
				case 'm':
					c.touch = true
				case 'p': // permissions have no effect here
				case 'f', 'C':
					if i++; i >= len(args) {
						return c, fmt.Errorf("Option -%c requires an argument", o) // bsdtar's wording
					}
					if o == 'f' {
						c.file = args[i]
					} else {
						c.dir = args[i]
					}
				default:
					return c, fmt.Errorf("Option -%c is not supported by this stand-in", o) // as above
				}
			}
		default:
			c.paths = append(c.paths, a)
		}
	}
	if c.mode == 0 {
		return c, errors.New("Must specify one of -c, -r, -t, -u, -x") // as above
	}
	return c, nil
}

// tarTool is tar.exe.
func tarTool(_ context.Context, env *Env) int {
	c, err := parseTar(env.Args)
	if err == nil {
		switch c.mode {
		case 'c':
			err = c.create(env)
		default:
			err = c.read(env)
		}
	}
	if err != nil {
		env.errorf("tar.exe: %v\n", err)
		return 1
	}
	return 0
}

func (c tarCommand) create(env *Env) (err error) {
	out := env.Stdout
	if c.file != "-" {
		f, err := os.Create(c.file)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		out = f
	}
	buffered := bufio.NewWriter(out)
	out = buffered
	if c.gzip {
		z := gzip.NewWriter(out)
		defer func() { err = errors.Join(err, z.Close(), buffered.Flush()) }()
		out = z
	} else {
		defer func() { err = errors.Join(err, buffered.Flush()) }()
	}
	w := tar.NewWriter(out)
	for _, p := range c.paths {
		if err := c.add(env, w, p); err != nil {
			return err
		}
	}
	return w.Close()
}

// add writes a file or a tree. Names lose drive and leading slashes, as bsdtar
// does it.
func (c tarCommand) add(env *Env, w *tar.Writer, path string) error {
	root := path
	if !filepath.IsAbs(path) && !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, `\`) {
		root = filepath.Join(c.dir, path)
	}
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		link := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			if link, err = os.Readlink(p); err != nil {
				return err
			}
		}
		h, err := tar.FileInfoHeader(info, filepath.ToSlash(link))
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		h.Name = entryName(filepath.Join(path, rel))
		if d.IsDir() {
			h.Name += "/"
		}
		if c.verbose {
			env.errorf("a %s\n", h.Name)
		}
		if err := w.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
			return err
		}
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(w, f)
		return err
	})
}

func entryName(path string) string {
	path = strings.ReplaceAll(path, `\`, "/")
	if len(path) > 1 && path[1] == ':' {
		path = path[2:]
	}
	return strings.TrimLeft(path, "/")
}

func (c tarCommand) read(env *Env) error {
	in := env.Stdin
	if c.file != "-" {
		f, err := os.Open(c.file)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	// bsdtar detects compression.
	buffered := bufio.NewReader(in)
	in = buffered
	if magic, err := buffered.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return err
		}
		in = z
	}
	// No file is written outside the directory, even if an archive's names point there.
	root, err := os.OpenRoot(c.dir)
	if err != nil {
		return fmt.Errorf("could not chdir to '%s'", c.dir)
	}
	defer root.Close()
	r := tar.NewReader(in)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("Error opening archive: %w", err) // as above
		}
		if c.mode == 't' {
			env.printf("%s\n", h.Name)
			continue
		}
		if c.verbose {
			env.errorf("x %s\n", h.Name)
		}
		if err := c.extract(root, h, r); err != nil {
			return err
		}
	}
}

func (c tarCommand) extract(root *os.Root, h *tar.Header, r io.Reader) error {
	name := filepath.Clean(entryName(h.Name))
	if name == "." {
		return nil
	}
	if dir := filepath.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, 0o755)
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeReg:
		f, err := root.Create(name)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, r)
		if err = errors.Join(err, f.Close()); err != nil || c.touch {
			return err
		}
		return root.Chtimes(name, time.Time{}, h.ModTime)
	default:
		return nil // devices and the like do not exist on Windows
	}
}
