// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clustercmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cluster"
)

// Logs is `mullion logs`.
func Logs(s cli.Streams) *cobra.Command {
	var t target
	var follow bool
	var tail int
	cmd := &cobra.Command{
		Use:   "logs [COMPONENT | NODE | NODE/COMPONENT]",
		Short: "Print the log of a component or of a node",
		Long: `Print the log of a component or of a node. Without an argument, list the logs.
NODE is the log of the node's host; NODE/kubelet, NODE/kube-proxy and so on are
the logs of the programs on it.`,
		Example: `  mullion logs                     # list
  mullion logs server --tail 50
  mullion logs win-1/kubelet -f`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			l, err := t.layout()
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			files, err := logFiles(l)
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			return names(files), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			l, _, err := t.existing()
			if err != nil {
				return err
			}
			return runLogs(cmd.Context(), s, l, args, tail, follow)
		},
	}
	t.add(cmd)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print new lines as they are written")
	cmd.Flags().IntVar(&tail, "tail", -1, "print only the last `lines`")
	return cmd
}

type logFile struct{ name, path string }

func names(files []logFile) []string {
	var out []string
	for _, f := range files {
		out = append(out, f.name)
	}
	return out
}

// logFiles lists the logs of a cluster: logs/NAME.log, nodes/NODE/logs/NAME.log, and NAME\NAME.log in C:\var\log of
// each Windows host that runs.
func logFiles(l cluster.Layout) ([]logFile, error) {
	var files []logFile
	for _, pattern := range []string{filepath.Join(l.Logs(), "*.log"), filepath.Join(l.Node("*"), "logs", "*.log")} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("list logs: %w", err)
		}
		for _, p := range paths {
			name := strings.TrimSuffix(filepath.Base(p), ".log")
			if dir := filepath.Dir(filepath.Dir(p)); dir != l.Dir() {
				name = filepath.Base(dir) + "/" + name
			}
			files = append(files, logFile{name, p})
		}
	}
	nodes, err := filepath.Glob(l.Node("*"))
	if err != nil {
		return nil, fmt.Errorf("list logs: %w", err)
	}
	for _, node := range nodes {
		node = filepath.Base(node)
		dir, err := cluster.WindowsLogs(l, node)
		if err != nil {
			continue // it is down, and so is its disk
		}
		programs, err := filepath.Glob(filepath.Join(dir, "*", "*.log"))
		if err != nil {
			return nil, fmt.Errorf("list logs: %w", err)
		}
		for _, p := range programs {
			name := strings.TrimSuffix(filepath.Base(p), ".log")
			// The others are links to the logs of containers.
			if name == filepath.Base(filepath.Dir(p)) && within(filepath.Dir(filepath.Dir(dir)), p) {
				files = append(files, logFile{node + "/" + name, p})
			}
		}
	}
	slices.SortFunc(files, func(a, b logFile) int { return strings.Compare(a.name, b.name) })
	return files, nil
}

// within reports whether a file is in a directory, without links in its path. Programs of a host can put links on its
// drive C; the user must not be shown a file of the machine in place of a log.
func within(dir, file string) bool {
	rel, err := filepath.Rel(dir, file)
	if err != nil {
		return false
	}
	for elem := range strings.SplitSeq(rel, "/") {
		dir = filepath.Join(dir, elem)
		if st, err := os.Lstat(dir); err != nil || st.Mode()&os.ModeSymlink != 0 {
			return false
		}
	}
	return true
}

func runLogs(ctx context.Context, s cli.Streams, l cluster.Layout, args []string, tail int, follow bool) error {
	files, err := logFiles(l)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		_, err := fmt.Fprintln(s.Out, strings.Join(names(files), "\n"))
		return err
	}
	for _, f := range files {
		if f.name == args[0] {
			return printLog(ctx, s.Out, f.path, tail, follow)
		}
	}
	return cli.WithHint(cli.Usagef("no log named %q", args[0]), "there are: %s", strings.Join(names(files), ", "))
}

// pollEvery is the interval between checks of a followed log. A quarter of a second feels
// immediate and is cheap.
const pollEvery = 250 * time.Millisecond

func printLog(ctx context.Context, w io.Writer, path string, tail int, follow bool) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer func() { _ = f.Close() }() // read only
	if tail >= 0 {
		if err := seekTail(f, tail); err != nil {
			return err
		}
	}
	for {
		if _, err := io.Copy(w, f); err != nil {
			return fmt.Errorf("print log: %w", err)
		}
		if !follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil // Ctrl-C ends following
		case <-time.After(pollEvery):
		}
		if f, err = reopened(f, path); err != nil {
			return err
		}
	}
}

// reopened returns the new file at the path if the log was rotated.
func reopened(f *os.File, path string) (*os.File, error) {
	old, err := f.Stat()
	if err != nil {
		return f, fmt.Errorf("follow log: %w", err)
	}
	now, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) || err == nil && os.SameFile(old, now) {
		return f, nil
	}
	if err != nil {
		return f, fmt.Errorf("follow log: %w", err)
	}
	next, err := os.Open(path)
	if err != nil {
		return f, fmt.Errorf("follow log: %w", err)
	}
	_ = f.Close() // read only
	return next, nil
}

// seekTail places f before its last n lines, reading backwards in blocks.
func seekTail(f *os.File, n int) error {
	const block = 64 << 10 // bytes
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("seek log: %w", err)
	}
	buf := make([]byte, block)
	lines := 0
	for pos := end; pos > 0; {
		size := min(pos, int64(block))
		pos -= size
		if _, err := f.ReadAt(buf[:size], pos); err != nil {
			return fmt.Errorf("read log: %w", err)
		}
		for i := size - 1; i >= 0; i-- {
			if buf[i] != '\n' || pos+i == end-1 {
				continue
			}
			if lines++; lines == n {
				_, err := f.Seek(pos+i+1, io.SeekStart)
				return err
			}
		}
	}
	if n == 0 {
		return nil
	}
	_, err = f.Seek(0, io.SeekStart)
	return err
}
