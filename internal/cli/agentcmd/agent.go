// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package agentcmd has the commands of a Windows node, `mullion agent`. The node's
// administrator and the Windows services of the node run them.
package agentcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/agent/wrap"
	"github.com/mullion-k8s/mullion/internal/cli"
)

// New returns `mullion agent`.
func New(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run this Windows machine as a node of a cluster",
		Long: `Set up this machine as ` + agent.ConfigFile + ` describes: the
configuration of kubelet and kube-proxy, their services, and the pod network.`,
	}
	cmd.AddCommand(newRun(s), newStatus(s))
	return cmd
}

func newRun(s cli.Streams) *cobra.Command {
	var config string
	var dsr, printStatus bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the agent until it is stopped",
		Long: `Run the agent until it is stopped, at a prompt or as a Windows service.
The node's services keep running after it.`,
		Example: "  mullion agent run\n  sc create mullion start= auto binPath= \"\\\"C:\\Program " +
			"Files\\mullion\\mullion.exe\\\" agent run\"",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := agent.Load(config)
			if errors.Is(err, agent.ErrNoConfig) {
				return cli.Environmentf("see docs/internals/agent.md for its format", "%w", err)
			}
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("dsr") {
				c.Network.DSR = &dsr
			}
			o := agent.Options{Config: c}
			if printStatus {
				o.Statuses = s.Out
			}
			return run(cmd.Context(), o, s.Err)
		},
	}
	cmd.Flags().StringVar(&config, "config", agent.ConfigFile, "configuration `file`")
	cmd.Flags().BoolVar(&dsr, "dsr", true,
		"direct server return: pods behind Services see the client's address (default: network.dsr of the file, or on "+
			"if HNS supports it)")
	cmd.Flags().BoolVar(&printStatus, "print-status", false, "print each status of the node, a line of JSON")
	return cmd
}

func newStatus(s cli.Streams) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show node status; exits 1 if the node is unhealthy",
		Example: "  mullion agent status\n" +
			"  mullion agent status -o json",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			st, err := agent.ReadStatus(agent.Disk{})
			if err != nil {
				return cli.WithHint(err, "start it with 'mullion agent run'")
			}
			if output == "json" {
				e := json.NewEncoder(s.Out)
				e.SetIndent("", "  ")
				if err := e.Encode(st); err != nil {
					return err
				}
			} else {
				print(s, st)
			}
			if !st.Healthy() {
				return cli.Silent(cli.Unhealthy)
			}
			return nil
		},
	}
	cli.Output(cmd, &output, "text", "json")
	return cmd
}

func print(s cli.Streams, st agent.Status) {
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	yes := map[bool]string{true: "yes", false: "no"}
	fmt.Fprintf(w, "node\t%s\njoined\t%s\nready\t%s\npod range\t%s\npod network\t%s (%s)\n", st.Node, yes[st.Joined],
		yes[st.Ready], st.PodCIDR, yes[st.Network], st.Mode)
	programs := []struct {
		name string
		agent.ProgramStatus
	}{{"kubelet", st.Kubelet}, {"kube-proxy", st.Proxy}}
	if st.Flannel != nil {
		programs = append(programs, struct {
			name string
			agent.ProgramStatus
		}{"flanneld", *st.Flannel})
	}
	if st.NetworkPolicies != "" {
		fmt.Fprintf(w, "network policies\t%s\n", st.NetworkPolicies)
	}
	for _, p := range programs {
		fmt.Fprintf(w, "%s\t%s", p.name, p.State)
		if p.Restarts > 0 {
			fmt.Fprintf(w, ", restarted %d times", p.Restarts)
		}
		fmt.Fprintln(w)
	}
	if st.Message != "" {
		fmt.Fprintf(w, "\n%s\n", st.Message)
	}
}

// NewService returns `mullion service`, the command that runs the agent's
// services: see package wrap.
func NewService(cli.Streams) *cobra.Command {
	var p wrap.Program
	var name string
	cmd := &cobra.Command{
		Use:   "service --log FILE -- PROGRAM [ARGUMENT...]",
		Short: "Run the program of a Windows service and write its output to a file",
		Long: `Run the program of a Windows service and write its output to a file. The program
itself is the service. With --as, this command is the service: it ends when the
program ends, and ends the program when the service is stopped.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, argv []string) error {
			p.Argv = argv
			run := func(ctx context.Context) error {
				code, err := wrap.Run(ctx, p)
				if err == nil && code != 0 && ctx.Err() == nil {
					err = cli.ExitStatus(code)
				}
				return err
			}
			if name == "" {
				return run(cmd.Context())
			}
			return runAs(cmd.Context(), name, run)
		},
	}
	cmd.Flags().StringVar(&p.Log, "log", "", "`file` for the program's output")
	cmd.Flags().StringVar(&name, "as", "", "`name` of the service, for a program that cannot be a service itself")
	cmd.Flags().StringArrayVar(&p.Env, "env", nil, "`variable` of the program, KEY=VALUE")
	if err := cmd.MarkFlagRequired("log"); err != nil {
		panic(err) // a bug: the flag above does not exist
	}
	return cmd
}
