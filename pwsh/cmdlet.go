// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package pwsh

import (
	"context"
	"errors"
	"fmt"

	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
)

// Cmdlet is a command that is written in Go. The common parameters, such as
// -ErrorAction and -OutVariable, work without its help.
//
// Values go between Go and PowerShell as follows. In both directions a string,
// a bool and a number are themselves (an int becomes an Int32, or an Int64 if it
// needs one), nil is $null, a []byte is a Byte[], a time.Time a DateTime, a
// time.Duration a TimeSpan, and a map[string]any a Hashtable. A []any or a
// []string is an array. Any other Go value is an object that PowerShell code can
// pass on, and that comes back unchanged. From PowerShell, a custom object comes
// as a map[string]any of its properties, a collection as a []any, and any other
// object as its text.
type Cmdlet struct {
	// Name is the command's name, such as Get-Pod.
	Name string
	// Aliases are further names.
	Aliases []string
	// Params declares the parameters, separated by blanks. Each is a name
	// followed by any of
	//
	//	|Alias     another name of the parameter
	//	?          it is a switch
	//	:int       its type: string (the default), int, float, bool or any
	//	[]         it is a list of that type
	//	@0         its position, from 0
	//	!          it is mandatory
	//	<          it takes the pipeline's objects
	//	.          it takes the property of that name of the pipeline's objects
	//
	// Example: "Name[]@0<! Count|n:int Force?".
	Params string
	// Begin is called before the first object of the pipeline, Process for each
	// object, and End after the last. Process is called once if the command has
	// no input. Each may be nil, but not all.
	Begin, Process, End func(c *Invocation) error
}

func (c *Cmdlet) check() error {
	if c.Name == "" {
		return errors.New("a cmdlet of Config.Cmdlets has no name")
	}
	if c.Begin == nil && c.Process == nil && c.End == nil {
		return fmt.Errorf("cmdlet %s has neither Begin nor Process nor End", c.Name)
	}
	return nil
}

func (c *Cmdlet) internal() *interp.Cmdlet {
	step := func(f func(c *Invocation) error) func(c *interp.Invocation) error {
		if f == nil {
			return nil
		}
		return func(c *interp.Invocation) error { return f(&Invocation{c}) }
	}
	return &interp.Cmdlet{
		Name:    c.Name,
		Aliases: c.Aliases,
		Params:  c.Params,
		Begin:   step(c.Begin),
		Process: step(c.Process),
		End:     step(c.End),
	}
}

// Invocation is one call of a cmdlet.
type Invocation struct{ c *interp.Invocation }

// Has reports whether a parameter was given.
func (i *Invocation) Has(param string) bool { return i.c.Has(param) }

// Text returns the text of a string parameter, or def if it was not given.
func (i *Invocation) Text(param, def string) string { return i.c.Str(param, def) }

// Texts returns the elements of a parameter that is a list of strings.
func (i *Invocation) Texts(param string) []string { return i.c.Strs(param) }

// Int returns the number of an int parameter, or def if it was not given.
func (i *Invocation) Int(param string, def int) int { return i.c.Int(param, def) }

// Switch reports whether a switch is on.
func (i *Invocation) Switch(param string) bool { return i.c.Switch(param) }

// Value returns the value of a parameter of any type, or nil if it was not given.
func (i *Invocation) Value(param string) any {
	switch v := i.c.Any(param).(type) {
	case interp.Switch:
		return bool(v)
	case int:
		return v
	case []string, []int:
		return v
	case []any:
		return toGoItems(i.c.R, v)
	default:
		return toGo(i.c.R, v)
	}
}

// Input returns the object of the pipeline that Process is called for. It
// reports false if the command has no input.
func (i *Invocation) Input() (any, bool) { return toGo(i.c.R, i.c.Item), i.c.HasItem }

// Write writes an object to the pipeline.
func (i *Invocation) Write(v any) error { return i.c.Write(fromGo(v)) }

// Error reports an error and lets the command continue, unless the caller set
// -ErrorAction Stop: then it returns an error, which the cmdlet must return.
// Any other error that a cmdlet returns ends the calling statement.
func (i *Invocation) Error(err error) error { return i.c.Error(err) }

// Context returns the context of the running script.
func (i *Invocation) Context() context.Context { return i.c.R.Context() }

// Handlers returns the session's handlers.
func (i *Invocation) Handlers() *host.Handlers { return i.c.R.Handlers() }
