// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package versioncmd is `mullion version`.
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
		Short:   "Print the versions of mullion and of its Kubernetes",
		Example: "  mullion version -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			switch output {
			case "text":
				_, err := fmt.Fprintf(s.Out, "mullion %s\nKubernetes %s\n%s %s/%s\n", version.String(),
					version.Kubernetes, runtime.Version(), runtime.GOOS, runtime.GOARCH)
				return err
			case "json":
				return json.NewEncoder(s.Out).Encode(map[string]string{"mullion": version.String(),
					"kubernetes": version.Kubernetes, "go": runtime.Version(), "platform": runtime.GOOS + "/" +
						runtime.GOARCH})
			default:
				return cli.Usagef("output format %q: want text or json", output)
			}
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "`format`: text or json")
	return cmd
}
