// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package versioncmd has the command `mullion version`, which the programs for Linux
// and for Windows share.
package versioncmd

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/version"
)

// New makes the command.
func New(s cli.Streams) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the versions of mullion and Kubernetes",
		Example: "  mullion version -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if output == "text" {
				_, err := fmt.Fprintf(s.Out, "mullion %s\nKubernetes %s\n%s %s/%s\n", version.String(),
					version.Kubernetes, runtime.Version(), runtime.GOOS, runtime.GOARCH)
				return err
			}
			return json.NewEncoder(s.Out).Encode(map[string]string{"mullion": version.String(),
				"kubernetes": version.Kubernetes, "go": runtime.Version(), "platform": runtime.GOOS + "/" +
					runtime.GOARCH})
		},
	}
	cli.Output(cmd, &output, "text", "json")
	return cmd
}
