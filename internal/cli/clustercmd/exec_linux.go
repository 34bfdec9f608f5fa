// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clustercmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cluster"
)

// Exec is `mullion exec`.
func Exec(s cli.Streams) *cobra.Command {
	var t target
	var stdin, tty bool
	cmd := &cobra.Command{
		Use:   "exec HOST -- COMMAND [ARGUMENT...]",
		Short: "Run a program on a host of the cluster",
		Long: `Run a program on an emulated Windows host as its administrator, or on a Linux
worker as root. The program runs on the host itself, not in a pod. The exit code
is the program's; 126 means that it could not be started, 127 that it was not
found.`,
		Example: `  mullion exec win-1 -- powershell Get-NetAdapter
  mullion exec win-1 -it -- cmd
  mullion exec linux-1 -- ctr images list
  echo hello | mullion exec win-1 -i -- findstr hello`,
		Args: cobra.MinimumNArgs(2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return t.hosts()
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			l, cfg, err := t.existing()
			if err != nil {
				return err
			}
			if err := isHost(cfg, args[0]); err != nil {
				return err
			}
			if os.Geteuid() != 0 {
				return cli.Environmentf("run it with sudo", "mullion exec needs root to enter a host")
			}
			bin, err := cluster.FindBinaries()
			if err != nil {
				return err
			}
			argv, err := cluster.ExecArgv(l, cfg, bin, args[0], args[1:])
			if err != nil {
				return cli.WithHint(err, "see 'mullion status%s'", nameFlag(l.Name))
			}
			if !stdin {
				s.In = nil
			}
			return runExec(cmd.Context(), s, argv, tty)
		},
	}
	t.add(cmd)
	cmd.Flags().BoolVarP(&stdin, "stdin", "i", false, "pass standard input on to the program")
	cmd.Flags().BoolVarP(&tty, "tty", "t", false, "give the program a terminal")
	return cmd
}

// isHost returns an error if the cluster has no such host.
func isHost(cfg cluster.Config, name string) error {
	if cluster.IsNode(cfg, name) {
		return nil
	}
	return cli.WithHint(cli.Usagef("cluster %q has no host %q", cfg.Name, name), "its hosts: %s", hostNames(cfg))
}

// stopExec is the time for a program to end after Ctrl-C.
const stopExec = 5 * time.Second

// runExec runs a program with the given streams, or with a new terminal. It never gets
// the user's terminal: a program on the host could type into it.
func runExec(ctx context.Context, s cli.Streams, argv []string, tty bool) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = []string{"PATH=" + os.Getenv("PATH")}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// The program is in the session of its parent, which waits for it.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = stopExec
	if tty {
		return runTerminal(cmd, s)
	}
	// Pipes, even where a stream is a file.
	cmd.Stdout, cmd.Stderr = onlyWriter{s.Out}, onlyWriter{s.Err}
	if s.In == nil {
		return exitStatus(ctx, cmd.Run())
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("run program: %w", err)
	}
	// Wait must not wait for standard input: a program may end before it has.
	go func() {
		_, _ = io.Copy(in, s.In) // the program does not read on
		_ = in.Close()
	}()
	return exitStatus(ctx, cmd.Run())
}

type onlyWriter struct{ io.Writer }

// exitStatus passes on the exit code of a program.
func exitStatus(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case !ok && err != nil:
		return fmt.Errorf("run program: %w", err)
	case !ok:
		return nil
	case exit.ExitCode() < 0: // by a signal
		return cli.ExitStatus(128 + int(exit.Sys().(syscall.WaitStatus).Signal()))
	}
	return cli.ExitStatus(exit.ExitCode())
}

// runTerminal runs a program with a terminal that has the size of the user's and
// passes keys and output on.
func runTerminal(cmd *exec.Cmd, s cli.Streams) (err error) {
	master, slave, err := openTerminal()
	if err != nil {
		return fmt.Errorf("make terminal: %w", err)
	}
	defer master.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr.Setctty = true
	if user, ok := s.In.(*os.File); ok && term.IsTerminal(int(user.Fd())) {
		before, err := term.MakeRaw(int(user.Fd()))
		if err != nil {
			return errors.Join(fmt.Errorf("prepare terminal: %w", err), slave.Close())
		}
		defer func() { _ = term.Restore(int(user.Fd()), before) }()
		defer followSize(user, master)()
	}
	err = cmd.Start()
	if closeErr := slave.Close(); err != nil || closeErr != nil {
		return errors.Join(err, closeErr)
	}
	if s.In != nil {
		go func() { _, _ = io.Copy(master, s.In) }() // ends with this process
	}
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		_, _ = io.Copy(s.Out, master) // EIO when the last program has closed it
	}()
	err = cmd.Wait()
	select {
	case <-printed:
	case <-time.After(time.Second): // a program that was left behind keeps it open
	}
	return exitStatus(context.Background(), err)
}

// openTerminal makes a pseudoterminal (pty(7)).
func openTerminal() (master, slave *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	if slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	return master, slave, nil
}

// followSize gives a terminal the size of the user's, now and whenever that changes.
func followSize(user, master *os.File) (stop func()) {
	set := func() {
		if size, err := unix.IoctlGetWinsize(int(user.Fd()), unix.TIOCGWINSZ); err == nil {
			_ = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, size) // it is open
		}
	}
	set()
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case <-changed:
				set()
			case <-ended:
				return
			}
		}
	}()
	return func() { signal.Stop(changed); close(ended) }
}
