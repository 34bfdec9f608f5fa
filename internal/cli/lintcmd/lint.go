// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package lintcmd is `mullion lint`.
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
		Long: `lint reads manifests (YAML or JSON; files, folders or standard input) and reports
fields that Windows nodes reject, silently ignore or treat differently, with the
reason and the fix.

A folder with a kustomization.yaml is checked as what it builds, as kubectl
kustomize would; -k does so for one folder. Nothing is fetched, and no plugin
runs. --chart renders a chart with the helm that is installed. In folders,
patches and files that are not manifests are skipped.

It finds more if it knows the nodes: describe them with --builds and
--node-taints, or use --cluster to read nodes, RuntimeClasses and namespaces
from the API server. Without files, --cluster checks the objects in the cluster.
lint never changes the cluster and never contacts a registry.

If mullion's admission webhooks are installed, they add selectors and
tolerations to pods. With --placed, or if --cluster finds the webhooks, lint
reports only the remaining problems.

--fix edits the files: it adds the fields that admission would add to the pods
(selectors for the operating system, spec.os.name), and removes fields that only
Linux uses. It never edits patches, and custom resources only if it knows their
schema. A fix that would change the operating system of a pod, also of one that
a kustomization builds, is left to you. With --diff it prints the changes only.
If the nodes are known, it also adds a selector for the builds that can run the
image, and tolerations for the nodes' taints. It fixes pod templates
of Deployments and other workloads too, and keeps all other lines and comments.
A second run changes nothing. Remaining findings are printed (with - to standard
error) and determine the exit code.

Settings of a repository are in .mullion.yaml, in the folder of the files or in
one above it, up to the root of the git checkout: paths to leave out, severities
of rules, the nodes. Flags win over it. --baseline FILE leaves out findings that
the file lists; --write-baseline writes the file. In folders, what git ignores
is not checked.

A comment suppresses rules for a field and everything below it, an annotation
for an object. Both need a reason:

  # mullion:ignore WIN312 the node has nothing else to do
  ignore.lint.mullion.dev/WIN312: the node has nothing else to do

The exit code is 0 without findings, 1 with findings, 2 if the command line or
the settings are wrong, and 5 if there is something that lint cannot read: a file
that is missing or not a manifest, a kustomization that cannot be built. The
other files are checked nevertheless.`,
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
		"Kubernetes `version` of the cluster, such as 1.34 (default: the newest that lint knows)")
	fl.StringSliceVar(&f.builds, "builds", nil, "`builds` of the Windows nodes, such as 2022,2025 or 10.0.20348")
	fl.StringSliceVar(&f.taints, "node-taints", nil, "`taints` of all Windows nodes, such as os=windows:NoSchedule")
	fl.BoolVar(&f.cluster, "cluster", false,
		"read the nodes from a cluster; without files, check the objects in the cluster")
	fl.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `file` (default: $KUBECONFIG, then ~/.kube/config)")
	fl.StringVar(&f.context, "context", "", "`name` of the kubeconfig context (default: the current context)")
	fl.StringVarP(&f.namespace, "namespace", "n", "", "check only the cluster's objects in this `namespace`")
	fl.BoolVar(&f.placed, "placed", false,
		"check pods as mullion's placement will change them; implied if --cluster finds it")
	fl.StringVar(&f.platform, "platform", "", "the managed platform, if its rules differ: `eks`")
	fl.StringVarP(&f.output, "output", "o", "text", "output `format`: text, json (one object per line), sarif, "+
		"github (annotations of a workflow) or junit")
	fl.StringVar(&f.severity, "severity", "warning", "minimum severity to print: `error`, warning or info")
	fl.StringVar(&f.failOn, "fail-on", "warning", "minimum severity for exit code 1: `error`, warning or info")
	fl.BoolVar(&f.fix, "fix", false, "write safe fixes, and the fields that placement would add, to the files; with "+
		"- to standard output")
	fl.StringSliceVar(&f.charts, "chart", nil,
		"render the Helm chart in a `folder` with the installed helm, and check it")
	fl.StringSliceVarP(&f.values, "values", "f", nil, "`file` with values for --chart")
	fl.StringArrayVar(&f.set, "set", nil, "`key=value` for --chart")
	fl.BoolVar(&f.diff, "diff", false, "with --fix: print the changes, and write nothing")
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

// nothing reports whether the command line names nothing to check.
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
