// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clustercmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cluster"
)

// Kubectl is `mullion kubectl`: upstream's, with the cluster's kubeconfig.
func Kubectl(s cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl ...",
		Short: "Run upstream's kubectl for a cluster (--name NAME comes before kubectl's arguments)",
		Example: `  mullion kubectl get nodes -o wide
  mullion kubectl --name ci get pods
  ln -s "$(command -v mullion)" /usr/local/bin/kubectl   # under this name, mullion is kubectl`,
		DisableFlagParsing: true, // every flag but a leading --name or --data-dir is kubectl's
		RunE: func(_ *cobra.Command, args []string) error {
			t, rest, err := leadingTarget(args)
			if err != nil {
				return err
			}
			env := os.Environ()
			// A kubeconfig that the user chose wins, as with any kubectl.
			if os.Getenv("KUBECONFIG") == "" || t.named {
				l, _, err := t.existing()
				switch {
				case errors.Is(err, fs.ErrPermission):
					// `sudo mullion up` has added the cluster to the kubeconfig of an ordinary user, who may not read
					// root's.
					return execKube(append([]string{"kubectl", "--context", contextName(l)}, rest...), env)
				case err != nil && t.named:
					return err
				case errors.Is(err, cluster.ErrNotFound):
					// The arguments may need no cluster, or name a server.
					fmt.Fprintf(s.Err, "mullion: warning: %v; create it with 'mullion up'\n", err)
				case err != nil:
					fmt.Fprintf(s.Err, "mullion: warning: %v\n", err)
				}
				// Of two values, a Go program takes the first.
				env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, "KUBECONFIG=") })
				env = append(env, "KUBECONFIG="+l.Kubeconfig())
			}
			return execKube(append([]string{"kubectl"}, rest...), env)
		},
	}
}

// Server is `mullion server`: the control plane in this process.
func Server(cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "server --config FILE",
		Short: "Run a control plane in the foreground",
		Long: "Run etcd, kube-apiserver, kube-controller-manager, kube-scheduler, CoreDNS and metrics-server in one " +
			"process.\n'mullion up' does this for you.",
		Example:            "  mullion server --config server.json\n  mullion server --config server.json --dry-run",
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			return execKube(append([]string{"server"}, args...), os.Environ())
		},
	}
}

// execKube replaces this process with mullion-kube, which contains Kubernetes.
func execKube(args, env []string) error {
	bin, err := cluster.FindBinaries()
	if err != nil {
		return err
	}
	err = syscall.Exec(bin.Kube(), append([]string{bin.Kube()}, args...), env)
	return cli.WithHint(fmt.Errorf("run %s: %w", bin.Kube(), err), "run `make build`")
}

// namedTarget is a target and whether the user gave it explicitly.
type namedTarget struct {
	target
	named bool
}

// leadingTarget takes --name and --data-dir off the front of the arguments.
func leadingTarget(args []string) (namedTarget, []string, error) {
	var probe cobra.Command
	var t namedTarget
	t.add(&probe)
	for len(args) > 0 {
		flag, value, joined := strings.Cut(args[0], "=")
		if flag != "--name" && flag != "--data-dir" {
			break
		}
		if !joined {
			if len(args) < 2 {
				return t, nil, cli.Usagef("flag needs an argument: %s", flag)
			}
			value, args = args[1], args[1:]
		}
		args = args[1:]
		t.named = true
		if err := probe.Flags().Set(strings.TrimPrefix(flag, "--"), value); err != nil {
			return t, nil, cli.Usagef("%s: %w", flag, err)
		}
	}
	return t, args, nil
}
