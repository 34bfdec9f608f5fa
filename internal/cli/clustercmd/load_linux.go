// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clustercmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cluster"
	"github.com/mullion-k8s/mullion/internal/imageload"
	"github.com/mullion-k8s/mullion/internal/manager/facts"
)

// Load is `mullion load`.
func Load(s cli.Streams) *cobra.Command {
	var t target
	var nodes []string
	cmd := &cobra.Command{
		Use:   "load IMAGE.tar",
		Short: "Load images from an archive onto the hosts",
		Long: `Load the images in an OCI or Docker archive (plain or gzip) onto the hosts, so
that pods can use them without a registry. Each host gets the images for its
operating system; an image for both goes to all. "-" reads standard input.`,
		Example: `  mullion load app.tar
  docker save app:v1 | mullion load -`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, cfg, err := t.existing()
			if err != nil {
				return err
			}
			return runLoad(cmd.Context(), s, l, cfg, args[0], nodes)
		},
	}
	t.add(cmd)
	cmd.Flags().StringSliceVar(&nodes, "nodes", nil,
		"`hosts` to load onto (default: all whose system the images are for)")
	return cmd
}

func runLoad(ctx context.Context, s cli.Streams, l cluster.Layout, cfg cluster.Config, file string,
	nodes []string) error {
	path, done, err := spool(s.In, file)
	if err != nil {
		return err
	}
	defer done()
	if len(nodes) == 0 {
		if nodes, err = fitting(cfg, path); err != nil {
			return err
		}
	}
	p := cli.NewProgress(s.Err)
	defer p.Close()
	var errs []error
	var loaded []imageload.Image
	for _, n := range nodes {
		line := p.Start("%s: loading %s", n, file)
		images, err := loadOnto(ctx, l, n, path)
		if err != nil {
			line.Fail("%s: %s was not loaded", n, file)
			errs = append(errs, fmt.Errorf("%s: %w", n, err))
			continue
		}
		var names []string
		for _, i := range images {
			for _, name := range i.Names {
				names = append(names, fmt.Sprintf("%s (%s)", name, i.Platform()))
			}
		}
		line.Done("%s: %s", n, strings.Join(names, ", "))
		loaded = append(loaded, images...)
	}
	if err := record(ctx, l, loaded); err != nil {
		// The images are loaded: pods that select a host can use them.
		p.Start("recording the images").Fail("pods with these images need a nodeSelector: %v", err)
	}
	return errors.Join(errs...)
}

// fitting returns the hosts that run a system which an image of the archive is for.
func fitting(cfg cluster.Config, archive string) ([]string, error) {
	images, err := imageload.InspectFile(archive)
	if err != nil {
		return nil, err
	}
	systems := imageload.Systems(images)
	var nodes []string
	if slices.Contains(systems, "windows") {
		nodes = append(nodes, cfg.WindowsHosts()...)
	}
	if slices.Contains(systems, "linux") {
		nodes = append(nodes, cfg.LinuxHosts()...)
	}
	if len(nodes) == 0 {
		return nil, cli.WithHint(fmt.Errorf("the images are for %s, and no host of cluster %q is",
			strings.Join(systems, ", "), cfg.Name), "'mullion up --linux 1' adds a Linux worker")
	}
	return nodes, nil
}

// record tells placement about the images: their platform may not be known
// from their names.
func record(ctx context.Context, l cluster.Layout, images []imageload.Image) error {
	var all []facts.Loaded
	for _, i := range images {
		for _, name := range i.Names {
			// An unnamed image has only a digest, and no pod can refer to it.
			if !strings.HasPrefix(name, "sha256:") {
				all = append(all, facts.Loaded{Reference: name, OS: i.OS, Arch: i.Arch, OSVersion: i.OSVersion})
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	client, err := cluster.Client(l)
	if err != nil {
		return err
	}
	return facts.RecordLoaded(ctx, client, "", all)
}

func loadOnto(ctx context.Context, l cluster.Layout, node, path string) ([]imageload.Image, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open archive: %w", err)
	}
	defer f.Close()
	return imageload.Send(ctx, l.ImageSocket(node), f)
}

// spool copies standard input to a file, because it is read once per host.
func spool(in io.Reader, file string) (path string, done func(), err error) {
	if file != "-" {
		return file, func() {}, nil
	}
	f, err := os.CreateTemp("", "mullion-load-*.tar")
	if err != nil {
		return "", nil, fmt.Errorf("keep standard input: %w", err)
	}
	done = func() { _ = os.Remove(f.Name()) }
	_, err = io.Copy(f, in)
	if err = errors.Join(err, f.Close()); err != nil {
		done()
		return "", nil, fmt.Errorf("keep standard input: %w", err)
	}
	return f.Name(), done, nil
}
