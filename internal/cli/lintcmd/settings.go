// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lintcmd

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/lint"
	"github.com/mullion-k8s/mullion/internal/lint/checkout"
	"github.com/mullion-k8s/mullion/internal/lint/settings"
)

// paths returns the paths that the command line names, or the working folder.
func (f *flags) paths(args []string) []string {
	var out []string
	for _, a := range args {
		if info, err := os.Stat(a); a == "-" || err == nil && !info.IsDir() && !info.Mode().IsRegular() {
			a = "." // standard input, or a pipe
		}
		out = append(out, a)
	}
	if out = append(append(out, f.kustomize...), f.charts...); len(out) == 0 {
		return []string{"."}
	}
	return out
}

// root returns the folder that names of files in the output are relative to: the
// checkout of the first path, or the working folder.
func (f *flags) root(args []string) string {
	if root := checkout.Root(checkout.Real(f.paths(args)[0])); root != "" {
		return root
	}
	return checkout.Real(".")
}

// read reads the settings of the repository: the file that --config names, or the one
// that applies to all paths of the command line.
func (f *flags) read(args []string) (settings.Settings, error) {
	file := f.config
	for i, path := range f.paths(args) {
		if f.config != "" {
			break
		}
		switch found := settings.Find(path); {
		case i == 0:
			file = found
		case found != file:
			return settings.Settings{}, cli.WithHint(
				cli.Usagef("%s and %s have different settings", f.paths(args)[0], path),
				"choose them with --config, or run lint once for each")
		}
	}
	if file == "" {
		return settings.Settings{}, nil
	}
	known := func(code string) bool { r, ok := lint.FindRule(code); return ok && r.Code == code }
	out, err := settings.Read(file, known)
	if err != nil {
		return out, cli.Usagef("read settings: %w", err)
	}
	return out, nil
}

// merge applies the settings for flags that are not on the command line.
func (f *flags) merge(set *pflag.FlagSet, s settings.Settings) {
	take := func(name string, value string, into *string) {
		if value != "" && !set.Changed(name) {
			*into = value
		}
	}
	take("platform", s.Platform, &f.platform)
	take("fail-on", s.FailOn, &f.failOn)
	if s.Baseline != "" {
		take("baseline", filepath.Join(filepath.Dir(s.File), filepath.FromSlash(s.Baseline)), &f.baseline)
	}
	if !set.Changed("placed") {
		f.placed = s.Placed
	}
	if f.cluster {
		return // it has nodes and a version
	}
	take("kubernetes-version", s.Kubernetes, &f.kubernetes)
	if !set.Changed("builds") {
		f.builds = s.Builds
	}
	if !set.Changed("node-taints") && len(f.builds) > 0 {
		f.taints = s.Taints
	}
}

// excluder matches the files that the user excludes from the checks.
type excluder []*checkout.Matcher

// excluder combines the patterns of the settings with the ones from --exclude.
func (f *flags) excluder(s settings.Settings) (excluder, error) {
	var out excluder
	if len(s.Exclude) > 0 {
		m, err := checkout.New(filepath.Dir(checkout.Real(s.File)), s.Exclude)
		if err != nil {
			return nil, cli.Usagef("read %s: %w", s.File, err)
		}
		out = append(out, m)
	}
	if len(f.exclude) > 0 {
		m, err := checkout.New(checkout.Real("."), f.exclude)
		if err != nil {
			return nil, cli.Usagef("--exclude: %w", err)
		}
		out = append(out, m)
	}
	return out, nil
}

// excludes reports whether a file or a folder is excluded.
func (e excluder) excludes(path string, folder bool) bool {
	return slices.ContainsFunc(e, func(m *checkout.Matcher) bool { return m.Excludes(path, folder) })
}

// place returns the absolute path of a file; a link has its own place.
func place(file string) string {
	return filepath.Join(checkout.Real(filepath.Dir(file)), filepath.Base(file))
}
