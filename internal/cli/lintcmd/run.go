// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lintcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/lint"
	"github.com/mullion-k8s/mullion/internal/lint/baseline"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/version"
)

// run is one run of the command.
type run struct {
	s                cli.Streams
	flags            flags
	args             []string
	rules            map[string]policy.Severity // of the settings, see lint.Config
	excluded         excluder
	facts            policy.Facts
	severity, failOn policy.Severity
	cluster          *connection        // nil without --cluster
	accepted         *baseline.Baseline // nil without --baseline
	found            found
	unread           bool // a file could not be read, which has been reported to the user
}

// start runs the command.
func start(cmd *cobra.Command, s cli.Streams, f flags, args []string) error {
	// Live memory is a megabyte or two, and some more for kustomize's schemas: with
	// default settings the collector would run all the time.
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(softMemoryBytes)
	ctx := cmd.Context()
	set, err := f.read(args)
	if err != nil {
		return err
	}
	f.merge(cmd.Flags(), set)
	r := run{s: s, flags: f, args: args, rules: set.Rules}
	if r.excluded, err = f.excluder(set); err != nil {
		return err
	}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	output := lint.Output{Format: f.output, Version: version.String(), Root: f.root(args)}
	printer, err := lint.NewPrinter(output, s.Out)
	if err != nil {
		return cli.Usagef("%w", err)
	}
	if r.found, err = f.find(ctx, s, r.excluded, args); err != nil {
		return err
	}
	if f.fix {
		if slices.Contains(args, "-") {
			return r.fixStream(ctx)
		}
		if err := r.fixFiles(ctx); err != nil {
			return err
		}
		if f.diff {
			return r.conclude(lint.Summary{})
		}
	}
	return r.check(ctx, printer)
}

// prepare reads the rest of the flags, and the files that they name.
func (r *run) prepare(ctx context.Context) error {
	var err error
	if r.facts, err = r.flags.facts(); err != nil {
		return cli.Usagef("%w", err)
	}
	if r.severity, err = policy.ParseSeverity(r.flags.severity); err != nil {
		return cli.Usagef("%w", err)
	}
	if r.failOn, err = policy.ParseSeverity(r.flags.failOn); err != nil {
		return cli.Usagef("%w", err)
	}
	switch file := r.flags.baseline; {
	case r.flags.writeBaseline && file == "":
		return cli.Usagef("--write-baseline needs --baseline FILE, or a baseline in the settings")
	case r.flags.writeBaseline:
		r.accepted = baseline.New(file)
	case file != "":
		if r.accepted, err = baseline.Read(file); err != nil {
			return cli.WithHint(cli.Usagef("%w", err),
				"write it with --baseline %s --write-baseline; it lists the current findings", file)
		}
	}
	if !r.flags.cluster {
		return nil
	}
	if r.cluster, err = connect(r.flags); err != nil {
		return err
	}
	if r.facts, err = r.cluster.facts(ctx, r.s, r.facts); err != nil {
		return err
	}
	r.flags.placed = r.flags.placed || r.cluster.places(ctx)
	return nil
}

// gcPercent lets about 32 MiB of garbage accumulate between collections (the
// minimum heap of 4 MiB times this percentage).
const gcPercent = 800

// softMemoryBytes is the size at which collections become more frequent: the
// trees of large documents are live memory.
const softMemoryBytes = 144 << 20

// buildMemoryBytes is softMemoryBytes while kustomizations are built: their objects stay
// in memory, and a limit below their size keeps the collector busy.
const buildMemoryBytes = 512 << 20

// check checks the inputs found, or the objects of the cluster.
func (r *run) check(ctx context.Context, printer lint.Printer) error {
	if len(r.found.named)+len(r.found.met) > 0 {
		debug.SetMemoryLimit(buildMemoryBytes)
	}
	builds, err := r.found.build(ctx, r.s)
	if err != nil {
		return err
	}
	if len(builds) > 0 { // their objects stay
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		debug.SetMemoryLimit(softMemoryBytes + int64(m.HeapAlloc))
	}
	cfg := lint.Config{
		Inputs:   r.found.inputs,
		Builds:   builds,
		Facts:    r.facts,
		Severity: r.severity,
		Placed:   r.flags.placed,
		Fixes:    r.flags.output == "sarif",
		Rules:    r.rules,
	}
	if len(r.excluded) > 0 {
		cfg.Excluded = func(file string) bool { return file != "" && r.excluded.excludes(place(file), false) }
	}
	switch {
	case r.flags.writeBaseline:
		cfg.Known = r.accepted.Add
	case r.accepted != nil:
		cfg.Known = r.accepted.Known
	}
	var sum lint.Summary
	if r.flags.nothing(r.args) {
		sum, err = r.cluster.lint(ctx, r.s, cfg, r.flags.namespace, printer.Print)
	} else {
		sum, err = lint.Run(ctx, cfg, printer.Print)
	}
	sum.Notes = r.found.notes
	if err = errors.Join(err, printer.Close(sum)); err != nil {
		return err
	}
	if r.flags.writeBaseline {
		if err := r.accepted.Write(r.flags.baseline); err != nil {
			return fmt.Errorf("write %s: %w", r.flags.baseline, err)
		}
		fmt.Fprintf(r.s.Err, "mullion: %s in %s\n", count(sum.Known, "accepted finding"), r.flags.baseline)
	}
	return r.conclude(sum)
}

// conclude prints the counts and returns the error that carries the exit code.
func (r *run) conclude(sum lint.Summary) error {
	if !r.flags.diff && (r.flags.output == "text" || r.flags.output == "github") {
		for _, note := range sum.Unseen.Notes() {
			fmt.Fprintf(r.s.Err, "mullion: %s\n", note)
		}
		fmt.Fprintf(r.s.Err, "mullion: %s\n", r.counts(sum))
	}
	counts := map[policy.Severity]int{
		policy.Error:   sum.Errors,
		policy.Warning: sum.Errors + sum.Warnings,
		policy.Info:    sum.Errors + sum.Warnings + sum.Infos,
	}
	switch {
	case sum.Unread > 0 || r.unread:
		return cli.Silent(cli.Unread)
	case counts[r.failOn] > 0:
		return cli.Silent(cli.Unhealthy)
	}
	return nil
}

// counts returns the counts as a sentence.
func (r *run) counts(sum lint.Summary) string {
	var b strings.Builder
	if r.flags.nothing(r.args) {
		b.WriteString(count(sum.Objects, "object") + " in the cluster")
	} else {
		fmt.Fprintf(&b, "%s in %s", count(sum.Objects, "object"), count(sum.Files, "file"))
	}
	switch skipped := sum.SkippedDocuments(); {
	case skipped == 1:
		b.WriteString(" (1 document skipped that is not a manifest)")
	case skipped > 1:
		fmt.Fprintf(&b, " (%d documents skipped that are not manifests)", skipped)
	}
	fmt.Fprintf(&b, ": %s, %s, %d suppressed",
		count(sum.Errors, "error"), count(sum.Warnings, "warning"), sum.Suppressed)
	if r.accepted != nil {
		fmt.Fprintf(&b, ", %d accepted", sum.Known)
	}
	return b.String()
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// fixStream writes the fixed standard input to standard output, and the
// remaining findings to standard error.
func (r *run) fixStream(ctx context.Context) error {
	if len(r.args) > 1 {
		return cli.Usagef("--fix takes standard input or files, not both")
	}
	fixed, err := lint.FixAll(ctx, "<stdin>", r.s.In, r.facts, r.rules)
	if err != nil {
		return err
	}
	if _, err := r.s.Out.Write(fixed.Text); err != nil {
		return err
	}
	r.flags.output = "text"
	printer, err := lint.NewPrinter(lint.Output{Format: r.flags.output}, r.s.Err)
	if err != nil {
		return err
	}
	r.found.inputs = []lint.Input{{Name: "<stdin>", Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(fixed.Text)), nil
	}}}
	return r.check(ctx, printer)
}
