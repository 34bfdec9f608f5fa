// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clustercmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cluster"
	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/durable/kubeconfig/userfile"
)

// noKubeconfig is the value of --kubeconfig that leaves all files alone.
const noKubeconfig = "none"

// Kubeconfig is `mullion kubeconfig`.
func Kubeconfig(s cli.Streams) *cobra.Command {
	var t target
	var merge bool
	var file string
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print a cluster's kubeconfig, or add it to your own",
		Long: `Print the administrator's kubeconfig of a cluster, with the certificates in it.
With --merge, add it to your kubeconfig file as the context mullion-NAME and make
this the current context, as 'mullion up' does.`,
		Example: `  mullion kubeconfig > cluster.yaml && KUBECONFIG=cluster.yaml helm list
  mullion kubeconfig --merge                     # into $KUBECONFIG or ~/.kube/config
  mullion kubeconfig --name ci --merge --kubeconfig ci.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file != "" && !merge {
				return cli.Usagef("--kubeconfig needs --merge")
			}
			return runKubeconfig(cmd.Context(), s, t, merge, file)
		},
	}
	t.add(cmd)
	cmd.Flags().BoolVar(&merge, "merge", false, "add the cluster to your kubeconfig file instead of printing it")
	cmd.Flags().StringVar(&file, "kubeconfig", "",
		"`file` for --merge (default: the first of KUBECONFIG that exists, or ~/.kube/config)")
	return cmd
}

func runKubeconfig(ctx context.Context, s cli.Streams, t target, merge bool, file string) error {
	l, _, err := t.existing()
	if err != nil {
		return err
	}
	if !merge {
		config, err := userfile.Named(l.Kubeconfig(), contextName(l))
		if err != nil {
			return cli.WithHint(err, "'mullion up%s' writes it", nameFlag(l.Name))
		}
		_, err = s.Out.Write(config)
		return err
	}
	added, err := addContext(ctx, l, file)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Err, "added context %s to %s\n", contextName(l), added.Path)
	return nil
}

func contextName(l cluster.Layout) string { return "mullion-" + l.Name }

// addContext adds the context of a cluster to the user's kubeconfig file, or to the
// named one, and remembers for down which file that was.
func addContext(ctx context.Context, l cluster.Layout, named string) (userfile.File, error) {
	file, err := userfile.Find(named, userfile.Process())
	if err != nil {
		return userfile.File{}, err
	}
	config, err := userfile.Named(l.Kubeconfig(), contextName(l))
	if err != nil {
		return userfile.File{}, cli.WithHint(err, "'mullion up%s' writes it", nameFlag(l.Name))
	}
	before, err := durable.ReadStatus[remembered](l.UserKubeconfig())
	if err == nil && before.Path != "" && before.File != file {
		// Only one file is remembered. If the context cannot be removed from the other
		// file, it stays there.
		_, _ = before.Remove(ctx, userContext(l, nil))
	}
	if err := remember(l, remembered{File: file, Chosen: named != ""}); err != nil {
		return userfile.File{}, err
	}
	return file, file.Add(ctx, userContext(l, config))
}

func userContext(l cluster.Layout, config []byte) userfile.Context {
	return userfile.Context{Name: contextName(l), Directory: l.Dir(), Config: config}
}

// remembered is the location of a cluster's context, for start and down.
type remembered struct {
	userfile.File
	// The user gave --kubeconfig: a file, or none, which leaves the path empty.
	Chosen bool `json:"chosen,omitempty"`
}

// chosenKubeconfig returns the --kubeconfig that the cluster was last brought up with, or
// "".
func chosenKubeconfig(l cluster.Layout) (string, error) {
	r, err := durable.ReadStatus[remembered](l.UserKubeconfig())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if r.Chosen && r.Path == "" {
		return noKubeconfig, nil
	}
	if r.Chosen {
		return r.Path, nil
	}
	return "", nil
}

func remember(l cluster.Layout, r remembered) error {
	if err := durable.WriteDocument(l.UserKubeconfig(), r); err != nil {
		return fmt.Errorf("remember kubeconfig file: %w", err)
	}
	return nil
}

// removeContext removes the context that addContext added, from the named file if there is
// one, and returns the file, or "". The file is still remembered: the next up adds the
// context again.
func removeContext(ctx context.Context, l cluster.Layout, named string) (string, error) {
	file, err := durable.ReadStatus[remembered](l.UserKubeconfig())
	if named == noKubeconfig {
		return "", nil
	}
	if named != "" {
		file.File, err = userfile.Find(named, userfile.Process())
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil || file.Path == "" {
		return "", err
	}
	removed, err := file.Remove(ctx, userContext(l, nil))
	if err != nil || !removed {
		return "", err
	}
	return file.Path, nil
}
