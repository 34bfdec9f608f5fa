// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package pwsh

import (
	"errors"
	"fmt"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/syntax"
)

// Script is a parsed script. Several sessions may run it, one after another.
type Script struct {
	name    string
	edition Edition
	block   *syntax.ScriptBlock
}

// Parse parses a script. The name is used in error messages and as the script's
// path; it may be empty. The error, if any, is a *[SyntaxError].
func Parse(name, text string, edition Edition) (*Script, error) {
	block, err := syntax.Parse(&syntax.Source{Name: name, Text: text}, edition.dialect())
	if mistake, ok := errors.AsType[*syntax.Error](err); ok {
		line, column := mistake.Source.LineCol(mistake.At)
		return nil, &SyntaxError{
			Name:       name,
			Line:       line,
			Column:     column,
			Message:    mistake.Msg,
			ID:         mistake.ID,
			Incomplete: mistake.Incomplete,
		}
	}
	if err != nil {
		return nil, err
	}
	return &Script{name: name, edition: edition, block: block}, nil
}

// SyntaxError is a mistake in the text of a script.
type SyntaxError struct {
	Name         string // of the script, as given to Parse
	Line, Column int    // both counted from 1; a column is a character
	Message      string // PowerShell's
	ID           string // PowerShell's FullyQualifiedErrorId
	// Incomplete reports whether more text could complete the script. A console
	// then prompts for another line.
	Incomplete bool
}

// Error returns the place and the message.
func (e *SyntaxError) Error() string {
	name := e.Name
	if name == "" {
		name = "script"
	}
	return fmt.Sprintf("%s:%d:%d: %s", name, e.Line, e.Column, e.Message)
}

// ScriptError is an error that a script did not catch.
type ScriptError struct {
	Message  string
	Type     string // of the exception, such as System.DivideByZeroException
	ID       string // FullyQualifiedErrorId
	Category string // such as ObjectNotFound
	Line     int    // counted from 1; 0 if it is unknown
	cause    error
}

// Error returns the message.
func (e *ScriptError) Error() string { return e.Message }

// Unwrap returns the error of a Go cmdlet or type that caused this one, or nil.
func (e *ScriptError) Unwrap() error { return e.cause }

func scriptError(rec *interp.ErrorRecord) *ScriptError {
	e := &ScriptError{
		Message:  rec.Text(),
		Type:     rec.Exception.Type,
		ID:       rec.FQID,
		Category: rec.Category,
		cause:    rec.Exception.Unwrap(),
	}
	if rec.Source != nil {
		e.Line, _ = rec.Source.LineCol(rec.At.From)
	}
	return e
}
