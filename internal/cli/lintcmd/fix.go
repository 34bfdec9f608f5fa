// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lintcmd

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/lint"
	"github.com/mullion-k8s/mullion/internal/lint/checkout"
	"github.com/mullion-k8s/mullion/internal/lint/kustomize"
)

// fixing writes fixes to files, or shows them.
type fixing struct {
	*run
	set     *kustomize.Set // nil without kustomizations
	tops    []string
	systems map[string][]string // of the pods of each kustomization, before any fix
	changed int                 // files
}

// fixFiles fixes the files that the arguments name.
func (r *run) fixFiles(ctx context.Context) error {
	f := fixing{run: r, systems: map[string][]string{}}
	set, err := r.found.kustomizations(ctx)
	if err != nil {
		return err
	}
	inputs := r.found.inputs
	if set != nil {
		f.set, f.tops = set, set.Tops(r.found.named, r.found.met)
		for _, top := range f.tops {
			if made, err := set.Build(ctx, top); err == nil {
				f.systems[top] = lint.Systems(trees(made), r.facts)
			}
		}
		for _, path := range set.Resources() { // of bases outside of the folders named
			if !slices.ContainsFunc(inputs, func(in lint.Input) bool { return checkout.Real(in.Name) == path }) &&
				len(r.found.named) > 0 && !r.excluded.excludes(path, false) {
				inputs = append(inputs, lint.File(relative(path)))
			}
		}
	}
	for _, in := range inputs {
		if err := f.file(ctx, in.Name); err != nil {
			return err
		}
	}
	if f.flags.diff && f.changed == 0 && !r.unread { // without --diff, the check counts
		fmt.Fprintf(r.s.Err, "mullion: --fix has nothing to change in %s\n", count(len(inputs), "file"))
	}
	return nil
}

// file fixes one file.
func (f *fixing) file(ctx context.Context, name string) error {
	if f.set != nil && f.set.Names(name) && !slices.Contains(f.set.Resources(), checkout.Real(name)) {
		return nil // a patch, or a part of a kustomization
	}
	path, err := filepath.EvalSymlinks(name) // a link stays a link
	if err != nil {
		return f.unreadable(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return f.unreadable(err)
	}
	if !info.Mode().IsRegular() {
		return cli.Usagef("--fix cannot write to %s: it is not a file", name)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return f.unreadable(err)
	}
	fixed, err := lint.FixAll(ctx, name, bytes.NewReader(text), f.facts, f.rules)
	if err != nil {
		return err
	}
	if fixed.Left > 0 {
		fmt.Fprintf(f.s.Err, "mullion: %s: %s %s left to you\n", name, count(fixed.Left, "change"), isAre(fixed.Left))
	}
	if fixed.Applied == 0 {
		return nil
	}
	if top, err := f.changes(ctx, path, fixed.Text); err != nil || top != "" {
		if top != "" {
			fmt.Fprintf(f.s.Err, "mullion: %s: %s left to you: with the fix, pods of %s would run on another system\n",
				name, count(fixed.Applied, "change"), relative(top))
		}
		return err
	}
	f.changed++
	if f.flags.diff {
		_, err := f.s.Out.Write(diff.Diff(name, text, name, fixed.Text))
		return err
	}
	if err := durable.WriteFile(path, fixed.Text, info.Mode().Perm()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	fmt.Fprintf(f.s.Err, "mullion: %s: %s\n", name, count(fixed.Applied, "change"))
	return nil
}

// unreadable continues with the other files. Without --diff, the check after the fixes
// reports the file.
func (f *fixing) unreadable(err error) error {
	if f.flags.diff {
		f.unread = true
		fmt.Fprintf(f.s.Err, "mullion: error: %v\n", err)
	}
	return nil
}

// changes returns a kustomization that would build pods for another operating system if a
// file had another text, or "".
func (f *fixing) changes(ctx context.Context, path string, text []byte) (string, error) {
	if f.set == nil || !f.set.Names(path) {
		return "", nil
	}
	f.set.Replace(path, text)
	for _, top := range f.tops {
		made, err := f.set.Build(ctx, top)
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		was, built := f.systems[top]
		if built && (err != nil || !slices.Equal(lint.Systems(trees(made), f.facts), was)) {
			f.set.Replace(path, nil)
			return top, nil
		}
	}
	return "", nil
}

// trees returns the objects of a build.
func trees(made kustomize.Built) []map[string]any {
	var out []map[string]any
	for _, o := range made.Objects {
		out = append(out, o.Tree)
	}
	return out
}
