// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clustercmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cluster"
	"github.com/mullion-k8s/mullion/internal/supervise"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// Node is `mullion node`.
func Node(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Add, remove, reboot and list the hosts of a running cluster",
	}
	cmd.AddCommand(nodeAdd(s), nodeRemove(s), nodeReboot(s), nodeList(s))
	return cmd
}

// nodeFlags belong to every command that changes hosts.
type nodeFlags struct {
	target
	wait time.Duration
}

func (f *nodeFlags) add(cmd *cobra.Command) {
	f.target.add(cmd)
	cmd.Flags().DurationVar(&f.wait, "wait", 3*time.Minute, "how long to wait for the node")
}

// running returns the cluster, which must run.
func (f *nodeFlags) running() (l cluster.Layout, c cluster.Config, bin cluster.Binaries, err error) {
	if f.wait <= 0 {
		return l, c, bin, cli.Usagef("--wait %s: must be positive", f.wait)
	}
	if l, c, err = f.existing(); err != nil {
		return l, c, bin, err
	}
	if os.Geteuid() != 0 {
		return l, c, bin, cli.Environmentf("run it with sudo", "mullion node needs root")
	}
	_, up, err := cluster.ReadState(l)
	if err != nil {
		return l, c, bin, err
	}
	if !up {
		return l, c, bin, cli.WithHint(fmt.Errorf("cluster %q: %w", l.Name, cluster.ErrDown),
			"run 'mullion start%s' first", nameFlag(l.Name))
	}
	bin, err = cluster.FindBinaries()
	return l, c, bin, err
}

// limit returns a context that ends when the user has waited long enough.
func (f *nodeFlags) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, f.wait, fmt.Errorf("not done after %s", f.wait))
}

// runningCluster is a cluster that runs.
type runningCluster struct {
	layout cluster.Layout
	config cluster.Config
	bin    cluster.Binaries
}

// withHost calls do for a host of the running cluster, for as long as the user waits.
func (f *nodeFlags) withHost(
	ctx context.Context, name string, do func(ctx context.Context, c runningCluster) error,
) error {
	l, cfg, bin, err := f.running()
	if err != nil {
		return err
	}
	if err := isHost(cfg, name); err != nil {
		return err
	}
	ctx, cancel := f.limit(ctx)
	defer cancel()
	return do(ctx, runningCluster{l, cfg, bin})
}

func nodeAdd(s cli.Streams) *cobra.Command {
	var f nodeFlags
	var windows string
	var linux bool
	var size cluster.Size
	cmd := &cobra.Command{
		Use:   "add [NAME]",
		Short: "Add a host to a running cluster",
		Long: `Add an emulated Windows host or a Linux worker to a running cluster, and wait until
its node is Ready. It gets the next free name. With NAME, bring back a removed
host, with its data unless that was purged.`,
		Example: `  mullion node add --windows 2025
  mullion node add --linux
  mullion node add --windows 2022 --cpus 1 --memory 2Gi
  mullion node remove win-2 && mullion node add win-2   # deleted, and joined again`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if given := len(args) + flagsGiven(cmd, "windows", "linux"); given != 1 {
				return cli.Usagef("want one of --windows BUILD, --linux and the NAME of a host that was removed")
			}
			if cmd.Flags().Changed("windows") {
				if _, err := winver.Parse(windows); err != nil {
					return cli.Usagef("--windows: %w", err)
				}
			}
			if len(args) > 0 && flagsGiven(cmd, "cpus", "memory", "disk") > 0 {
				return cli.Usagef("--cpus, --memory and --disk are for a new host; %s has its size", args[0])
			}
			if err := size.Validate(); err != nil {
				return cli.Usagef("%w", err)
			}
			l, _, bin, err := f.running()
			if err != nil {
				return err
			}
			ctx, cancel := f.limit(cmd.Context())
			defer cancel()
			return runNodeAdd(ctx, s, l, bin, windows, size, args)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&windows, "windows", "", "`build` of a new Windows host: 2016, 1709, 1803, 2019, 2022, 2025")
	cmd.Flags().BoolVar(&linux, "linux", false, "add a Linux worker")
	addSize(cmd, &size, "like the other hosts", "like the other hosts", "like the other hosts")
	return cmd
}

func flagsGiven(cmd *cobra.Command, names ...string) (given int) {
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			given++
		}
	}
	return given
}

func runNodeAdd(ctx context.Context, s cli.Streams, l cluster.Layout, bin cluster.Binaries, build string,
	size cluster.Size, names []string) (err error) {
	linux := build == "" && (len(names) == 0 || strings.HasPrefix(names[0], "linux-"))
	if err := environment(cluster.FitsOneMore(bin, size, linux)); err != nil {
		return err
	}
	var name string
	var cfg cluster.Config
	if len(names) > 0 {
		name = names[0]
		cfg, err = cluster.ReturnHost(l, name)
	} else {
		name, cfg, err = cluster.AddHost(l, build, size)
	}
	if err != nil {
		return err
	}
	if _, err := cluster.Start(l, bin); err != nil {
		return err
	}
	return watchHost(ctx, s, l, cfg, bin, name)
}

// watchHost shows the progress of a host until its node is Ready.
func watchHost(ctx context.Context, s cli.Streams, l cluster.Layout, cfg cluster.Config, bin cluster.Binaries,
	name string) error {
	plan, err := cluster.Describe(l, cfg, bin)
	if err != nil {
		return err
	}
	rows := slices.DeleteFunc(plan.Rows(), func(r cluster.Row) bool { return r.Name != name })
	return cli.WithHint(watch(ctx, s, l, rows), "see 'mullion status%[1]s' and 'mullion logs%[1]s %[2]s'",
		nameFlag(l.Name), name)
}

func nodeRemove(s cli.Streams) *cobra.Command {
	var f nodeFlags
	var purge, force bool
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Drain a host, delete its node and end the host",
		Long: `Cordon and drain a node as 'kubectl drain' does, end its host, and delete the Node
object. Pods of DaemonSets and the contents of emptyDir volumes end with the host.
'mullion node add NAME' finds the host's data again, unless you pass --purge.`,
		Example: `  mullion node remove win-4
  mullion node remove win-4 --purge    # its name and address are free again
  mullion node remove win-2 --force    # do not wait for pods or disruption budgets`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return f.hosts()
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.withHost(cmd.Context(), args[0], func(ctx context.Context, c runningCluster) error {
				return runNodeRemove(ctx, s, c.layout, c.bin, args[0], purge, force)
			})
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&purge, "purge", false, "remove the host's data too: images, volumes, logs")
	cmd.Flags().BoolVar(&force, "force", false, "cordon the node without draining it")
	return cmd
}

func runNodeRemove(ctx context.Context, s cli.Streams, l cluster.Layout, bin cluster.Binaries, name string,
	purge, force bool) error {
	p := cli.NewProgress(s.Err)
	defer p.Close()
	verb, args := "drain", []string{"--ignore-daemonsets", "--delete-emptydir-data", "--force"}
	if force {
		verb, args = "cordon", nil
	}
	line := p.Start("%s: %s", name, verb)
	if err := kubectl(ctx, l, bin, append([]string{verb, name}, args...)...); err != nil {
		line.Fail("%s: %s failed; the host is still there, cordoned", name, verb)
		return cli.WithHint(err, "--force ends the host without waiting for its pods; 'mullion kubectl%s uncordon %s' "+
			"keeps it", nameFlag(l.Name), name)
	}
	line.Set("%s: ending the host", name)
	if err := cluster.RemoveHost(ctx, l, bin, name); err != nil {
		line.Fail("%s was not ended", name)
		return err
	}
	line.Set("%s: deleting the node", name)
	if err := deleteNode(ctx, l, name); err != nil {
		line.Fail("%s: the host has ended, and its node was not deleted", name)
		return cli.WithHint(err, "run 'mullion kubectl%s delete node %s'", nameFlag(l.Name), name)
	}
	if purge {
		if err := cluster.PurgeHost(l, name); err != nil {
			line.Fail("%s was removed, and its data is left", name)
			return err
		}
		line.Done("removed %s and its data in %s", name, line.Elapsed())
		return nil
	}
	line.Done("removed %s in %s; 'mullion node add%s %s' brings it back", name, line.Elapsed(), nameFlag(l.Name), name)
	return nil
}

// kubectl runs upstream's kubectl as the cluster's administrator. Its output is the
// error if it fails.
func kubectl(ctx context.Context, l cluster.Layout, bin cluster.Binaries, args ...string) error {
	cmd := exec.CommandContext(ctx, bin.Kube(), append([]string{"kubectl"}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+l.Kubeconfig())
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return fmt.Errorf("kubectl %s: %w: %s", args[0], context.Cause(ctx), lastLine(out))
	}
	if err != nil && !neverJoined(out) {
		return fmt.Errorf("kubectl %s: %w: %s", args[0], err, lastLine(out))
	}
	return nil
}

// neverJoined reports whether the output of kubectl, called with one node, consists only of the error that the node
// does not exist. Such a node has no pods to drain.
func neverJoined(out []byte) bool {
	said := string(bytes.TrimSpace(out))
	return strings.HasPrefix(said, "Error from server (NotFound): nodes ") && !strings.Contains(said, "\n")
}

func lastLine(out []byte) string {
	lines := strings.Split(string(bytes.TrimSpace(out)), "\n")
	return lines[len(lines)-1]
}

func deleteNode(ctx context.Context, l cluster.Layout, name string) error {
	client, err := cluster.Client(l)
	if err != nil {
		return err
	}
	err = client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete node %s: %w", name, err)
	}
	return nil
}

func nodeReboot(s cli.Streams) *cobra.Command {
	var f nodeFlags
	cmd := &cobra.Command{
		Use:   "reboot NAME",
		Short: "Shut a host down and boot it again",
		Long: `Shut a host down, boot it again, and wait until its node is Ready. Its pods stay on
the node and start again, as after the reboot of a server. To move them, drain the
node first.`,
		Example: `  mullion node reboot win-1
  mullion kubectl drain win-1 --ignore-daemonsets && mullion node reboot win-1`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return f.hosts()
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.withHost(cmd.Context(), args[0], func(ctx context.Context, c runningCluster) error {
				if err := cluster.RebootHost(ctx, c.layout, args[0]); err != nil {
					return err
				}
				return watchHost(ctx, s, c.layout, c.config, c.bin, args[0])
			})
		},
	}
	f.add(cmd)
	return cmd
}

// listedNode is one entry of the output of `mullion node list -o json`. Fields are only
// ever added.
type listedNode struct {
	Name    string          `json:"name"`
	System  string          `json:"system"`
	Address string          `json:"address"`
	State   supervise.State `json:"state"` // of the host: ready, starting, …; down
	Ready   bool            `json:"ready"` // the Node
	Message string          `json:"message,omitempty"`
}

func nodeList(s cli.Streams) *cobra.Command {
	var t target
	var output string
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the hosts of a cluster",
		Example: `  mullion node list
  mullion node list -o name`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runNodeList(cmd.Context(), s, t, output) },
	}
	t.add(cmd)
	cli.Output(cmd, &output, "text", "json", "name")
	return cmd
}

func runNodeList(ctx context.Context, s cli.Streams, t target, output string) error {
	l, cfg, err := t.existing()
	if err != nil {
		return err
	}
	nodes, err := listNodes(ctx, l, cfg)
	if err != nil {
		return err
	}
	switch output {
	case "json":
		e := json.NewEncoder(s.Out)
		e.SetIndent("", "  ")
		return e.Encode(nodes)
	case "name":
		for _, n := range nodes {
			fmt.Fprintln(s.Out, n.Name)
		}
		return nil
	}
	w := tabwriter.NewWriter(s.Out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "NAME\tSYSTEM\tADDRESS\tHOST\tNODE READY\tMESSAGE")
	for _, n := range nodes {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%t\t%s\n", n.Name, n.System, n.Address, n.State, n.Ready, firstLine(n.Message))
	}
	return w.Flush()
}

func listNodes(ctx context.Context, l cluster.Layout, cfg cluster.Config) ([]listedNode, error) {
	bin, err := cluster.FindBinaries()
	if err != nil {
		return nil, err
	}
	plan, err := cluster.Describe(l, cfg, bin)
	if err != nil {
		return nil, err
	}
	st, up, err := cluster.ReadState(l)
	if err != nil {
		return nil, err
	}
	client, clientErr := cluster.Client(l)
	nodes := make([]listedNode, 0, len(plan.Nodes))
	for _, n := range plan.Nodes {
		node := listedNode{Name: n.Name, System: n.Title, Address: n.Address.Addr().String(), State: "down"}
		i := slices.IndexFunc(st.Components, func(c supervise.Status) bool { return c.Name == n.Name })
		if up && i >= 0 {
			node.State, node.Message = st.Components[i].State, st.Components[i].Message
			err := clientErr
			if err == nil {
				err = cluster.NodeReady(ctx, client, n.Name)
			}
			if node.Ready = err == nil; !node.Ready {
				node.Message = err.Error()
			}
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}
