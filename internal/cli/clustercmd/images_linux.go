// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clustercmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cluster"
	"github.com/mullion-k8s/mullion/internal/host/imageload"
)

// placedImage is an image with the hosts that have it: one entry of the output of
// `mullion images -o json`. Fields are only ever added.
type placedImage struct {
	Name      string   `json:"name"`
	OS        string   `json:"os"`
	Arch      string   `json:"arch,omitempty"`
	OSVersion string   `json:"osVersion,omitempty"`
	Size      int64    `json:"size,omitempty"`
	StandIn   bool     `json:"standIn,omitempty"`
	Hosts     []string `json:"hosts"`
}

// place adds the images of a host to a list in which each image is once.
func place(list []placedImage, host string, images []imageload.Image) []placedImage {
	for _, i := range images {
		for _, name := range i.Names {
			p := placedImage{Name: name, OS: i.OS, Arch: i.Arch, OSVersion: i.OSVersion, Size: i.Size,
				StandIn: i.StandIn}
			same := slices.IndexFunc(list, func(o placedImage) bool {
				return o.Name == p.Name && o.platform() == p.platform() && o.Size == p.Size
			})
			if same < 0 {
				list = append(list, p)
				same = len(list) - 1
			}
			list[same].Hosts = append(list[same].Hosts, host)
		}
	}
	return list
}

// platform returns the image's platform, in words.
func (p placedImage) platform() string {
	return imageload.Image{OS: p.OS, Arch: p.Arch, OSVersion: p.OSVersion}.Platform()
}

func size(bytes int64) string {
	if bytes == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
}

// Images is `mullion images`.
func Images(s cli.Streams) *cobra.Command {
	var t target
	var nodes []string
	var output string
	var all bool
	cmd := &cobra.Command{
		Use:   "images",
		Short: "List the images on the hosts",
		Long: `List the images on the hosts with their platforms, sizes and hosts. --all includes
the stand-ins of Microsoft's base images, which every Windows host has.`,
		Example: `  mullion images
  mullion images --all --nodes win-1
  mullion images -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, cfg, err := t.existing()
			if err != nil {
				return err
			}
			if len(nodes) == 0 {
				nodes = cfg.Hosts()
			}
			for _, n := range nodes {
				if err := isHost(cfg, n); err != nil {
					return err
				}
			}
			return runImages(cmd.Context(), s, l, nodes, output, all)
		},
	}
	t.add(cmd)
	cmd.Flags().StringSliceVar(&nodes, "nodes", nil, "`hosts` to list (default: all)")
	cmd.Flags().BoolVar(&all, "all", false, "include stand-ins")
	cli.Output(cmd, &output, "text", "json")
	return cmd
}

// runImages prints the images of the hosts that respond; a host that does not respond is
// an error.
func runImages(ctx context.Context, s cli.Streams, l cluster.Layout, nodes []string, output string, all bool) error {
	list := []placedImage{}
	var errs []error
	for _, n := range nodes {
		images, err := imageload.List(ctx, l.ImageSocket(n))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", n, err))
			continue
		}
		if !all {
			images = slices.DeleteFunc(images, func(i imageload.Image) bool { return i.StandIn })
		}
		list = place(list, n, images)
	}
	slices.SortStableFunc(list, func(a, b placedImage) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.OSVersion, b.OSVersion))
	})
	err := errors.Join(errs...)
	if err != nil {
		err = cli.WithHint(err, "see 'mullion status%s'", nameFlag(l.Name))
	}
	if output == "json" {
		e := json.NewEncoder(s.Out)
		e.SetIndent("", "  ")
		return errors.Join(e.Encode(list), err)
	}
	w := tabwriter.NewWriter(s.Out, 0, 0, 3, ' ', 0)
	if len(list) > 0 {
		fmt.Fprintln(w, "IMAGE\tPLATFORM\tSIZE\tHOSTS")
	}
	for _, p := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", p.Name, p.platform(), size(p.Size), strings.Join(p.Hosts, ","))
	}
	return errors.Join(w.Flush(), err)
}
