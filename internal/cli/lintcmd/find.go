// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lintcmd

import (
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
	"github.com/mullion-k8s/mullion/internal/lint/kustomize"
)

// found holds what the arguments name.
type found struct {
	inputs []lint.Input
	named  []string // folders whose kustomizations the user named
	met    []string // folders with kustomizations, in the folders that the user named
}

// find resolves the arguments. It searches folders for manifests and for
// kustomizations.
func find(ctx context.Context, s cli.Streams, f flags, args []string) (found, error) {
	var out found
	for _, dir := range f.kustomize {
		if kustomize.File(dir) == "" {
			return out, cli.Usagef("%s has no kustomization.yaml", dir)
		}
		out.named = append(out.named, filepath.Clean(dir))
	}
	for _, dir := range f.charts {
		o := chart.Options{Values: f.values, Set: f.set, Kubernetes: f.kubernetes}
		rendered, err := chart.Render(ctx, dir, o)
		if errors.Is(err, chart.ErrNoHelm) {
			hint := "install helm, or: helm template … | mullion lint -"
			return out, cli.Environmentf(hint, "render %s: %w", dir, err)
		}
		if err != nil {
			return out, err
		}
		for _, r := range rendered {
			out.inputs = append(out.inputs, lint.Rendered(r.File, r.Template, r.Text))
		}
	}
	for _, a := range args {
		if a == "-" {
			open := func() (io.ReadCloser, error) { return io.NopCloser(s.In), nil }
			out.inputs = append(out.inputs, lint.Input{Name: "<stdin>", Once: true, Open: open})
			continue
		}
		info, err := os.Stat(a)
		if err != nil {
			return out, cli.Usagef("%w", err)
		}
		switch {
		case info.IsDir():
			if err := out.search(ctx, s, a); err != nil {
				return out, fmt.Errorf("search %s: %w", a, err)
			}
		case kustomize.File(filepath.Dir(a)) == filepath.Clean(a):
			out.named = append(out.named, filepath.Dir(a))
		default:
			in := lint.File(a)
			in.Once = !info.Mode().IsRegular() // a pipe, as <(helm template …) is
			out.inputs = append(out.inputs, in)
		}
	}
	return out, nil
}

// search finds manifests and kustomizations in a folder.
func (out *found) search(ctx context.Context, s cli.Streams, folder string) error {
	return filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case d.IsDir() && path != folder && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules"):
			return filepath.SkipDir
		case d.IsDir():
			if _, err := os.Stat(filepath.Join(path, "Chart.yaml")); err == nil {
				fmt.Fprintf(s.Err, "mullion: skipped the chart %s; use: mullion lint --chart %s\n", path, path)
				return filepath.SkipDir
			}
			if kustomize.File(path) != "" {
				out.met = append(out.met, path)
			}
		case d.Type().IsRegular() && slices.Contains([]string{".yaml", ".yml", ".json"},
			strings.ToLower(filepath.Ext(path))):
			in := lint.File(path)
			in.Found = true
			out.inputs = append(out.inputs, in)
		}
		return nil
	})
}

// kustomizations reads the kustomizations; nil if there are none.
func (out *found) kustomizations(ctx context.Context) (*kustomize.Set, error) {
	if len(out.named)+len(out.met) == 0 {
		return nil, nil
	}
	set, err := kustomize.Read(ctx, append(slices.Clone(out.named), out.met...))
	if err != nil {
		return nil, fmt.Errorf("read kustomizations: %w", err)
	}
	return set, nil
}

// build builds the kustomizations, and leaves only those inputs that none of
// them names.
func (out *found) build(ctx context.Context, s cli.Streams) ([]lint.Build, error) {
	set, err := out.kustomizations(ctx)
	if err != nil || set == nil {
		return nil, err
	}
	var builds []lint.Build
	alone := map[string]bool{} // resources of what could not be built
	told := map[string]bool{}
	for _, dir := range set.Tops(out.named, out.met) {
		made, err := set.Build(ctx, dir)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		for _, left := range made.Left {
			if left = relative(left); !told[left] {
				told[left] = true
				fmt.Fprintf(s.Err, "mullion: %s\n", left)
			}
		}
		b := lint.Build{File: relative(made.File)}
		for _, p := range made.Patches {
			b.Patches = append(b.Patches, relative(p))
		}
		switch {
		case err != nil && len(made.Left) > 0: // which is probably why
			fmt.Fprintf(s.Err, "mullion: %s is not checked as a whole, because of what is left out\n", b.File)
		case err != nil:
			b.Problem = relative(err.Error())
			builds = append(builds, b)
		}
		if err != nil {
			for _, r := range made.Resources {
				alone[r] = true
			}
			continue
		}
		for _, o := range made.Objects {
			b.Objects = append(b.Objects, lint.Built{Object: o.Tree, File: relative(o.File)})
		}
		builds = append(builds, b)
	}
	out.inputs = slices.DeleteFunc(out.inputs, func(in lint.Input) bool {
		return in.Found && set.Names(in.Name) && !alone[kustomize.Real(in.Name)]
	})
	return builds, nil
}

// relative makes absolute paths below the working folder relative to it, which
// is how users know them.
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
