// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lintcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/lint"
	"github.com/mullion-k8s/mullion/internal/lint/chart"
	"github.com/mullion-k8s/mullion/internal/lint/checkout"
	"github.com/mullion-k8s/mullion/internal/lint/kustomize"
	"github.com/mullion-k8s/mullion/internal/lint/settings"
	"github.com/mullion-k8s/mullion/internal/version"
)

// found holds the inputs that the arguments name.
type found struct {
	inputs []lint.Input
	named  []string     // folders whose kustomizations the user named
	met    []string     // folders with kustomizations, in the folders that the user named
	within []string     // the folders that the user named
	failed []lint.Build // failed builds
	notes  []lint.Note  // on skipped files
}

// finder finds the inputs that the arguments name.
type finder struct {
	s        cli.Streams
	excluded excluder
	ignored  map[string]*checkout.Matcher // by the checkout; nil: git's patterns do not count
	own      []string                     // files of lint itself
	found
}

// note prints a note about a skipped file.
func (out *found) note(s cli.Streams, file, text string) {
	fmt.Fprintf(s.Err, "mullion: %s\n", text)
	out.notes = append(out.notes, lint.Note{File: file, Text: text})
}

// find resolves the arguments. It searches folders for manifests and for
// kustomizations.
func (f flags) find(ctx context.Context, s cli.Streams, excluded excluder, args []string) (found, error) {
	out := finder{s: s, excluded: excluded, own: []string{place(f.baseline)}}
	if !f.noGitignore {
		out.ignored = map[string]*checkout.Matcher{}
	}
	for _, dir := range f.kustomize {
		if kustomize.File(dir) == "" {
			out.failed = append(out.failed, lint.Build{
				File:    dir,
				Problem: "there is no kustomization.yaml",
				Hint:    "pass the folder of a kustomization",
			})
			continue
		}
		out.named = append(out.named, filepath.Clean(dir))
	}
	if err := out.charts(ctx, f); err != nil {
		return out.found, err
	}
	for _, a := range args {
		if err := out.argument(ctx, a); err != nil {
			return out.found, err
		}
	}
	return out.found, nil
}

// charts renders the charts that the user named.
func (out *finder) charts(ctx context.Context, f flags) error {
	for _, dir := range f.charts {
		// Without a version, helm uses its default.
		o := chart.Options{Values: f.values, Set: f.set, Kubernetes: cmp.Or(f.kubernetes, version.Kubernetes)}
		rendered, err := chart.Render(ctx, dir, o)
		switch {
		case errors.Is(err, chart.ErrNoHelm):
			hint := "install helm, or: helm template … | mullion lint -"
			return cli.Environmentf(hint, "render %s: %w", dir, err)
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			out.failed = append(out.failed, lint.Build{
				File:    filepath.Join(dir, "Chart.yaml"),
				Problem: "helm cannot render this: " + err.Error(),
				Hint:    chart.Hint(dir, err),
			})
		}
		for _, r := range rendered {
			if !out.excluded.excludes(place(r.File), false) {
				in := lint.Rendered(r.File, r.Template, r.Text)
				in.World = "chart " + dir
				out.inputs = append(out.inputs, in)
			}
		}
	}
	return nil
}

// argument resolves one file or folder. A file that does not exist is an input that
// cannot be read, which the run reports.
func (out *finder) argument(ctx context.Context, path string) error {
	if path == "-" {
		open := func() (io.ReadCloser, error) { return io.NopCloser(out.s.In), nil }
		out.inputs = append(out.inputs, lint.Input{Name: "<stdin>", Once: true, Open: open})
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		out.inputs = append(out.inputs, lint.File(path))
	case out.excluded.excludes(place(path), info.IsDir()):
		out.note(out.s, path, path+" is excluded")
	case info.IsDir():
		return out.search(ctx, path)
	case kustomize.File(filepath.Dir(path)) == filepath.Clean(path):
		out.named = append(out.named, filepath.Dir(path))
	default:
		in := lint.File(path)
		in.Once = !info.Mode().IsRegular() // a pipe, as <(helm template …) is
		out.inputs = append(out.inputs, in)
	}
	return nil
}

// gitignored returns git's patterns for a folder that the user named; nil if they
// do not count, also because they exclude all of it.
func (out *finder) gitignored(folder string) *checkout.Matcher {
	root := checkout.Root(folder)
	if out.ignored == nil || root == "" {
		return nil
	}
	if out.ignored[root] == nil {
		out.ignored[root] = checkout.Ignored(root)
	}
	if m := out.ignored[root]; !m.Excludes(folder, true) {
		return m
	}
	return nil
}

// search finds manifests and kustomizations in a folder.
func (out *finder) search(ctx context.Context, folder string) error {
	out.within = append(out.within, folder)
	top := checkout.Real(folder)
	ignored := out.gitignored(top)
	return filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		below, relErr := filepath.Rel(folder, path)
		at := filepath.Join(top, below)
		isDir := d != nil && d.IsDir()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil || relErr != nil:
			out.inputs = append(out.inputs, lint.File(path)) // the run reports it
		case isDir && path != folder && (strings.HasPrefix(d.Name(), ".") || dependencies(path)):
			return filepath.SkipDir
		case at != top && (ignored.Excludes(at, isDir) || out.excluded.excludes(at, isDir)):
			if isDir {
				return filepath.SkipDir
			}
		case isDir && path != folder && testData(path):
			out.note(out.s, path, fmt.Sprintf("skipped the test data %s; use: mullion lint %s", path, path))
			return filepath.SkipDir
		case isDir:
			if _, err := os.Stat(filepath.Join(path, "Chart.yaml")); err == nil {
				out.note(out.s, path, fmt.Sprintf("skipped the chart %s; use: mullion lint --chart %s", path, path))
				return filepath.SkipDir
			}
			if kustomize.File(path) != "" {
				out.met = append(out.met, path)
			}
		case d.Name() == settings.FileName || slices.Contains(out.own, at):
		case d.Type().IsRegular() && slices.Contains([]string{".yaml", ".yml", ".json"},
			strings.ToLower(filepath.Ext(path))):
			in := lint.File(path)
			in.Found = true
			out.inputs = append(out.inputs, in)
		}
		return nil
	})
}

// dependencies reports whether a folder holds other projects' files, which a package
// manager (npm or Go) has written.
func dependencies(folder string) bool {
	switch filepath.Base(folder) {
	case "node_modules":
		return true
	case "vendor":
		_, err := os.Stat(filepath.Join(folder, "modules.txt")) // https://go.dev/ref/mod#vendoring
		return err == nil
	}
	return false
}

// testData reports whether a folder holds the inputs and results of the tests of a Go
// package, which are for no cluster: some are wrong on purpose, or parts of objects.
// https://pkg.go.dev/cmd/go#hdr-Package_lists_and_patterns
func testData(folder string) bool {
	if filepath.Base(folder) != "testdata" {
		return false
	}
	tests, err := filepath.Glob(filepath.Join(filepath.Dir(folder), "*.go"))
	return err == nil && len(tests) > 0
}

// kustomizations reads the kustomizations; nil if the list is empty.
func (out *found) kustomizations(ctx context.Context) (*kustomize.Set, error) {
	if len(out.named)+len(out.met) == 0 {
		return nil, nil
	}
	set, err := kustomize.Read(ctx, append(slices.Clone(out.named), out.met...), out.within)
	if err != nil {
		return nil, fmt.Errorf("read kustomizations: %w", err)
	}
	return set, nil
}

// build builds the kustomizations, and leaves only the inputs that no kustomization
// names.
func (out *found) build(ctx context.Context, s cli.Streams) ([]lint.Build, error) {
	set, err := out.kustomizations(ctx)
	if err != nil || set == nil {
		return out.failed, err
	}
	builds := out.failed
	alone := map[string]bool{} // resources of failed builds
	told := map[string]bool{}
	for _, dir := range set.Tops(out.named, out.met) {
		made, err := set.Build(ctx, dir)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		for _, left := range made.Left {
			if left = relative(left); !told[left] {
				told[left] = true
				file, _, _ := strings.Cut(left, ":")
				out.note(s, file, left)
			}
		}
		b := lint.Build{File: relative(made.File)}
		for _, p := range made.Patches {
			b.Patches = append(b.Patches, relative(p))
		}
		switch {
		case err != nil && len(made.Left) > 0: // which is probably why
			out.note(s, b.File, b.File+" is only partly checked, because parts are left out")
		case err != nil:
			b.Problem = "kustomize cannot build this: " + relative(err.Error())
			b.Hint = "see the whole message: kubectl kustomize " + filepath.Dir(b.File)
			builds = append(builds, b)
		}
		if err != nil {
			for _, r := range made.Resources {
				alone[r] = true
			}
			continue
		}
		for _, o := range made.Objects {
			b.Objects = append(b.Objects, lint.Built{Object: o.Tree, File: relative(o.File), Partial: o.Partial})
		}
		builds = append(builds, b)
	}
	for i := range out.inputs {
		// A file next to a kustomization that does not name it may be a disabled patch or
		// resource.
		in := &out.inputs[i]
		in.Part = alone[checkout.Real(in.Name)] || in.Found && kustomize.File(filepath.Dir(in.Name)) != ""
	}
	out.inputs = slices.DeleteFunc(out.inputs, func(in lint.Input) bool {
		return in.Found && set.Names(in.Name) && !alone[checkout.Real(in.Name)]
	})
	return builds, nil
}

// relative makes absolute paths below the working folder relative to it, as users expect.
func relative(text string) string {
	wd, err := os.Getwd()
	if err != nil {
		return text
	}
	if at, err := filepath.EvalSymlinks(wd); err == nil {
		wd = at
	}
	return strings.ReplaceAll(text, strings.TrimSuffix(wd, "/")+"/", "")
}
