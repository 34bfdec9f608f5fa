// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clustercmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cluster"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

type upFlags struct {
	target
	cluster.Choice
	dryRun     bool
	output     string
	wait       time.Duration
	kubeconfig string
}

func (f *upFlags) addWait(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.wait, "wait", 5*time.Minute, "how long to wait for everything to be ready")
}

func (f *upFlags) addKubeconfig(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "",
		"kubeconfig `file` for the cluster's context, or none (default: the file of the last --kubeconfig, the first "+
			"of KUBECONFIG that exists, or ~/.kube/config)")
}

// Up is `mullion up`.
func Up(s cli.Streams) *cobra.Command {
	var f upFlags
	var c choiceFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Create a cluster on this machine, or resume it",
		Long: `Start a cluster: upstream's control plane in one process, emulated Windows hosts
that run upstream's unmodified kubelet.exe and kube-proxy.exe, and Linux workers
with upstream's kubelet, kube-proxy and containerd.

A second run starts the missing parts and keeps the data of earlier runs. 'mullion
down --purge' removes the data.

A file can describe the cluster, too (--config). Flags win over the file.
--dry-run -o yaml prints it. For an existing cluster, up refuses changed settings
and shows the difference. It can add hosts.

The cluster's context, mullion-NAME, becomes the current context of your kubectl.
'mullion down' removes it. Under sudo, up changes the kubeconfig of the user who ran
sudo.`,
		Example: `  mullion up                                  # Windows Server 2019, 2022 and 2025, and a Linux worker
  mullion up --windows 2019,2019              # two hosts of one build
  mullion up --windows 2022 --linux 0         # Windows hosts only
  mullion up --windows-taint os=windows:NoSchedule
  mullion up --cpus 2 --memory 4Gi            # the size of each host
  mullion up --network vxlan                  # pods in flannel's overlay network
  mullion up --name ci --data-dir /tmp/ci     # a second cluster, elsewhere
  mullion up --dry-run                        # print the whole plan, change nothing
  mullion up --dry-run -o yaml > cluster.yaml # write the flags to a file
  mullion up --config cluster.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var name string
			var err error
			if f.Choice, name, err = c.choice(cmd.Flags(), s.In); err != nil {
				return err
			}
			if name != "" && !cmd.Flags().Changed("name") {
				f.name = name
			}
			if f.output != "text" && !f.dryRun {
				return cli.Usagef("--output %s needs --dry-run", f.output)
			}
			return runUp(cmd.Context(), s, f)
		},
	}
	f.add(cmd)
	c.add(cmd)
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false,
		"print directories, certificates, programs and their order; change nothing")
	f.output = "text"
	cli.OneOf(cmd, &f.output, "output", "o",
		"`format` of --dry-run: text for the whole plan, or yaml for a file that --config reads", "text", "yaml")
	f.addWait(cmd)
	f.addKubeconfig(cmd)
	return cmd
}

func runUp(ctx context.Context, s cli.Streams, f upFlags) error {
	l, err := f.layout()
	if err != nil {
		return err
	}
	if f.wait <= 0 {
		return cli.Usagef("--wait %s: must be positive", f.wait)
	}
	bin, err := cluster.FindBinaries()
	if err != nil {
		return err
	}
	if f.dryRun {
		return dryRun(s, l, f, bin)
	}
	if err := preflight(l, f, bin); err != nil {
		return err
	}
	cfg, err := cluster.Make(l, f.Choice)
	if err != nil {
		return differs(err, f.name)
	}
	plan, err := cluster.Describe(l, cfg, bin)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, f.wait, fmt.Errorf("not everything was ready after %s", f.wait))
	defer cancel()
	began, err := cluster.Start(l, bin)
	if err != nil {
		return err
	}
	if err := watch(ctx, s, l, plan.Rows()); err != nil {
		if began && errors.Is(ctx.Err(), context.Canceled) {
			// Ctrl-C: stop the cluster only if this invocation started it.
			fmt.Fprintln(s.Err, "mullion: interrupted: stopping the cluster")
			return errors.Join(context.Canceled, cluster.Stop(context.WithoutCancel(ctx), l))
		}
		if _, failed := errors.AsType[*cluster.FailedError](err); failed && began {
			// The hosts are of no use without it.
			return errors.Join(err, cluster.Stop(context.WithoutCancel(ctx), l))
		}
		return cli.WithHint(err, "see 'mullion status%s' and 'mullion logs%s'", nameFlag(f.name), nameFlag(f.name))
	}
	pruneCache(s, l)
	in, err := enter(ctx, l, f.kubeconfig)
	if err != nil {
		// The cluster is up all the same.
		fmt.Fprintf(s.Err, "mullion: warning: %v\nmullion: hint: 'mullion kubeconfig%s --merge' tries again\n", err,
			nameFlag(f.name))
	}
	fmt.Fprintf(s.Err, "   %s   next: bin/mullion kubectl%s get nodes -o wide\n", in, nameFlag(f.name))
	return nil
}

// enter adds the cluster's context to the file of --kubeconfig, given now or at an
// earlier start of the cluster, and returns instructions for reaching the cluster.
func enter(ctx context.Context, l cluster.Layout, kubeconfig string) (string, error) {
	direct := "kubeconfig: " + l.Kubeconfig()
	if kubeconfig == "" {
		before, err := chosenKubeconfig(l)
		if err != nil {
			return direct, err
		}
		kubeconfig = before
	}
	if kubeconfig == noKubeconfig {
		return direct, remember(l, remembered{Chosen: true})
	}
	file, err := addContext(ctx, l, kubeconfig)
	if err != nil {
		return direct, err
	}
	return fmt.Sprintf("kubectl context: %s (%s)", contextName(l), file.Path), nil
}

// preflight checks the cluster's requirements, for its present or planned network and hosts.
func preflight(l cluster.Layout, f upFlags, bin cluster.Binaries) error {
	var c cluster.Config
	if f.NetworkMode != nil {
		c.NetworkMode = *f.NetworkMode
	}
	if chosen, err := cluster.Choose(l, f.Choice); err == nil { // otherwise Make returns the error later
		c = chosen
	}
	_, running, err := cluster.ReadState(l)
	if err != nil {
		return err
	}
	return environment(cluster.Preflight(bin, c, running))
}

// environment turns the findings of Preflight into one error with all hints.
func environment(err error) error {
	if err == nil {
		return nil
	}
	var hints []string
	if multi, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range multi.Unwrap() {
			if m, ok := errors.AsType[*cluster.Missing](e); ok {
				hints = append(hints, m.What+": "+m.Hint)
			}
		}
	}
	return cli.Environmentf(strings.Join(hints, "\n"), "this machine cannot run a cluster yet")
}

func dryRun(s cli.Streams, l cluster.Layout, f upFlags, bin cluster.Binaries) error {
	cfg, err := cluster.Choose(l, f.Choice)
	if err != nil {
		return differs(cli.Usagef("%w", err), f.name)
	}
	if f.output == "yaml" {
		text, err := cluster.NewDocument(cfg).Marshal()
		if err != nil {
			return err
		}
		_, err = s.Out.Write(text)
		return err
	}
	plan, err := cluster.Describe(l, cfg, bin)
	if err != nil {
		return err
	}
	_, err = plan.WriteTo(s.Out)
	return err
}

// differs adds a hint to the error that refuses choices.
func differs(err error, name string) error {
	if _, ok := errors.AsType[*cluster.DifferentError](err); !ok {
		return err
	}
	return cli.WithHint(err, "'mullion up%[1]s' without these flags keeps the cluster as it is; to start over, run "+
		"'mullion down%[1]s --purge' first", nameFlag(name))
}

// watch shows the components' progress and returns when all are ready.
func watch(ctx context.Context, s cli.Streams, l cluster.Layout, rows []cluster.Row) error {
	p := cli.NewProgress(s.Err)
	defer p.Close()
	lines := map[string]*cli.Line{}
	titles := map[string]cluster.Row{}
	for _, r := range rows {
		titles[r.Name] = r
		lines[r.Name] = p.Start("%-15s %s", r.Title, r.Done)
	}
	return cluster.Watch(ctx, l, rows, func(st supervise.Status) {
		line, ok := lines[st.Name]
		if !ok {
			return // shown by `mullion status` only
		}
		row := titles[st.Name]
		switch {
		case st.State == supervise.Ready && st.Name == cluster.ServerName:
			line.Done("%-15s %-36s ready in %s", row.Title, row.Done, line.Elapsed())
		case st.State == supervise.Ready:
			line.Done("%-15s %-36s Ready in %s%s", row.Title, row.Done, line.Elapsed(), row.Note)
		case st.State == supervise.Failed:
			line.Fail("%-15s %-36s failed", row.Title, row.Done)
		case st.Message != "":
			line.Set("%-15s %-36s %s: %s", row.Title, row.Done, st.State, firstLine(st.Message))
		default:
			line.Set("%-15s %-36s %s", row.Title, row.Done, st.State)
		}
	})
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
