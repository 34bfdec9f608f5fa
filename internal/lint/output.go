// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/mullion-k8s/mullion/internal/lint/checkout"
)

// Printer writes results in one format.
type Printer interface {
	Print(Result) error
	Close(Summary) error // writes the remaining output
}

// Output selects a format.
type Output struct {
	Format  string // text, json, sarif, github or junit
	Version string // mullion's
	Root    string // the checkout or the working folder: names of files are relative to it
}

// Formats lists the formats of NewPrinter.
func Formats() []string { return []string{"text", "json", "sarif", "github", "junit"} }

// NewPrinter returns a printer that writes to w.
func NewPrinter(o Output, w io.Writer) (Printer, error) {
	b, paths := bufio.NewWriter(w), NewPaths(o.Root)
	switch o.Format {
	case "text":
		return &textPrinter{w: b}, nil
	case "json":
		return &jsonPrinter{w: b}, nil
	case "sarif":
		return &sarifPrinter{w: b, version: o.Version, root: o.Root, paths: paths}, nil
	case "github":
		return &githubPrinter{w: b, paths: paths}, nil
	case "junit":
		return &junitPrinter{w: b, paths: paths}, nil
	}
	return nil, fmt.Errorf("output format %q: want %s", o.Format, strings.Join(Formats(), ", "))
}

// Paths names files relative to a folder, wherever lint is run.
type Paths struct {
	root  string // absolute, without symbolic links
	known map[string]string
}

// NewPaths returns names relative to a folder.
func NewPaths(root string) *Paths {
	return &Paths{root: checkout.Real(root), known: map[string]string{}}
}

// Of returns the name of a file, with slashes; an absolute one if the file is not
// below the folder. Other inputs than files keep their names.
func (p *Paths) Of(file string) string {
	if name, ok := p.known[file]; ok || strings.HasPrefix(file, "<") || file == "" {
		return cmp.Or(name, file)
	}
	// A link has its own place, independent of its target.
	at := filepath.Join(checkout.Real(filepath.Dir(file)), filepath.Base(file))
	name, err := filepath.Rel(p.root, at)
	if err != nil || name == ".." || strings.HasPrefix(name, ".."+string(filepath.Separator)) {
		name = at
	}
	p.known[file] = filepath.ToSlash(name)
	return p.known[file]
}

// uri returns the name of a file as a reference (RFC 3986), and whether it is
// relative.
func (p *Paths) uri(file string) (reference string, relative bool) {
	name := p.Of(file)
	if filepath.IsAbs(name) {
		return (&url.URL{Scheme: "file", Path: name}).String(), false
	}
	return (&url.URL{Path: name}).String(), true
}
