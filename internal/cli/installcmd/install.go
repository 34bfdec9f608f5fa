// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package installcmd is `mullion install` and `mullion uninstall`.
package installcmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/install"
	"github.com/mullion-k8s/mullion/internal/version"
)

// timeout is how long install and uninstall take at most if nothing else is
// said: the pull of an image of 15 MB over a slow line, and then some.
const timeout = 3 * time.Minute

// target is the cluster that is meant.
type target struct {
	kubeconfig, context, namespace string
	timeout                        time.Duration
}

func (t *target) flags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&t.kubeconfig, "kubeconfig", "", "`file` with the address of the cluster and credentials; without it $KUBECONFIG or ~/.kube/config")
	fl.StringVar(&t.context, "context", "", "`name` of the context in it; without it the current one")
	fl.StringVar(&t.namespace, "namespace", install.DefaultNamespace, "`namespace` of the installation")
	fl.DurationVar(&t.timeout, "timeout", timeout, "the longest that the whole may take")
}

// installFlags are the command's.
type installFlags struct {
	target
	cfg                 install.Config
	dryRun, wait, force bool
	output              string
}

// New makes the command install.
func New(s cli.Streams) *cobra.Command {
	var f installFlags
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Put the admission webhooks and controllers onto a cluster",
		Long: `install puts mullion's manager onto a cluster that somebody else runs, of
Kubernetes 1.30 or newer: pods are placed on nodes that can run them, what
cannot work on Windows is refused with the reason and the fix, and there is a
RuntimeClass per Windows build. The nodes themselves are not touched, but for a
missing label and the taint of --windows-taint.

Called again it changes what differs, which is how mullion is upgraded and
reconfigured. Interrupted it can be called again. What would be refused is known
before anything is changed. "mullion uninstall" removes all of it.

The image is pulled by the cluster's nodes. "make image" makes it as an archive
for a registry of yours or for your nodes.`,
		Example: `  mullion install
  mullion install --context staging --image registry.example/mullion:v0.1.0 --image-pull-secret regcred
  mullion install --windows-taint os=windows:NoSchedule --rules-failure-policy Fail
  mullion install --dry-run | kubectl apply -f -`,
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
			return explain(f.run(ctx, s))
		},
	}
	f.flags(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.cfg.Image, "image", "", "`reference` of the manager's image; without it mullion/mullion and the version of this program")
	fl.StringSliceVar(&f.cfg.ImagePullSecrets, "image-pull-secret", nil, "`name` of a Secret in the namespace with which the image is pulled")
	fl.Int32Var(&f.cfg.Replicas, "replicas", install.DefaultReplicas, "`number` of managers")
	fl.StringVar(&f.cfg.WindowsTaint, "windows-taint", "", "`taint` for every Windows node, such as os=windows:NoSchedule; empty for none")
	fl.StringVar(&f.cfg.RulesFailurePolicy, "rules-failure-policy", "Ignore", "what becomes of objects when no manager answers, by `policy`: Ignore or Fail")
	fl.BoolVar(&f.cfg.ReadPullSecrets, "read-pull-secrets", false, "let the manager read image pull secrets of all namespaces, to ask private registries about images")
	fl.BoolVar(&f.cfg.NoRegistries, "no-registries", false, "do not ask registries what images are for")
	fl.StringSliceVar(&f.cfg.InsecureRegistries, "insecure-registry", nil, "`registries` (HOST or HOST:PORT) that may be asked over plain HTTP")
	fl.StringVar(&f.cfg.RegistryCerts, "registry-certs", "", "`name` of a ConfigMap in the namespace, whose ca.crt has the authorities of registries")
	fl.BoolVar(&f.cfg.NoGMSA, "no-gmsa", false, "leave GMSA to another webhook")
	fl.BoolVar(&f.cfg.GMSARandomHostname, "gmsa-random-hostname", false, "give each pod with a GMSA a host name of its own")
	fl.BoolVar(&f.dryRun, "dry-run", false, "print the objects and ask no cluster")
	fl.StringVarP(&f.output, "output", "o", "yaml", "`format` of --dry-run: yaml or json")
	fl.BoolVar(&f.wait, "wait", true, "wait until the managers run and their webhooks are registered")
	fl.BoolVar(&f.force, "force-conflicts", false, "take over fields that others have set")
	return cmd
}

// check completes the flags and says what is wrong with them.
func (f *installFlags) check(outputSet bool) error {
	f.cfg.Namespace = f.namespace
	switch {
	case outputSet && !f.dryRun:
		return cli.Usagef("--output is the format of --dry-run")
	case f.output != "yaml" && f.output != "json":
		return cli.Usagef("--output %q: want yaml or json", f.output)
	case f.timeout <= 0:
		return cli.Usagef("--timeout %s: want more than nothing", f.timeout)
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
	fmt.Fprintf(s.Err, "mullion %s onto %s, namespace %s\n", version.String(), host, f.namespace)
	if image, published := install.DefaultImage(version.String()); f.cfg.Image == image && !published {
		fmt.Fprintf(s.Err, "mullion: warning: this is a development build: no registry has %s. Make it (make image), and load it onto the nodes or push it and name it with --image.\n", image)
	}
	out := newOutput(s.Err)
	defer out.close()
	if err := install.Apply(ctx, cluster, f.cfg, install.Options{Force: f.force, Say: out.say, Waiting: out.waiting}); err != nil {
		return out.fail(err)
	}
	if f.wait {
		out.waiting("the managers")
		if err := install.Wait(ctx, cluster, f.cfg, install.Options{Waiting: out.waiting}); err != nil {
			return out.fail(err)
		}
		out.done("the managers run, and the API server asks their webhooks")
	}
	return nil
}

// explain adds what can be done about an error.
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
		return cli.Environmentf("name the cluster by --kubeconfig and --context; kubectl version says whether it answers", "%w", err)
	case errors.As(err, &old):
		return cli.Environmentf("upgrade the cluster; \"mullion lint\" works with manifests of any version", "%w", err)
	case errors.As(err, &elsewhere):
		return cli.WithHint(err, "a cluster has one installation: mullion install --namespace %s upgrades it, mullion uninstall removes it", elsewhere.Namespace)
	case errors.As(err, &builtIn):
		return cli.WithHint(err, "a cluster of \"mullion up\" needs no installation; \"mullion up --no-admission\" makes one without")
	case errors.As(err, &helm):
		return cli.WithHint(err, "use helm upgrade or helm uninstall %s", helm.Release)
	case errors.As(err, &ca):
		return cli.WithHint(err, "nothing was changed; make it first, in a namespace that you make if it is not there:\nkubectl create configmap %s --namespace %s --from-file=ca.crt", ca.Name, ca.Namespace)
	case errors.As(err, &conflict):
		return cli.WithHint(err, "nothing was changed; --force-conflicts takes these fields over")
	case errors.As(err, &stuck):
		return cli.WithHint(err, "mend it and call mullion install again; with another image: --image REFERENCE\nkubectl describe pods and kubectl logs in the namespace say more")
	case forbidden(err):
		return cli.WithHint(err, "whoever installs must be allowed all that the manager is to be allowed: a cluster-admin is")
	case errors.Is(err, context.DeadlineExceeded):
		return cli.WithHint(err, "call it again to go on; --timeout gives it longer")
	}
	return err
}
