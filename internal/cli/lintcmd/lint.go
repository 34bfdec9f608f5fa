// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package lintcmd is `mullion lint`.
package lintcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/atomicfile"
	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/lint"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/version"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// flags are the command's.
type flags struct {
	kubernetes, output, severity, failOn, platform string
	builds, taints                                 []string
	fix                                            bool
}

// New makes the command.
func New(s cli.Streams) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "lint [FILE|FOLDER|-]...",
		Short: "Say what in manifests Windows nodes refuse, ignore or do differently",
		Long: `lint reads manifests (YAML or JSON, files, folders or standard input) and
says what Windows nodes refuse, ignore in silence or do differently, with the
reason and the fix. Nothing is asked of a cluster.

A comment suppresses rules for a field and what is below it; an annotation for
an object. Both want a reason:

  # mullion:ignore WIN312 the node has nothing else to do
  ignore.lint.mullion.dev/WIN312: the node has nothing else to do

The exit code is 0 without findings, 1 with, 2 if the command line is wrong.`,
		Example: `  mullion lint deploy/
  helm template chart/ | mullion lint -
  mullion lint --builds 2022,2025 --node-taints os=windows:NoSchedule deploy/
  mullion lint --fix deploy/iis.yaml
  mullion lint explain WIN019`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("nothing to lint: name files or folders, or - for standard input")
			}
			return run(cmd.Context(), s, f, args)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.kubernetes, "kubernetes-version", "", "`version` of the cluster, such as 1.34; without it the rules of the newest hold")
	fl.StringSliceVar(&f.builds, "builds", nil, "`builds` of the Windows nodes, such as 2022,2025 or 10.0.20348")
	fl.StringSliceVar(&f.taints, "node-taints", nil, "`taints` of all Windows nodes, such as os=windows:NoSchedule")
	fl.StringVar(&f.platform, "platform", "", "whose cluster it is, where that matters: `eks`")
	fl.StringVarP(&f.output, "output", "o", "text", "`format`: text, json (an object per line) or sarif")
	fl.StringVar(&f.severity, "severity", "warning", "the least that is printed: `error`, warning or info")
	fl.StringVar(&f.failOn, "fail-on", "warning", "the least that makes the exit code 1: `error`, warning or info")
	fl.BoolVar(&f.fix, "fix", false, "write what can be mended safely into the files, comments kept; with - to standard output")
	cmd.AddCommand(explain(s))
	return cmd
}

func explain(s cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use:     "explain CODE...",
		Short:   "Print what a rule is about",
		Example: "  mullion lint explain WIN019",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			for i, code := range args {
				rule, ok := lint.FindRule(code)
				if !ok {
					return cli.Usagef("no rule has the code %q", code)
				}
				if i > 0 {
					fmt.Fprintln(s.Out)
				}
				if _, err := io.WriteString(s.Out, rule.Text()); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// facts turns the flags into what is known of the cluster.
func (f flags) facts() (policy.Facts, error) {
	out := policy.Facts{Platform: f.platform}
	var err error
	if f.kubernetes != "" {
		if out.Kubernetes, err = policy.ParseVersion(f.kubernetes); err != nil {
			return out, err
		}
	}
	var taints []policy.Taint
	for _, s := range f.taints {
		t, err := policy.ParseTaint(s)
		if err != nil {
			return out, err
		}
		taints = append(taints, t)
	}
	for _, s := range f.builds {
		b, err := winver.Parse(s)
		if err != nil {
			return out, err
		}
		out.Nodes = append(out.Nodes, policy.Node{Name: "of build " + b.Label(), OS: "windows", Build: b, Taints: taints})
	}
	if len(taints) > 0 && len(f.builds) == 0 {
		return out, errors.New("--node-taints needs --builds: it says of which nodes")
	}
	return out, nil
}

// gcPercent makes the collector wait for about 32 MiB of garbage (its minimum
// heap of 4 MiB times this).
const gcPercent = 800

// softMemoryBytes is where it stops to wait: large documents are alive as
// trees.
const softMemoryBytes = 256 << 20

func run(ctx context.Context, s cli.Streams, f flags, args []string) error {
	facts, err := f.facts()
	if err != nil {
		return cli.Usagef("%w", err)
	}
	severity, err := policy.ParseSeverity(f.severity)
	if err != nil {
		return cli.Usagef("%w", err)
	}
	failOn, err := policy.ParseSeverity(f.failOn)
	if err != nil {
		return cli.Usagef("%w", err)
	}
	printer, err := lint.NewPrinter(f.output, s.Out, version.String())
	if err != nil {
		return cli.Usagef("%w", err)
	}
	inputs, err := inputs(s, args)
	if err != nil {
		return err
	}
	if f.fix {
		if slices.Contains(args, "-") {
			if len(args) > 1 {
				return cli.Usagef("--fix mends standard input or files, not both")
			}
			return fixStream(s, facts)
		}
		if err := fixFiles(s, inputs, facts); err != nil {
			return err
		}
	}
	// What is alive at a time is a megabyte or two: the collector would run all
	// the time.
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(softMemoryBytes)
	sum, err := lint.Run(ctx, lint.Config{Inputs: inputs, Facts: facts, Severity: severity}, printer.Print)
	if err = errors.Join(err, printer.Close(sum)); err != nil {
		return err
	}
	if f.output == "text" {
		fmt.Fprintf(s.Err, "mullion: %d objects in %d files: %d errors, %d warnings, %d suppressed\n", sum.Objects, sum.Files, sum.Errors, sum.Warnings, sum.Suppressed)
	}
	counts := map[policy.Severity]int{policy.Error: sum.Errors, policy.Warning: sum.Errors + sum.Warnings, policy.Info: sum.Errors + sum.Warnings + sum.Infos}
	if counts[failOn] > 0 {
		return cli.Silent(cli.Unhealthy)
	}
	return nil
}

// inputs resolves the arguments: folders are searched for manifests.
func inputs(s cli.Streams, args []string) ([]lint.Input, error) {
	var out []lint.Input
	for _, a := range args {
		if a == "-" {
			out = append(out, lint.Input{Name: "<stdin>", Once: true, Open: func() (io.ReadCloser, error) { return io.NopCloser(s.In), nil }})
			continue
		}
		info, err := os.Stat(a)
		if err != nil {
			return nil, cli.Usagef("%w", err)
		}
		if !info.IsDir() {
			out = append(out, lint.File(a))
			continue
		}
		err = filepath.WalkDir(a, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && path != a && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules"):
				return filepath.SkipDir
			case d.IsDir():
				if _, err := os.Stat(filepath.Join(path, "Chart.yaml")); err == nil {
					fmt.Fprintf(s.Err, "mullion: %s is a chart, left out: helm template %s | mullion lint -\n", path, path)
					return filepath.SkipDir
				}
			case d.Type().IsRegular() && slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path))):
				out = append(out, lint.File(path))
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("search %s: %w", a, err)
		}
	}
	return out, nil
}

func fixStream(s cli.Streams, facts policy.Facts) error {
	fixed, err := lint.FixAll("<stdin>", s.In, facts)
	if err != nil {
		return err
	}
	_, err = s.Out.Write(fixed.Text)
	return err
}

func fixFiles(s cli.Streams, inputs []lint.Input, facts policy.Facts) error {
	for _, in := range inputs {
		info, err := os.Stat(in.Name)
		if err != nil {
			return err
		}
		file, err := os.ReadFile(in.Name)
		if err != nil {
			return err
		}
		fixed, err := lint.FixAll(in.Name, bytes.NewReader(file), facts)
		if err != nil {
			return err
		}
		if fixed.Left > 0 {
			fmt.Fprintf(s.Err, "mullion: %s: %d changes are left to you\n", in.Name, fixed.Left)
		}
		if fixed.Applied == 0 {
			continue
		}
		if err := atomicfile.Write(in.Name, fixed.Text, info.Mode().Perm()); err != nil {
			return fmt.Errorf("write %s: %w", in.Name, err)
		}
		fmt.Fprintf(s.Err, "mullion: %s: %d changes\n", in.Name, fixed.Applied)
	}
	return nil
}
