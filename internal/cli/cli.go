// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package cli is the frame of the command line: it runs a list of commands,
// owns what is printed to users, and turns errors into exit codes. The
// commands themselves live in the packages below it; which of them an
// executable has is decided in cmd/mullion, per operating system.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Streams are the standard streams of one invocation.
type Streams struct {
	In  io.Reader
	Out io.Writer // data: what a script reads
	Err io.Writer // narration: progress, warnings, errors
}

// Stdio is the process' own streams.
func Stdio() Streams { return Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr} }

// Group heads a section of `mullion --help`.
type Group string

// The sections, in the order in which they are printed.
const (
	Cluster  Group = "cluster"
	Node     Group = "node"
	Manifest Group = "manifest"
	Internal Group = "internal" // hidden: started by mullion itself
)

var titles = []struct {
	group Group
	title string
}{
	{Cluster, "Cluster commands:"},
	{Node, "Node commands:"},
	{Manifest, "Manifest commands:"},
}

// Command is one entry of the executable's command table.
type Command struct {
	Group Group
	New   func(Streams) *cobra.Command
}

// Run parses args (args[0] is the program's name), runs the command and
// returns the process' exit code.
func Run(ctx context.Context, s Streams, args []string, commands []Command) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := Root(s, commands)
	root.SetArgs(alias(args))
	cmd, err := execute(ctx, root)
	if err == nil {
		return int(OK)
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintf(s.Err, "mullion: interrupted\n")
		return int(Interrupted)
	}
	return int(report(s.Err, cmd, err))
}

// execute turns a panic of a command into an error that says whose fault it is.
func execute(ctx context.Context, root *cobra.Command) (cmd *cobra.Command, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &Failure{Code: Fault, Err: fmt.Errorf("a defect of mullion, not of yours: %v", p), Hint: "please report it with these lines:\n" + string(debug.Stack())}
		}
	}()
	return root.ExecuteContextC(ctx)
}

// alias maps a program name onto a command, so that a link named kubectl to
// the executable is kubectl.
func alias(args []string) []string {
	if len(args) == 0 {
		return nil
	}
	if strings.TrimSuffix(filepath.Base(args[0]), ".exe") == "kubectl" {
		return append([]string{"kubectl"}, args[1:]...)
	}
	return args[1:]
}

// Root builds the tree of commands.
func Root(s Streams, commands []Command) *cobra.Command {
	root := &cobra.Command{
		Use:   "mullion",
		Short: "Windows containers on Kubernetes, on real Windows or on one plain Linux machine",
		Long: `mullion runs mixed Windows and Linux Kubernetes clusters.

On one Linux machine "mullion up" starts upstream's control plane and emulated
Windows hosts that run upstream's unmodified kubelet.exe and kube-proxy.exe.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		// Without a command the help is what a user needs; it is not an error.
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			err := Usagef("unknown command %q", args[0])
			if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
				return WithHint(err, `did you mean "%s"?`, strings.Join(like, `" or "`))
			}
			return err
		},
	}
	root.SuggestionsMinimumDistance = 2 // letters; cobra's own default, which it sets too late for us
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Usagef("%w", err) })
	for _, t := range titles {
		// A heading without commands would be noise: Windows has no cluster ones.
		if slices.ContainsFunc(commands, func(c Command) bool { return c.Group == t.group }) {
			root.AddGroup(&cobra.Group{ID: string(t.group), Title: t.title})
		}
	}
	for _, c := range commands {
		cmd := c.New(s)
		usageOfArgs(cmd)
		if c.Group == Internal {
			cmd.Hidden = true
		} else {
			cmd.GroupID = string(c.Group)
		}
		root.AddCommand(cmd)
	}
	return root
}

// usageOfArgs makes wrong arguments errors of the command line, as wrong flags
// are.
func usageOfArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return Usagef("%w", err)
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		usageOfArgs(sub)
	}
}
