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

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/durable"
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
	cluster, placed                                bool
	kubeconfig, context, namespace                 string
}

// New makes the command.
func New(s cli.Streams) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "lint [FILE|FOLDER|-]...",
		Short: "Say what in manifests Windows nodes refuse, ignore or do differently",
		Long: `lint reads manifests (YAML or JSON, files, folders or standard input) and
says what Windows nodes refuse, ignore in silence or do differently, with the
reason and the fix.

It knows more if it knows the nodes: --builds and --node-taints name them, and
--cluster asks the API server for its nodes, RuntimeClasses and namespaces.
--cluster without files judges the objects that the cluster holds. It reads, and
changes nothing; no registry is asked.

Where mullion's admission is installed, pods get selectors and tolerations
anyway; with --placed, or if --cluster finds it there, lint says only what is
left.

--fix writes into the files what admission would write into their pods, and
takes out what Windows ignores: fields for Linux only go, selectors of the
operating system and spec.os.name come; with the nodes known also a selector of
the builds that can run the image, and tolerations of the nodes' taints. Lines
and comments around stay as they are. Templates of Deployments and the like are
mended too. Calling it again changes nothing more. Findings that are left are
printed; with - they go to standard error, and the exit code is about them.

A comment suppresses rules for a field and what is below it; an annotation for
an object. Both want a reason:

  # mullion:ignore WIN312 the node has nothing else to do
  ignore.lint.mullion.dev/WIN312: the node has nothing else to do

The exit code is 0 without findings, 1 with, 2 if the command line is wrong.`,
		Example: `  mullion lint deploy/
  helm template chart/ | mullion lint -
  mullion lint --builds 2022,2025 --node-taints os=windows:NoSchedule deploy/
  mullion lint --cluster deploy/
  mullion lint --cluster --context staging -n shop
  mullion lint --fix --builds 2019,2022,2025 deploy/iis.yaml
  mullion lint explain WIN019`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(args); err != nil {
				return err
			}
			return run(cmd.Context(), s, f, args)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.kubernetes, "kubernetes-version", "", "`version` of the cluster, such as 1.34; without it the rules of the newest hold")
	fl.StringSliceVar(&f.builds, "builds", nil, "`builds` of the Windows nodes, such as 2022,2025 or 10.0.20348")
	fl.StringSliceVar(&f.taints, "node-taints", nil, "`taints` of all Windows nodes, such as os=windows:NoSchedule")
	fl.BoolVar(&f.cluster, "cluster", false, "ask a cluster what its nodes are; without files, judge the objects that it holds")
	fl.StringVar(&f.kubeconfig, "kubeconfig", "", "`file` with the address of the cluster and credentials; without it $KUBECONFIG or ~/.kube/config")
	fl.StringVar(&f.context, "context", "", "`name` of the context in it; without it the current one")
	fl.StringVarP(&f.namespace, "namespace", "n", "", "judge the cluster's objects of one `namespace` only")
	fl.BoolVar(&f.placed, "placed", false, "the cluster has mullion's admission: judge pods as it will place them (--cluster finds out)")
	fl.StringVar(&f.platform, "platform", "", "whose cluster it is, where that matters: `eks`")
	fl.StringVarP(&f.output, "output", "o", "text", "`format`: text, json (an object per line) or sarif")
	fl.StringVar(&f.severity, "severity", "warning", "the least that is printed: `error`, warning or info")
	fl.StringVar(&f.failOn, "fail-on", "warning", "the least that makes the exit code 1: `error`, warning or info")
	fl.BoolVar(&f.fix, "fix", false, "write what can be mended safely, and what placement would write, into the files; with - to standard output")
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

// check refuses flags that say nothing together.
func (f flags) check(args []string) error {
	switch {
	case len(args) == 0 && !f.cluster:
		return cli.Usagef("nothing to lint: name files or folders, - for standard input, or --cluster for the objects of a cluster")
	case len(args) == 0 && f.fix:
		return cli.Usagef("--fix mends files: name them")
	case f.cluster && (len(f.builds) > 0 || len(f.taints) > 0 || f.kubernetes != ""):
		return cli.Usagef("--cluster tells what --builds, --node-taints and --kubernetes-version would")
	case !f.cluster && (f.kubeconfig != "" || f.context != ""):
		return cli.Usagef("--kubeconfig and --context need --cluster")
	case f.namespace != "" && (!f.cluster || len(args) > 0):
		return cli.Usagef("--namespace is for --cluster without files")
	}
	return nil
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
	var cluster *connection
	if f.cluster {
		if cluster, err = connect(f); err != nil {
			return err
		}
		if facts, err = cluster.facts(ctx, s, facts); err != nil {
			return err
		}
		f.placed = f.placed || cluster.places(ctx)
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
			return fixStream(ctx, s, facts, severity, failOn)
		}
		if err := fixFiles(s, inputs, facts); err != nil {
			return err
		}
	}
	cfg := lint.Config{Inputs: inputs, Facts: facts, Severity: severity, Placed: f.placed}
	var sum lint.Summary
	if len(args) == 0 {
		sum, err = cluster.lint(ctx, s, cfg, f.namespace, printer.Print)
	} else {
		// What is alive at a time is a megabyte or two: the collector would run all
		// the time.
		debug.SetGCPercent(gcPercent)
		debug.SetMemoryLimit(softMemoryBytes)
		sum, err = lint.Run(ctx, cfg, printer.Print)
	}
	if err = errors.Join(err, printer.Close(sum)); err != nil {
		return err
	}
	return conclude(s, f.output, failOn, sum)
}

// conclude prints the counts and makes the exit code.
func conclude(s cli.Streams, output string, failOn policy.Severity, sum lint.Summary) error {
	if output == "text" {
		where := fmt.Sprintf("%s in %s", count(sum.Objects, "object"), count(sum.Files, "file"))
		if sum.Files == 0 {
			where = count(sum.Objects, "object") + " of the cluster"
		}
		fmt.Fprintf(s.Err, "mullion: %s: %s, %s, %d suppressed\n", where, count(sum.Errors, "error"), count(sum.Warnings, "warning"), sum.Suppressed)
	}
	counts := map[policy.Severity]int{policy.Error: sum.Errors, policy.Warning: sum.Errors + sum.Warnings, policy.Info: sum.Errors + sum.Warnings + sum.Infos}
	if counts[failOn] > 0 {
		return cli.Silent(cli.Unhealthy)
	}
	return nil
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func isAre(n int, what string) string {
	if n == 1 {
		return count(n, what) + " is"
	}
	return count(n, what) + " are"
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

// fixStream writes standard input, mended, to standard output; what is left to
// say of it goes to standard error.
func fixStream(ctx context.Context, s cli.Streams, facts policy.Facts, severity, failOn policy.Severity) error {
	fixed, err := lint.FixAll("<stdin>", s.In, facts)
	if err != nil {
		return err
	}
	if _, err := s.Out.Write(fixed.Text); err != nil {
		return err
	}
	printer, err := lint.NewPrinter("text", s.Err, version.String())
	if err != nil {
		return err
	}
	in := lint.Input{Name: "<stdin>", Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(fixed.Text)), nil }}
	sum, err := lint.Run(ctx, lint.Config{Inputs: []lint.Input{in}, Facts: facts, Severity: severity}, printer.Print)
	if err = errors.Join(err, printer.Close(sum)); err != nil {
		return err
	}
	return conclude(s, "text", failOn, sum)
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
			fmt.Fprintf(s.Err, "mullion: %s: %s left to you\n", in.Name, isAre(fixed.Left, "change"))
		}
		if fixed.Applied == 0 {
			continue
		}
		if err := durable.WriteFile(in.Name, fixed.Text, info.Mode().Perm()); err != nil {
			return fmt.Errorf("write %s: %w", in.Name, err)
		}
		fmt.Fprintf(s.Err, "mullion: %s: %s\n", in.Name, count(fixed.Applied, "change"))
	}
	return nil
}
