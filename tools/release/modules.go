// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/mod/module"
)

// dependency is a module that is linked into programs of the release.
type dependency struct {
	module.Version
	sum      string   // as in go.sum
	programs []string // names of files of the release
}

// own is the path of this project's modules.
const own = "github.com/mullion-k8s/mullion"

// dependencies reads the modules that the programs are made of, sorted by path.
func dependencies(files []entry) ([]dependency, error) {
	found := map[module.Version]*dependency{}
	for _, e := range files {
		if !e.isBuilt() {
			continue
		}
		info, err := buildinfo.ReadFile(e.source)
		if err != nil {
			if strings.HasSuffix(e.name, ".dll") {
				continue // of C
			}
			return nil, fmt.Errorf("read the modules of %s: %w", e.source, err)
		}
		modules := info.Deps
		if info.Main.Path != "" && info.Main.Version != "" && info.Main.Version != "(devel)" {
			modules = append(modules, &info.Main)
		}
		for _, m := range modules {
			if m.Path == own || strings.HasPrefix(m.Path, own+"/") {
				continue
			}
			if m.Replace != nil {
				m = m.Replace
			}
			v := module.Version{Path: m.Path, Version: m.Version}
			if found[v] == nil {
				found[v] = &dependency{Version: v, sum: m.Sum}
			}
			if d := found[v]; !slices.Contains(d.programs, e.name) {
				d.programs = append(d.programs, e.name)
			}
		}
	}
	out := make([]dependency, 0, len(found))
	for _, d := range found {
		out = append(out, *d)
	}
	slices.SortFunc(out, func(a, b dependency) int {
		return strings.Compare(a.Path+"@"+a.Version.Version, b.Path+"@"+b.Version.Version)
	})
	return out, nil
}

// license matches the names under which projects keep their terms and notices.
var license = regexp.MustCompile(`(?i)^(licen[sc]e|copying|notice|patents)([._-].*)?$`)

// licenses returns the terms of the dependencies, and of Go's own library.
func licenses(deps []dependency) ([]entry, error) {
	out, err := exec.Command("go", "env", "GOMODCACHE", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	cache, goroot, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	all, err := licensesIn(goroot, "licenses/go@"+runtime.Version())
	if err != nil {
		return nil, err
	}
	for _, d := range deps {
		path, err := module.EscapePath(d.Path)
		if err != nil {
			return nil, err
		}
		version, err := module.EscapeVersion(d.Version.Version)
		if err != nil {
			return nil, err
		}
		found, err := licensesIn(filepath.Join(cache, path+"@"+version), "licenses/"+d.Path+"@"+d.Version.Version)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// licensesIn returns the files with terms in a directory, under a name of the
// release.
func licensesIn(dir, name string) ([]entry, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("find the license of %s: %w", name, err)
	}
	var out []entry
	for _, f := range files {
		if f.Type().IsRegular() && license.MatchString(f.Name()) {
			out = append(out, entry{name: name + "/" + f.Name(), source: filepath.Join(dir, f.Name()), mode: 0o644})
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no license in " + dir)
	}
	return out, nil
}
