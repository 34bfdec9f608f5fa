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
	Unhealthy   Code = 1   // it worked, and what it found is not good; or a plain failure
	Usage       Code = 2   // the command line is wrong
	Environment Code = 3   // the machine lacks something: root, a program, a free port
	Fault       Code = 4   // a defect of mullion
	Interrupted Code = 130 // Ctrl-C, as shells count it (128 + SIGINT)
)

// Failure is an error with an exit code and, where a user can do something
// about it, a hint.
type Failure struct {
	Code Code
	Err  error
	Hint string // "" if there is none; may have several lines
}

func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap gives the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Usagef is an error of the command line.
func Usagef(format string, args ...any) error {
	return &Failure{Code: Usage, Err: fmt.Errorf(format, args...)}
}

// WithHint says what the user can do about err. The code of an inner Failure
// is kept.
func WithHint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &Failure{Code: codeOf(err), Err: err, Hint: fmt.Sprintf(format, args...)}
}

// Environmentf is an error of the machine, with what to do about it.
func Environmentf(hint, format string, args ...any) error {
	return &Failure{Code: Environment, Err: fmt.Errorf(format, args...), Hint: hint}
}

// Silent ends the program with a code after the command has already said all
// there is to say.
func Silent(code Code) error { return &Failure{Code: code} }

// ExitStatus passes on the exit status of a program that was run for the user.
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
