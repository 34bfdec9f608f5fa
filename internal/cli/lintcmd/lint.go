// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package lintcmd has the command `mullion lint`, which finds the inputs of package
// lint, reads the repository's settings and writes the fixes.
package lintcmd

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/lint"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// flags holds the command's flags.
type flags struct {
	kubernetes, output, severity, failOn, platform string
	builds, taints                                 []string
	fix, diff                                      bool
	cluster, placed                                bool
	kustomize, charts, values, set                 []string
	kubeconfig, context, namespace                 string
	config, baseline                               string
	writeBaseline, noGitignore                     bool
	exclude                                        []string
}

// New returns the command.
func New(s cli.Streams) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "lint [FILE|FOLDER|-]...",
		Short: "Check manifests for fields that Windows nodes reject, ignore or treat differently",
		Long: `Read manifests (YAML or JSON; files, folders or standard input) and report fields
that Windows nodes reject, silently ignore or treat differently, with the reason
and the fix.

In a folder with a kustomization.yaml, lint builds the kustomization like kubectl
kustomize and checks the result. -k does this for one folder. lint downloads no
files and runs no plugins. --chart renders a chart with the installed helm. In
folders, lint skips patches and files that are not manifests.

lint finds more with a description of the nodes: pass --builds and --node-taints,
or use --cluster to read nodes, RuntimeClasses and namespaces from the API server.
Without files, --cluster checks the objects in the cluster. lint never changes the
cluster and never contacts a registry.

mullion's admission webhooks add selectors and tolerations to pods. With --placed,
or if --cluster finds the webhooks, lint reports only the remaining problems.

--fix edits the files. It adds the fields that admission would add to pods
(selectors for the operating system, spec.os.name), and removes fields that only
Linux uses. With --builds or --cluster, it also adds a selector for the builds that
can run the image, and tolerations for the nodes' taints. It fixes pod templates of
Deployments and other workloads, too, and keeps all other lines and comments. It
never edits patches, nor custom resources with an unknown schema. It leaves to you
any fix that would change the operating system of a pod. With --diff it only prints
the changes. A second run changes nothing. lint prints the remaining findings (to
standard error if the input is -), and they determine the exit code.

.mullion.yaml has the settings of a repository: paths to leave out, severities of
rules, the nodes. It is in the folder of the files or in a parent folder, up to the
root of the git checkout. Flags win over it. --baseline FILE leaves out the findings
listed in the file, and --write-baseline writes the file. In folders, lint skips
files that git ignores.

A comment suppresses rules for a field and everything below it, an annotation for
an object. Both need a reason:

  # mullion:ignore WIN312 no other pod runs on this node
  ignore.lint.mullion.dev/WIN312: no other pod runs on this node

The exit code is 0 without findings, 1 with findings, and 2 if the command line or
the settings are wrong. It is 5 if lint cannot read an input: a file that is missing
or not a manifest, or a kustomization that cannot be built. lint still checks the
other files.`,
		Example: `  mullion lint deploy/
  helm template chart/ | mullion lint -
  mullion lint --builds 2022,2025 --node-taints os=windows:NoSchedule deploy/
  mullion lint --cluster deploy/
  mullion lint --cluster --context staging -n shop
  mullion lint -k overlays/windows
  mullion lint --chart charts/app --values windows.yaml
  mullion lint --fix --diff deploy/
  mullion lint --fix --builds 2019,2022,2025 deploy/iis.yaml
  mullion lint --exclude vendor/ --exclude '*.generated.yaml' .
  mullion lint --baseline lint-baseline.jsonl --write-baseline .
  mullion lint explain WIN019`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(args); err != nil {
				return err
			}
			return start(cmd, s, f, args)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.kubernetes, "kubernetes-version", "",
		"Kubernetes `version` of the cluster, such as 1.34 (default: the newest that lint supports)")
	fl.StringSliceVar(&f.builds, "builds", nil, "`builds` of the Windows nodes, such as 2022,2025 or 10.0.20348")
	fl.StringSliceVar(&f.taints, "node-taints", nil, "`taints` of all Windows nodes, such as os=windows:NoSchedule")
	fl.BoolVar(&f.cluster, "cluster", false,
		"read the nodes from a cluster; without files, check the objects in the cluster")
	fl.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `file` (default: $KUBECONFIG, then ~/.kube/config)")
	fl.StringVar(&f.context, "context", "", "`name` of the kubeconfig context (default: the current context)")
	fl.StringVarP(&f.namespace, "namespace", "n", "", "check only the cluster's objects in this `namespace`")
	fl.BoolVar(&f.placed, "placed", false,
		"expect mullion's placement to change the pods; implied if --cluster finds its webhooks")
	fl.StringVar(&f.platform, "platform", "", "`name` of the managed platform, if its rules differ: eks")
	f.output, f.severity, f.failOn = "text", "warning", "warning"
	levels := []string{"error", "warning", "info"}
	cli.OneOf(cmd, &f.output, "output", "o", "output `format`: text, json (one object per line), sarif, "+
		"github (annotations of a workflow) or junit", lint.Formats()...)
	cli.OneOf(cmd, &f.severity, "severity", "", "minimum `level` to print: error, warning or info", levels...)
	cli.OneOf(cmd, &f.failOn, "fail-on", "", "minimum `level` for exit code 1: error, warning or info", levels...)
	fl.BoolVar(&f.fix, "fix", false, "write safe fixes, and the fields that placement would add, to the files; for "+
		"-, write to standard output")
	fl.StringSliceVar(&f.charts, "chart", nil,
		"render the Helm chart in a `folder` with the installed helm, and check it")
	fl.StringSliceVarP(&f.values, "values", "f", nil, "`file` with values for --chart")
	fl.StringArrayVar(&f.set, "set", nil, "`key=value` for --chart")
	fl.BoolVar(&f.diff, "diff", false, "with --fix: print the changes and leave the files alone")
	fl.StringSliceVarP(&f.kustomize, "kustomize", "k", nil,
		"build the kustomization of a `folder` and check the result")
	fl.StringVar(&f.config, "config", "", "`file` with settings (default: .mullion.yaml in the repository)")
	fl.StringArrayVar(&f.exclude, "exclude", nil, "`pattern` of files to leave out, as in .gitignore files")
	fl.BoolVar(&f.noGitignore, "no-gitignore", false, "in folders, also check files that git ignores")
	fl.StringVar(&f.baseline, "baseline", "", "`file` with accepted findings, which are not reported")
	fl.BoolVar(&f.writeBaseline, "write-baseline", false, "accept all findings: write them to the file of --baseline")
	cmd.AddCommand(explain(s))
	return cmd
}

func explain(s cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use:     "explain CODE...",
		Short:   "Explain a rule",
		Example: "  mullion lint explain WIN019",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			for i, code := range args {
				rule, ok := lint.FindRule(code)
				if !ok {
					return cli.WithHint(cli.Usagef("no rule has the code %q", code),
						"codes are such as WIN019; docs/reference/rules.md lists them")
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

// check rejects combinations of flags that make no sense.
func (f flags) check(args []string) error {
	switch {
	case f.nothing(args) && !f.cluster:
		return cli.Usagef("nothing to lint: pass files or folders, - for standard input, or --cluster for the " +
			"objects in a cluster")
	case f.diff && (!f.fix || slices.Contains(args, "-")):
		return cli.Usagef("--diff needs --fix, and files")
	case len(f.charts) == 0 && len(f.values)+len(f.set) > 0:
		return cli.Usagef("--values and --set need --chart")
	case len(f.charts) > 0 && f.fix:
		return cli.Usagef("--fix cannot change charts: their templates are not manifests")
	case f.nothing(args) && f.fix:
		return cli.Usagef("--fix needs files to change")
	case f.cluster && (len(f.builds) > 0 || len(f.taints) > 0 || f.kubernetes != ""):
		return cli.Usagef("--cluster cannot be combined with --builds, --node-taints or --kubernetes-version")
	case !f.cluster && (f.kubeconfig != "" || f.context != ""):
		return cli.Usagef("--kubeconfig and --context need --cluster")
	case f.namespace != "" && (!f.cluster || !f.nothing(args)):
		return cli.Usagef("--namespace needs --cluster, without files")
	}
	return nil
}

// nothing reports whether the command line names no input.
func (f flags) nothing(args []string) bool { return len(args)+len(f.kustomize)+len(f.charts) == 0 }

// facts derives facts about the cluster from the flags.
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
		out.Nodes = append(out.Nodes, policy.Node{
			Name:   "of build " + b.Label(),
			OS:     "windows",
			Build:  b,
			Taints: taints,
		})
	}
	if len(taints) > 0 && len(f.builds) == 0 {
		return out, errors.New("--node-taints needs --builds")
	}
	return out, nil
}
