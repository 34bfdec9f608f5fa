// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package installcmd has the commands `mullion install` and `mullion uninstall`, which
// add the manager to an existing cluster and remove it.
package installcmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/install"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/version"
)

// timeout is the default limit for install and uninstall. It leaves ample time
// to pull an image of 15 MB over a slow connection.
const timeout = 3 * time.Minute

// target identifies the cluster to work on.
type target struct {
	kubeconfig, context, namespace string
	timeout                        time.Duration
}

func (t *target) flags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&t.kubeconfig, "kubeconfig", "", "kubeconfig `file` (default: $KUBECONFIG, then ~/.kube/config)")
	fl.StringVar(&t.context, "context", "", "`name` of the kubeconfig context (default: the current context)")
	fl.StringVar(&t.namespace, "namespace", install.DefaultNamespace, "`namespace` of the installation")
	fl.DurationVar(&t.timeout, "timeout", timeout, "time limit for the whole command")
}

// installFlags holds the command's flags.
type installFlags struct {
	target
	cfg                 install.Config
	dryRun, wait, force bool
	report              bool
	output              string
}

// New makes the command install.
func New(s cli.Streams) *cobra.Command {
	var f installFlags
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install the admission webhooks and controllers in a cluster",
		Long: `Add mullion's manager to an existing cluster (Kubernetes 1.30 or newer). The
manager places pods on nodes that can run them. It rejects objects that cannot
work on Windows, with the reason and the fix. It maintains a RuntimeClass for
each Windows build. On nodes, it adds only missing labels and the taint of
--windows-taint.

To upgrade or reconfigure mullion, or after an interruption, run install again:
it changes only the differences. All checks run before the first change.
'mullion uninstall' removes everything.

The default is --admission warn: existing workloads keep running, and objects
that cannot work cause warnings. --report lists the objects that --admission
enforce would refuse, and the objects that the level strict would refuse. A
namespace gets that level from the label admission.mullion.dev/enforce. Labels
of a namespace win over --admission.

The cluster's nodes pull the manager's image. "make image" builds it as an
archive, which you can push to a registry or load onto the nodes.`,
		Example: `  mullion install
  mullion install --context staging --image registry.example/mullion:v0.1.0 --image-pull-secret regcred
  mullion install --windows-taint os=windows:NoSchedule --rules-failure-policy Fail
  mullion install --dry-run | kubectl apply -f -
  mullion install --report                    # list the objects that enforce would refuse
  mullion install --admission enforce         # refuse objects that cannot run`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd.Flags().Changed("output")); err != nil {
				return err
			}
			if f.dryRun {
				objects, err := install.Objects(f.cfg)
				if err != nil {
					return cli.Usagef("%w", err)
				}
				return install.Print(s.Out, f.output, objects)
			}
			ctx, stop := context.WithTimeout(cmd.Context(), f.timeout)
			defer stop()
			if f.report {
				return explain(f.runReport(ctx, s))
			}
			return explain(f.run(ctx, s))
		},
	}
	f.flags(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.cfg.Image, "image", "", "`reference` of the manager's image (default: mullion/mullion in the "+
		"version of this program)")
	fl.StringSliceVar(&f.cfg.ImagePullSecrets, "image-pull-secret", nil,
		"`name` of a Secret in the namespace with credentials for pulling the image")
	fl.Int32Var(&f.cfg.Replicas, "replicas", install.DefaultReplicas, "`number` of managers")
	fl.StringVar(&f.cfg.WindowsTaint, "windows-taint", "",
		"`taint` for every Windows node, such as os=windows:NoSchedule; empty for none")
	f.cfg.Admission, f.cfg.RulesFailurePolicy = policy.AdmissionWarn, "Ignore"
	cli.OneOf(cmd, (*string)(&f.cfg.Admission), "admission", "",
		"`mode` for findings in namespaces without admission labels: enforce refuses objects that cannot run, warn "+
			"only warns, off does neither", "enforce", "warn", "off")
	cli.OneOf(cmd, &f.cfg.RulesFailurePolicy, "rules-failure-policy", "",
		"`policy` for new objects when no manager answers: Ignore admits them, Fail rejects them", "Ignore", "Fail")
	fl.BoolVar(&f.cfg.ReadPullSecrets, "read-pull-secrets", false,
		"let the manager read the image pull secrets of all namespaces, to query private registries")
	fl.BoolVar(&f.cfg.NoRegistries, "no-registries", false, "do not query registries for the platforms of images")
	fl.StringSliceVar(&f.cfg.InsecureRegistries, "insecure-registry", nil,
		"`registries` (HOST or HOST:PORT) that may be queried over plain HTTP")
	fl.StringVar(&f.cfg.RegistryCerts, "registry-certs", "",
		"`name` of a ConfigMap in the namespace whose ca.crt holds the CA certificates of registries")
	fl.BoolVar(&f.cfg.NoGMSA, "no-gmsa", false, "leave GMSA to another webhook")
	fl.BoolVar(&f.cfg.GMSARandomHostname, "gmsa-random-hostname", false, "give each pod with a GMSA its own host name")
	fl.BoolVar(&f.cfg.Storage, "storage", false,
		"add the StorageClass mullion-local, for volumes on nodes that run mullion's agent")
	fl.BoolVar(&f.dryRun, "dry-run", false, "print the objects without contacting a cluster")
	fl.BoolVar(&f.report, "report", false,
		"list the objects in the cluster that enforce and strict would refuse; change nothing")
	cli.OneOf(cmd, &f.output, "output", "o",
		"output `format`: yaml (default) or json of --dry-run, table (default) or json of --report",
		"yaml", "json", "table")
	fl.BoolVar(&f.wait, "wait", true, "wait until the managers run and their webhooks are registered")
	fl.BoolVar(&f.force, "force-conflicts", false, "take over fields that other clients have set")
	return cmd
}

// check fills in defaults and validates the flags.
func (f *installFlags) check(outputSet bool) error {
	f.cfg.Namespace = f.namespace
	switch {
	case f.dryRun && f.report:
		return cli.Usagef("--dry-run and --report exclude each other: a report contacts the cluster")
	case outputSet && !f.dryRun && !f.report:
		return cli.Usagef("--output needs --dry-run or --report")
	case outputSet && f.report && f.output != "table" && f.output != "json":
		return cli.Usagef("--output %q: want table or json", f.output)
	case outputSet && f.dryRun && f.output != "yaml" && f.output != "json":
		return cli.Usagef("--output %q: want yaml or json", f.output)
	case f.timeout <= 0:
		return cli.Usagef("--timeout %s: must be positive", f.timeout)
	}
	if f.cfg.Image == "" {
		f.cfg.Image, _ = install.DefaultImage(version.String())
	}
	if err := f.cfg.Validate(); err != nil {
		return cli.Usagef("%w", err)
	}
	return nil
}

func (f *installFlags) run(ctx context.Context, s cli.Streams) error {
	cluster, host, err := f.connect()
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Err, "installing mullion %s in %s, namespace %s\n", version.String(), host, f.namespace)
	if image, published := install.DefaultImage(version.String()); f.cfg.Image == image && !published {
		fmt.Fprintf(s.Err, "mullion: warning: this is a development build: no registry has %s. Build it (make "+
			"image), then load it onto the nodes, or push it to a registry and pass its reference with --image.\n",
			image)
	}
	out := newOutput(s.Err)
	defer out.close()
	if err := install.Apply(ctx, cluster, f.cfg,
		install.Options{Force: f.force, Say: out.say, Waiting: out.waiting}); err != nil {
		return out.fail(err)
	}
	if f.wait {
		out.waiting("the managers")
		if err := install.Wait(ctx, cluster, f.cfg, install.Options{Waiting: out.waiting}); err != nil {
			return out.fail(err)
		}
		out.done("the managers are running, and the API server calls their webhooks")
	}
	return nil
}

// runReport prints the objects that would be refused.
func (f *installFlags) runReport(ctx context.Context, s cli.Streams) error {
	cluster, host, err := f.connect()
	if err != nil {
		return err
	}
	r, err := install.MakeReport(ctx, cluster, f.cfg)
	if err != nil {
		return fmt.Errorf("report on the cluster at %s: %w", host, err)
	}
	for _, note := range r.Notes {
		fmt.Fprintf(s.Err, "mullion: %s\n", note)
	}
	if err := r.Print(s.Out, f.output); err != nil {
		return err
	}
	enforce, strict := r.Count()
	fmt.Fprintf(s.Err, "mullion: of %d objects, --admission enforce would refuse %d, and the level strict %d; nothing "+
		"was changed\n", r.Objects, enforce, strict)
	return nil
}

// explain adds a hint to errors that the user can do something about.
func explain(err error) error {
	var (
		old       *install.TooOldError
		elsewhere *install.ElsewhereError
		builtIn   *install.BuiltInError
		helm      *install.HelmError
		ca        *install.AuthoritiesError
		conflict  install.ConflictError
		stuck     *install.StuckError
	)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, install.ErrUnreachable):
		return cli.Environmentf("choose the cluster with --kubeconfig and --context; 'kubectl version' shows whether "+
			"it answers", "%w", err)
	case errors.As(err, &old):
		return cli.Environmentf("upgrade the cluster; \"mullion lint\" works with manifests of any version", "%w", err)
	case errors.As(err, &elsewhere):
		return cli.WithHint(err, "a cluster can have only one installation: 'mullion install --namespace %s' "+
			"upgrades it, 'mullion uninstall' removes it", elsewhere.Namespace)
	case errors.As(err, &builtIn):
		return cli.WithHint(err, "a cluster created by \"mullion up\" already has the manager; \"mullion up "+
			"--no-admission\" creates one without it")
	case errors.As(err, &helm):
		return cli.WithHint(err, "use helm upgrade or helm uninstall %s", helm.Release)
	case errors.As(err, &ca):
		return cli.WithHint(err, "nothing was changed; create it first (and its namespace, if necessary):\n"+
			"kubectl create configmap %s --namespace %s --from-file=ca.crt", ca.Name, ca.Namespace)
	case errors.As(err, &conflict):
		return cli.WithHint(err, "nothing was changed; use --force-conflicts to take over these fields")
	case errors.As(err, &stuck):
		return cli.WithHint(err, "fix it and run 'mullion install' again; --image REFERENCE chooses another image\n"+
			"see 'kubectl describe pods' and 'kubectl logs' in the namespace for details")
	case apierrors.IsForbidden(err):
		return cli.WithHint(err, "to install mullion you need every permission that the manager gets; a "+
			"cluster-admin has them")
	case errors.Is(err, context.DeadlineExceeded):
		return cli.WithHint(err, "run it again to continue; --timeout allows more time")
	}
	return err
}
