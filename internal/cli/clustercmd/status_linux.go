// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clustercmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cluster"
	"github.com/mullion-k8s/mullion/internal/supervise"
	"github.com/mullion-k8s/mullion/internal/version"
)

// report is the output of `mullion status -o json`. Fields are only ever added.
type report struct {
	Name       string `json:"name"`
	Running    bool   `json:"running"`
	Healthy    bool   `json:"healthy"`
	PID        int    `json:"pid,omitempty"`
	Kubernetes string `json:"kubernetes"`
	APIServer  string `json:"apiServer"`
	Admission  string `json:"admission"` // "none" without webhooks
	Kubeconfig string `json:"kubeconfig"`
	Directory  string `json:"directory"`
	// Network is how pods of different nodes reach each other.
	Network agent.NetworkMode `json:"network"`
	// NoPodGateway: the API server reaches no pods, because no Linux worker leads into the overlay.
	NoPodGateway bool `json:"noPodGateway,omitempty"`
	// LoadBalancerPool has the ranges with addresses of Services of type LoadBalancer, one of each
	// address family with a comma between, or is "none".
	LoadBalancerPool string             `json:"loadBalancerPool"`
	IPFamily         string             `json:"ipFamily"` // "ipv4" or "dual"
	Components       []supervise.Status `json:"components"`
	// Frozen lists the last restart of each component, and of each program of a node, that did not respond.
	Frozen map[string][]supervise.Freeze `json:"frozen,omitempty"`
}

// Status is `mullion status`.
func Status(s cli.Streams) *cobra.Command {
	var t target
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the status of a cluster and its components",
		Long:  "Show the status of a cluster and its components. The exit code is 0 if all are ready, otherwise 1.",
		Example: `  mullion status
  mullion status -o json | jq .components`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runStatus(cmd.Context(), s, t, output) },
	}
	t.add(cmd)
	cli.Output(cmd, &output, "text", "json")
	return cmd
}

func runStatus(ctx context.Context, s cli.Streams, t target, output string) error {
	l, cfg, err := t.existing()
	if err != nil {
		return err
	}
	r, err := inspect(ctx, l, cfg)
	if err != nil {
		return err
	}
	if output == "json" {
		e := json.NewEncoder(s.Out)
		e.SetIndent("", "  ")
		err = e.Encode(r)
	} else {
		err = r.print(s)
	}
	if err == nil && !r.Healthy {
		return cli.Silent(cli.Unhealthy)
	}
	return err
}

func inspect(ctx context.Context, l cluster.Layout, cfg cluster.Config) (report, error) {
	st, running, err := cluster.ReadState(l)
	if err != nil {
		return report{}, err
	}
	pools, err := cfg.Pools()
	if err != nil {
		return report{}, err
	}
	r := report{
		Name:         l.Name,
		Running:      running,
		PID:          st.PID,
		Kubernetes:   version.Kubernetes,
		APIServer:    cfg.Network().APIServer(),
		Admission:    cmp.Or(string(cfg.Admits()), "none"),
		Network:      cfg.Mode(),
		NoPodGateway: cfg.Mode() == agent.VXLAN && len(cfg.LinuxHosts()) == 0,
		Kubeconfig:   l.Kubeconfig(),
		Directory:    l.Dir(),
		Components:   st.Components,

		LoadBalancerPool: cluster.PoolName(pools),
		IPFamily:         cfg.Families(),
		Frozen:           map[string][]supervise.Freeze{},
	}
	r.Healthy = running && len(st.Components) > 0
	client, clientErr := cluster.Client(l)
	for i, c := range r.Components {
		if c.State == supervise.Ready && cluster.IsNode(cfg, c.Name) {
			// The host runs; the node's readiness is a separate question.
			err := clientErr
			if err == nil {
				err = cluster.Explain(l, c.Name, cluster.NodeReady(ctx, client, c.Name))
			}
			if err != nil {
				r.Components[i].Message = err.Error()
				r.Healthy = false
			}
		}
		r.Healthy = r.Healthy && c.State == supervise.Ready
		if list := cluster.Freezes(l, cfg, c); len(list) > 0 {
			r.Frozen[c.Name] = list
		}
	}
	return r, nil
}

func (r report) print(s cli.Streams) error {
	if !r.Running {
		_, err := fmt.Fprintf(s.Out, "cluster %s is down; its data is in %s\n", r.Name, r.Directory)
		return err
	}
	w := tabwriter.NewWriter(s.Out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "COMPONENT\tSTATE\tFOR\tRESTARTS\tMESSAGE")
	for _, c := range r.Components {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", c.Name, c.State, time.Since(c.Since).Round(time.Second), c.Restarts,
			firstLine(c.Message))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, node := range slices.Sorted(maps.Keys(r.Frozen)) {
		for _, f := range r.Frozen[node] {
			fmt.Fprintf(s.Out, "\n%s: %s %s ago", node, f.Message, time.Since(f.At).Round(time.Second))
		}
	}
	if len(r.Frozen) > 0 {
		fmt.Fprintln(s.Out)
	}
	_, err := fmt.Fprintf(s.Out, "\nAPI server  %s\nkubeconfig  %s\nnetwork     %s, %s, load balancer pool %s\n"+
		"admission   %s\n", r.APIServer, r.Kubeconfig, r.Network, r.IPFamily, r.LoadBalancerPool, r.Admission)
	if err == nil && r.NoPodGateway {
		_, err = fmt.Fprintf(s.Out, "\nThe API server does not reach pods: webhooks, aggregated APIs and 'kubectl "+
			"proxy' to pods fail.\nA Linux worker leads it into the overlay: mullion node add --name %s --linux\n",
			r.Name)
	}
	return err
}
