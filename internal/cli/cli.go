// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package cli is the frame of the command line: it runs a list of commands,
// prints to users, and turns errors into exit codes. The commands are in the
// packages below it; cmd/mullion selects them for each operating system.
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
	Out io.Writer // data, for scripts
	Err io.Writer // narration: progress, warnings, errors
}

// Stdio returns the standard streams of the process.
func Stdio() Streams { return Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr} }

// Group heads a section of `mullion --help`.
type Group string

// The sections, in the order in which they are printed: the life of a cluster.
const (
	Start    Group = "start"
	Use      Group = "use"
	Change   Group = "change"
	Check    Group = "check"
	End      Group = "end"
	Node     Group = "node"
	Internal Group = "internal" // hidden: mullion itself runs these commands
)

var titles = []struct {
	group Group
	title string
}{
	{Start, "Start a cluster:"},
	{Use, "Use a cluster:"},
	{Change, "Change or save a cluster:"},
	{Check, "Check clusters and manifests:"},
	{End, "End a cluster:"},
	{Node, "Node commands:"},
}

// Command is one entry of the executable's command table.
type Command struct {
	Group Group
	New   func(Streams) *cobra.Command
}

// Run parses args (args[0] is the program's name), runs the command and
// returns the process' exit code.
func Run(ctx context.Context, s Streams, args []string, commands []Command) int {
	return run(ctx, s, Root(s, commands), alias(args))
}

// RunProgram is Run for a program that is one command, with subcommands or
// without.
func RunProgram(ctx context.Context, s Streams, args []string, program *cobra.Command) int {
	complete(program, s)
	return run(ctx, s, program, args[1:])
}

func run(ctx context.Context, s Streams, root *cobra.Command, args []string) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	root.SetArgs(args)
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

// execute runs the command. It turns a panic into an error with the request to report a
// bug.
func execute(ctx context.Context, root *cobra.Command) (cmd *cobra.Command, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &Failure{Code: Fault, Err: fmt.Errorf("a bug in mullion, not a mistake of yours: %v", p),
				Hint: "please report it with these lines:\n" + string(debug.Stack())}
		}
	}()
	return root.ExecuteContextC(ctx)
}

// alias maps the program's name to a command, so that a link to the executable
// named kubectl acts as kubectl.
func alias(args []string) []string {
	if len(args) == 0 {
		return nil
	}
	if strings.TrimSuffix(filepath.Base(args[0]), ".exe") == "kubectl" {
		return append([]string{"kubectl"}, args[1:]...)
	}
	return args[1:]
}

// Root returns the tree of commands.
func Root(s Streams, commands []Command) *cobra.Command {
	root := &cobra.Command{
		Use:   "mullion",
		Short: "Windows containers on Kubernetes, on real Windows or on one plain Linux machine",
		Long: `mullion runs mixed Windows and Linux Kubernetes clusters.

On one Linux machine "mullion up" starts upstream's control plane and emulated
Windows hosts that run upstream's unmodified kubelet.exe and kube-proxy.exe.`,
		Example: `  mullion up                               # Windows Server 2019, 2022 and 2025, and a Linux worker
  mullion kubectl apply -f webserver.yaml  # run a Windows application
  mullion lint deploy/                     # check manifests; needs no cluster`,
	}
	for _, t := range titles {
		// Omit empty sections: on Windows there are no cluster commands.
		if slices.ContainsFunc(commands, func(c Command) bool { return c.Group == t.group }) {
			root.AddGroup(&cobra.Group{ID: string(t.group), Title: t.title})
		}
	}
	for _, c := range commands {
		cmd := c.New(s)
		if c.Group == Internal {
			cmd.Hidden = true
		} else {
			cmd.GroupID = string(c.Group)
		}
		root.AddCommand(cmd)
	}
	complete(root, s)
	return root
}

// complete adds the settings that all programs share.
func complete(root *cobra.Command, s Streams) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetFlagErrorFunc(wrongFlag)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	strict(root)
}

// strict makes wrong arguments, missing flags and unknown subcommands usage
// errors, like wrong flags. Cobra reports the first two without a type, and for
// the third it prints the help as if all were well.
func strict(cmd *cobra.Command) {
	switch check := cmd.Args; {
	case cmd.Name() == "help" && !cmd.HasSubCommands():
		cmd.RunE = help
	case !cmd.Runnable():
		cmd.Args, cmd.RunE = cobra.ArbitraryArgs, group
	case check != nil:
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(check(cmd, args), cmd.ValidateRequiredFlags()); err != nil {
				return WithHint(Usagef("%w", err), "usage: %s", cmd.UseLine())
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		strict(sub)
	}
}

// group runs a command that only groups others: without an argument it prints
// the help, which is not an error.
func group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	return unknown(cmd, args[0])
}

// help runs `mullion help [COMMAND]`.
func help(cmd *cobra.Command, args []string) error {
	about, rest, err := cmd.Root().Find(args)
	if err != nil {
		return Usagef("%w", err)
	}
	if len(rest) > 0 {
		return unknown(about, rest[0])
	}
	about.InitDefaultHelpFlag()
	return about.Help()
}

// unknown returns the error for a word that is not a subcommand of cmd.
func unknown(cmd *cobra.Command, word string) error {
	cmd.SuggestionsMinimumDistance = mostLetters // cobra sets its default later than this
	return meant(Usagef("unknown command %q", word), `"`, cmd.SuggestionsFor(word))
}
