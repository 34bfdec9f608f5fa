// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package interp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/syntax"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// FidelityPage is where differences from PowerShell are listed.
const FidelityPage = "docs/fidelity/pwsh.md"

// errNotImplemented marks constructs that this subset of PowerShell lacks; it is
// always wrapped with the name of the construct.
var errNotImplemented = errors.New("not supported by mullion's PowerShell, see " + FidelityPage)

// NotImplemented returns the error for a missing construct.
func NotImplemented(what string) error {
	return &Exception{
		Type:     "System.NotImplementedException",
		Message:  what + " is not supported by mullion's PowerShell. See " + FidelityPage + ".",
		ID:       "NotSupportedByMullion",
		Category: "NotImplemented",
		cause:    errNotImplemented,
	}
}

// Exception is a .NET exception. It is an error, so that commands return it.
type Exception struct {
	Type     string // full name
	Message  string
	ID       string // FullyQualifiedErrorId without the command's class
	Category string
	Target   any
	Inner    *Exception
	Props    []value.Prop // further properties, such as Response
	cause    error
}

// Error returns the message.
func (e *Exception) Error() string    { return e.Message }
func (e *Exception) Unwrap() error    { return e.cause }
func (e *Exception) TypeName() string { return e.Type }
func (e *Exception) Text() string     { return e.Type + ": " + e.Message }

// Failf returns an exception of a type, with an error id and a category.
func Failf(typ, id, category string, target any, format string, args ...any) *Exception {
	return &Exception{Type: typ, Message: fmt.Sprintf(format, args...), ID: id, Category: category, Target: target}
}

// ErrorRecord is an item of the error stream.
type ErrorRecord struct {
	Exception *Exception
	Category  string
	Activity  string // the command's name
	FQID      string
	Target    any
	Source    *syntax.Source
	At        syntax.Span
	Details   string // ErrorDetails.Message
	// Prefix precedes the message instead of the command's name, and
	// then no position is shown: Write-Error at the top of a script.
	Prefix string
	Caller bool // Prefix is a function, whose call is the position
}

// TypeName returns the .NET name.
func (e *ErrorRecord) TypeName() string { return "System.Management.Automation.ErrorRecord" }

// Text returns the message, which "$_" expands to in a script.
func (e *ErrorRecord) Text() string {
	if e.Details != "" {
		return e.Details
	}
	return e.Exception.Message
}

// CategoryInfo returns the line of that name.
func (e *ErrorRecord) CategoryInfo() string {
	target := ":"
	if e.Target != nil {
		text := value.String(e.Target)
		if r := []rune(text); len(r) > 40 {
			text = string(r[:15]) + "..." + string(r[len(r)-15:])
		}
		target = text + ":" + value.ShortName(value.TypeName(e.Target))
	}
	return fmt.Sprintf("%s: (%s) [%s], %s", e.Category, target, e.Activity, value.ShortName(e.Exception.Type))
}

// Thrown is a terminating error on its way up. Script reports whether it ends
// the script and not only its statement.
type Thrown struct {
	Record *ErrorRecord
	Script bool
}

// Error returns the record's message.
func (t *Thrown) Error() string { return t.Record.Text() }

// Unwrap returns the exception, for errors.Is.
func (t *Thrown) Unwrap() error { return t.Record.Exception }

// flow unwinds for return, break and continue.
type flow struct {
	kind  syntax.FlowKind
	label string
}

func (f *flow) Error() string { return f.kind.String() + " outside of its place" }

// exitError unwinds for exit.
type exitError struct{ code int }

func (e *exitError) Error() string { return fmt.Sprintf("exit %d", e.code) }

// stopError unwinds to the pipeline with the stage that needs no more input.
type stopError struct{ p *pipeline }

func (*stopError) Error() string { return "pipeline stopped" }

// isFlow reports whether an error is control flow that no catch may handle.
func isFlow(err error) bool {
	switch err.(type) {
	case *flow, *exitError, *stopError, *abort:
		return true
	}
	return false
}

// abort ends the script: the context ended or a limit was passed.
type abort struct{ cause error }

func (a *abort) Error() string { return a.cause.Error() }
func (a *abort) Unwrap() error { return a.cause }

// thrown converts any error to a terminating error.
func (r *Runner) thrown(err error, at syntax.Node) error {
	if err == nil || isFlow(err) {
		return err
	}
	if err := r.ended(err); err != nil {
		return err
	}
	if _, ok := errors.AsType[*Thrown](err); ok {
		return err
	}
	return &Thrown{Record: r.record(err, at, "")}
}

// ended converts an error to an abort if it only says that the script's context
// has ended; it is nil for other errors.
func (r *Runner) ended(err error) error {
	if a, ok := errors.AsType[*abort](err); ok {
		return a
	}
	if r.ctx != nil && r.ctx.Err() != nil &&
		(errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return &abort{r.ctx.Err()}
	}
	return nil
}

// record returns an error record for an error.
func (r *Runner) record(err error, at syntax.Node, activity string) *ErrorRecord {
	if t, ok := errors.AsType[*Thrown](err); ok {
		return t.Record
	}
	ex := r.exception(err)
	rec := &ErrorRecord{
		Exception: ex,
		Category:  ex.Category,
		FQID:      ex.ID,
		Target:    ex.Target,
		Activity:  activity,
		Source:    r.source,
	}
	if rec.Category == "" {
		rec.Category = "NotSpecified"
	}
	if rec.FQID == "" {
		rec.FQID = value.ShortName(ex.Type)
	}
	if at != nil {
		rec.At = syntax.Span{From: at.Pos(), To: at.End()}
	}
	return rec
}

// exception maps Go errors to .NET exceptions.
func (r *Runner) exception(err error) *Exception {
	if ex, ok := errors.AsType[*Exception](err); ok {
		return ex
	}
	var ce *value.ConvertError
	var oe *value.OpError
	var pe *syntax.Error
	switch {
	case errors.As(err, &ce):
		return &Exception{
			Type:     "System.Management.Automation.PSInvalidCastException",
			Message:  err.Error(),
			ID:       "InvalidCastFromStringToInteger",
			Category: "InvalidArgument",
			cause:    err,
		}
	case errors.As(err, &oe):
		return &Exception{
			Type:     "System.Management.Automation.RuntimeException",
			Message:  err.Error(),
			ID:       "MethodNotFound",
			Category: "InvalidOperation",
			Target:   nil,
			cause:    err,
		}
	case errors.Is(err, value.ErrDivideByZero):
		return &Exception{
			Type:     "System.DivideByZeroException",
			Message:  err.Error(),
			ID:       "RuntimeException",
			Category: "NotSpecified",
			cause:    err,
		}
	case errors.As(err, &pe):
		return &Exception{
			Type:     "System.Management.Automation.ParseException",
			Message:  err.Error(),
			ID:       pe.ID,
			Category: "ParserError",
			cause:    err,
		}
	}
	return &Exception{
		Type:     "System.Management.Automation.RuntimeException",
		Message:  err.Error(),
		ID:       "RuntimeException",
		Category: "OperationStopped",
		cause:    err,
	}
}

// FormatError returns an error record as the console shows it.
func (r *Runner) FormatError(e *ErrorRecord) string {
	var b strings.Builder
	msg := e.Text()
	if e.Exception.ID == "CommandNotFoundException" && e.Activity == "" {
		sep := " : "
		if r.cfg.Edition == syntax.Core {
			sep = ": "
		}
		msg = value.String(e.Target) + sep + msg // the name precedes it, as a cmdlet's does
	}
	if r.cfg.Edition == syntax.Core {
		if e.Activity != "" {
			b.WriteString(e.Activity + ": ")
		} else if e.Category == "ParserError" {
			b.WriteString("ParserError: ")
		}
		if e.Source != nil && e.Source.Name != "" {
			line, _ := e.Source.LineCol(e.At.From)
			text, mark := e.Source.Window(e.At.From, e.At.To)
			return fmt.Sprintf("%s%s:%d\nLine |\n%4d |  %s\n     |  %s\n     | %s\n", b.String(), e.Source.Name, line,
				line, text, mark, msg)
		}
		b.WriteString(msg + "\n")
		return b.String()
	}
	switch {
	case e.Prefix != "":
		b.WriteString(e.Prefix + " : ")
	case e.Activity != "" && e.Category != "OperationStopped":
		b.WriteString(e.Activity + " : ")
	case e.Category == "ParserError" && e.Source != nil:
		b.WriteString(e.position()) // the position of a syntax error precedes the message
	}
	b.WriteString(msg + "\n")
	if e.Source != nil && (e.Prefix == "" || e.Caller) && (e.Category != "ParserError" || e.Activity != "") {
		b.WriteString(e.position())
	}
	b.WriteString("    + CategoryInfo          : " + e.CategoryInfo() + "\n")
	b.WriteString("    + FullyQualifiedErrorId : " + e.FQID + "\n \n")
	return b.String()
}

// position is PositionMessage: where, the line, and the mark under it.
func (e *ErrorRecord) position() string {
	line, col := e.Source.LineCol(e.At.From)
	text, mark := e.Source.Window(e.At.From, e.At.To)
	where := "line:"
	if e.Source.Name != "" {
		where = e.Source.Name + ":"
	}
	return fmt.Sprintf("At %s%d char:%d\n+ %s\n+ %s\n", where, line, col, text, mark)
}

// PositionMessage returns the place of an error as text.
func (e *ErrorRecord) PositionMessage() string {
	if e.Source == nil {
		return ""
	}
	return strings.TrimSuffix(e.position(), "\n")
}

// ExitError ends the session with a code, as the exit statement does.
func ExitError(code int) error { return &exitError{code} }

// Abort ends the script: no try or trap catches it.
func Abort(err error) error { return &abort{err} }
