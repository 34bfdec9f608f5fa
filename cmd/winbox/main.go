// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Command winbox implements the small Windows programs of the stand-in images:
// ping, curl, ipconfig, IIS and more. The name of the executable selects one.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/mullion-k8s/mullion/internal/standin/winbox"
	"github.com/mullion-k8s/mullion/pwsh/oshost"
)

func main() {
	ctx, stop := untilEvent()
	argv := os.Args
	// The file's own name decides: cmd.exe passes argv[0] as it was typed, and
	// CreateProcess callers may pass anything.
	if exe, err := os.Executable(); err == nil {
		argv = append([]string{exe}, os.Args[min(1, len(os.Args)):]...)
	}
	code := winbox.Run(ctx, argv, &winbox.Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Host: oshost.New(os.Stdin, os.Stdout, os.Stderr), System: winbox.NewSystem(),
		Console: term.IsTerminal(int(os.Stdin.Fd())),
	})
	stop()
	os.Exit(code)
}

// untilEvent returns a context that ends with a control event. Its cause is winbox.ErrInterrupted if that is Ctrl+C.
func untilEvent() (context.Context, context.CancelFunc) {
	// Go reports Windows' shutdown and close events as SIGTERM.
	terminated, release := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	ctx, cancel := context.WithCancelCause(terminated)
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	go func() {
		select {
		case <-interrupts:
			cancel(winbox.ErrInterrupted)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		release()
	}
}
