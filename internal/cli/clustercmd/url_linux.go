// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clustercmd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cluster"
)

// URL is `mullion url`.
func URL(s cli.Streams) *cobra.Command {
	var t target
	var namespace, port string
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "url SERVICE",
		Short: "Print the address of a Service for this machine",
		Long:  `Wait until a Service accepts connections, and print its address for this machine.`,
		Example: `  curl "$(mullion url win-webserver)"
  mullion url web --namespace shop --port https
  mullion url web --wait 0                        # do not wait`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if wait < 0 {
				return cli.Usagef("--wait %s: must not be negative", wait)
			}
			name, err := serviceName(args[0])
			if err != nil {
				return err
			}
			l, _, err := t.existing()
			if err != nil {
				return err
			}
			client, err := cluster.Client(l)
			if err != nil {
				return err
			}
			url, err := cluster.ServiceURL(cmd.Context(), client, namespace, name, port)
			if err != nil {
				return err
			}
			if wait > 0 {
				if err := awaitAnswer(cmd.Context(), s, client, namespace, name, url, wait); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintln(s.Out, url)
			return err
		},
	}
	t.add(cmd)
	cmd.Flags().DurationVar(&wait, "wait", 2*time.Minute,
		"how long to wait until the Service answers; 0 prints the address at once")
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "default", "the Service's `namespace`")
	cmd.Flags().StringVar(&port, "port", "", "`name` of the Service's port (default: the first)")
	return cmd
}

// serviceName returns the name in "web", or in "service/web" as `kubectl get -o name` prints it.
func serviceName(arg string) (string, error) {
	kind, name, found := strings.Cut(arg, "/")
	if !found {
		return arg, nil
	}
	if !slices.Contains([]string{"service", "services", "svc"}, kind) || strings.Contains(name, "/") {
		return "", cli.Usagef("%q: want the name of a Service, such as web or service/web", arg)
	}
	return name, nil
}

// quietFor is the length of a wait before its progress is shown.
const quietFor = time.Second

// awaitAnswer waits until the Service responds, and shows the reason for the wait.
func awaitAnswer(ctx context.Context, s cli.Streams, client kubernetes.Interface, namespace, name, url string,
	wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	begin := time.Now()
	var progress *cli.Progress
	var line *cli.Line
	defer func() {
		if progress != nil {
			progress.Close()
		}
	}()
	err := cluster.AwaitAnswer(ctx, client, namespace, name, url, func(what string) {
		if progress == nil {
			if time.Since(begin) < quietFor {
				return
			}
			progress = cli.NewProgress(s.Err)
			line = progress.Start("%s", what)
			return
		}
		line.Set("%s", what)
	})
	if line != nil && err == nil {
		line.Done("%s", url)
	}
	return err
}
