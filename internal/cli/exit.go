// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Code is an exit code. Scripts depend on them: docs/reference/exit-codes.md.
type Code int

// The exit codes.
const (
	OK          Code = 0
	Unhealthy   Code = 1   // the command failed, or it worked and found problems
	Usage       Code = 2   // the command line is wrong
	Environment Code = 3   // the machine lacks something: root, a program, a free port
	Fault       Code = 4   // a bug in mullion
	Unread      Code = 5   // an input cannot be read; the others have been
	Interrupted Code = 130 // Ctrl-C, as shells count it (128 + SIGINT)
)

// Failure is an error with an exit code and, where a user can do something
// about it, a hint.
type Failure struct {
	Code Code
	Err  error
	Hint string // optional; may have several lines
}

func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Usagef returns a usage error: the command line is wrong.
func Usagef(format string, args ...any) error {
	return &Failure{Code: Usage, Err: fmt.Errorf(format, args...)}
}

// WithHint adds a hint for the user. It keeps the code of an inner Failure.
func WithHint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &Failure{Code: codeOf(err), Err: err, Hint: fmt.Sprintf(format, args...)}
}

// Environmentf returns an error about the machine, with a hint for the user.
func Environmentf(hint, format string, args ...any) error {
	return &Failure{Code: Environment, Err: fmt.Errorf(format, args...), Hint: hint}
}

// Silent returns an error that sets the exit code and has no message, for commands that
// have already printed it.
func Silent(code Code) error { return &Failure{Code: code} }

// ExitStatus returns an error that passes on the exit status of a program.
func ExitStatus(status int) error { return &Failure{Code: Code(status)} }

func codeOf(err error) Code {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f.Code
	}
	return Unhealthy
}

// report prints err once and returns the exit code.
func report(w io.Writer, cmd *cobra.Command, err error) Code {
	code := codeOf(err)
	var f *Failure
	if errors.As(err, &f) && f.Err == nil {
		return code
	}
	fmt.Fprintf(w, "mullion: error: %v\n", err)
	for e := err; errors.As(e, &f); e = f.Err {
		for line := range strings.Lines(f.Hint) {
			fmt.Fprintf(w, "mullion: hint: %s\n", strings.TrimRight(line, "\n"))
		}
	}
	if code == Usage && cmd != nil {
		fmt.Fprintf(w, "mullion: hint: see '%s --help'\n", cmd.CommandPath())
	}
	return code
}
