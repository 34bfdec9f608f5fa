// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package interp

import (
	"errors"
	"strconv"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/syntax"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// Cmdlet is a command implemented in Go.
type Cmdlet struct {
	Name    string
	Aliases []string
	// Params describes the parameters, separated by blanks:
	//
	//	Name|Alias     a parameter and its other names
	//	?              behind it: a switch
	//	:int           its kind: string (the default), int, float, bool, any, block, hash
	//	[]             a list of that kind
	//	@0             its position
	//	!              mandatory
	//	<              takes the pipeline's objects
	//	.              takes the objects' property of that name
	//	*              takes all further positional arguments
	//	=              is accepted and ignored
	//	~              is refused: PowerShell has it, this subset has not
	Params string
	// Begin, Process and End are called as PowerShell's methods of these
	// names; each may be nil. Process is called once for each object of the
	// pipeline, and once in all where the command has no input.
	Begin, Process, End func(c *Invocation) error
	// Fidelity describes known differences from Windows in one sentence, for
	// docs/fidelity/pwsh.md.
	Fidelity string
}

// paramFlags are the characters that end a name in Cmdlet.Params.
const paramFlags = "?:[@!<.*=~"

// parseParams reads Cmdlet.Params.
func parseParams(spec string) []Param {
	var list []Param
	for word := range strings.FieldsSeq(spec) {
		p := Param{Kind: "string", Position: -1}
		name := word
		if i := strings.IndexAny(word, paramFlags); i >= 0 {
			name = word[:i]
			readParamFlags(&p, word[i:])
		}
		names := strings.Split(name, "|")
		p.Name, p.Aliases = names[0], names[1:]
		list = append(list, p)
	}
	return list
}

func readParamFlags(p *Param, flags string) {
	for flags != "" {
		c := flags[0]
		flags = flags[1:]
		switch c {
		case '?':
			p.Kind = "switch"
		case '!':
			p.Mandatory = true
		case '<':
			p.Pipeline = true
		case '.':
			p.ByProp = true
		case '*':
			p.Remaining = true
		case '~':
			p.Refused = true
		case '@':
			p.Position, _ = strconv.Atoi(flags[:1])
			flags = flags[1:]
		case '[':
			p.Kind = "[]" + p.Kind
			flags = flags[1:]
		case ':':
			n := strings.IndexAny(flags, paramFlags)
			if n < 0 {
				n = len(flags)
			}
			p.Kind = flags[:n]
			flags = flags[n:]
		}
	}
}

// ParamsOf returns the parameters of a cmdlet.
func (r *Runner) ParamsOf(c *Cmdlet) []Param {
	p, ok := r.specs[c]
	if !ok {
		p = parseParams(c.Params)
		r.specs[c] = p
	}
	return p
}

// Invocation is one run of a cmdlet.
type Invocation struct {
	R   *Runner
	Cmd *Cmdlet
	Out Sink
	// Item is the object of the pipeline that Process is called for; HasItem
	// distinguishes $null from no input.
	Item    any
	HasItem bool
	// State is the cmdlet's own, from Begin to End.
	State any

	args    map[string]any
	given   map[string]bool
	params  []Param
	at      syntax.Node
	pipe    *pipeline
	piped   bool
	failed  bool
	errVar  *value.List
	outVar  *value.List
	pipeVar string
}

// Get returns the argument of a parameter.
func (c *Invocation) Get(name string) (any, bool) {
	v, ok := c.args[strings.ToLower(name)]
	return v, ok
}

// Has reports whether a parameter was given.
func (c *Invocation) Has(name string) bool {
	_, ok := c.args[strings.ToLower(name)]
	return ok
}

// Any returns an argument of any type, or nil.
func (c *Invocation) Any(name string) any { return c.args[strings.ToLower(name)] }

// Str returns a text argument, or def.
func (c *Invocation) Str(name, def string) string {
	if v, ok := c.args[strings.ToLower(name)].(string); ok {
		return v
	}
	return def
}

// Strs returns an argument that is a list of texts.
func (c *Invocation) Strs(name string) []string {
	v, _ := c.args[strings.ToLower(name)].([]string)
	return v
}

// Int returns a number, or def.
func (c *Invocation) Int(name string, def int) int {
	if v, ok := c.args[strings.ToLower(name)].(int); ok {
		return v
	}
	return def
}

// Items returns an argument that is a list.
func (c *Invocation) Items(name string) []any {
	v, _ := c.args[strings.ToLower(name)].([]any)
	return v
}

// Switch reports whether a switch is on.
func (c *Invocation) Switch(name string) bool {
	v, _ := c.args[strings.ToLower(name)].(Switch)
	return bool(v)
}

// Block returns a script block, or nil.
func (c *Invocation) Block(name string) *ScriptBlock {
	v, _ := c.args[strings.ToLower(name)].(*ScriptBlock)
	return v
}

// Hash returns a hashtable, or nil.
func (c *Invocation) Hash(name string) *value.Hash {
	v, _ := c.args[strings.ToLower(name)].(*value.Hash)
	return v
}

// Piped reports whether the command follows another one in its pipeline.
func (c *Invocation) Piped() bool { return c.piped }

// Write writes an object to the pipeline.
func (c *Invocation) Write(v any) error {
	if c.outVar != nil {
		c.outVar.Items = append(c.outVar.Items, v)
	}
	if c.pipeVar != "" {
		c.R.scope.set(c.pipeVar, strings.ToLower(c.pipeVar), v)
	}
	return c.Out.Emit(v)
}

// WriteAll writes an object to the pipeline, a collection element by element.
func (c *Invocation) WriteAll(v any) error {
	items, ok := value.Items(v)
	if !ok {
		if v == Void {
			return nil
		}
		return c.Write(v)
	}
	for _, x := range items {
		if err := c.Write(x); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends the commands in front of this one, which needs no more input.
func (c *Invocation) Stop() error {
	if c.pipe == nil {
		return nil
	}
	for i, s := range c.pipe.stages {
		if inner, ok := s.(*redirected); ok {
			s = inner.inner
		}
		if st, ok := s.(*cmdletStage); ok && st.c == c {
			c.pipe.stopped = i
			st.done = true
		}
	}
	return &stopError{c.pipe}
}

// action returns the command's error action.
func (c *Invocation) action() string {
	if v, ok := c.args["erroraction"].(string); ok {
		return strings.ToLower(v)
	}
	return strings.ToLower(value.String(c.R.pref("ErrorActionPreference")))
}

// Error writes a non-terminating error and goes on; -ErrorAction Stop makes it
// a terminating one, which is returned.
func (c *Invocation) Error(err error) error {
	if err == nil || isFlow(err) {
		return err
	}
	return c.WriteRecord(c.record(err))
}

func (c *Invocation) record(err error) *ErrorRecord {
	rec := c.R.record(err, c.at, c.Cmd.Name)
	if rec.Activity == "" {
		rec.Activity = c.Cmd.Name
	}
	if !strings.Contains(rec.FQID, ",") {
		rec.FQID += "," + className(c.Cmd.Name)
	}
	return rec
}

func className(cmdlet string) string {
	return "Microsoft.PowerShell.Commands." + strings.ReplaceAll(cmdlet, "-", "") + "Command"
}

// WriteRecord is Error for a record.
func (c *Invocation) WriteRecord(rec *ErrorRecord) error {
	c.failed = true
	c.R.ok = false
	if c.errVar != nil {
		c.errVar.Items = append(c.errVar.Items, rec)
	}
	switch a := c.action(); a {
	case "stop", "1":
		return &Thrown{Record: rec, Script: true}
	case "silentlycontinue", "0":
		c.R.remember(rec)
		return nil
	case "ignore", "4":
		return nil
	}
	return c.R.WriteErrorRecord(rec)
}

// ShouldProcess is -WhatIf and -Confirm: if it returns false, the cmdlet skips the action.
func (c *Invocation) ShouldProcess(target, action string) (bool, error) {
	whatIf := c.Switch("WhatIf")
	if !c.Has("WhatIf") {
		whatIf = value.Bool(c.R.pref("WhatIfPreference"))
	}
	if whatIf {
		return false, c.R.Host("What if: Performing the operation \"" + action + "\" on target \"" + target + "\".\n")
	}
	return true, c.Verbose("Performing the operation \"" + action + "\" on target \"" + target + "\".")
}

// Verbose writes to the verbose stream, if it is on.
func (c *Invocation) Verbose(text string) error {
	if v, ok := c.args["verbose"].(Switch); ok {
		if !v {
			return nil
		}
		return c.R.message("verbose", text)
	}
	return c.R.WriteStream("verbose", text)
}

// Warning writes to the warning stream.
func (c *Invocation) Warning(text string) error {
	if a, ok := c.args["warningaction"].(string); ok && (strings.EqualFold(a, "SilentlyContinue") ||
		strings.EqualFold(a, "Ignore")) {
		return nil
	}
	return c.R.WriteStream("warning", text)
}

// Call runs a script block for an item and returns its output.
func (c *Invocation) Call(b *ScriptBlock, item any) (any, error) { return c.R.CallBlock(b, item, nil) }

// cmdletStage returns the stage of a cmdlet.
func (r *Runner) cmdletStage(cmd *Cmdlet, args []argument, at syntax.Node, p *pipeline, out Sink) (stage, error) {
	params := r.ParamsOf(cmd)
	c := &Invocation{R: r, Cmd: cmd, Out: out, params: params, at: at, pipe: p}
	if n, ok := at.(*syntax.Command); ok && n == nil {
		c.at = nil
	}
	b, err := r.bind(params, args, false, true)
	if err != nil {
		return nil, &Thrown{Record: c.record(err)}
	}
	c.args = b.values
	for i := range params {
		if p := &params[i]; p.Refused {
			if _, given := b.values[strings.ToLower(p.Name)]; given {
				return nil, &Thrown{Record: c.record(NotImplemented("the parameter -" + p.Name + " of " + cmd.Name))}
			}
		}
	}
	c.given = make(map[string]bool, len(b.values))
	for k := range b.values {
		c.given[k] = true
	}
	if name, ok := c.args["outvariable"].(string); ok {
		c.outVar = r.listVariable(name)
	}
	if name, ok := c.args["errorvariable"].(string); ok {
		c.errVar = r.listVariable(name)
	}
	if name, ok := c.args["pipelinevariable"].(string); ok {
		c.pipeVar = name
	}
	return &cmdletStage{c: c}, nil
}

// listVariable creates the variable of -OutVariable; a + in front appends.
func (r *Runner) listVariable(name string) *value.List {
	if n, ok := strings.CutPrefix(name, "+"); ok {
		if v, ok := r.GetVariable(n); ok {
			if l, ok := v.(*value.List); ok {
				return l
			}
		}
		name = n
	}
	l := &value.List{Type: "System.Collections.ArrayList"}
	r.scope.set(name, strings.ToLower(name), l)
	return l
}

// cmdletStage is a cmdlet in a pipeline.
type cmdletStage struct {
	c    *Invocation
	done bool
	// dead is set when the command failed before it began; -ErrorAction may
	// have hidden that, and the command must not go on.
	dead bool
}

func (s *cmdletStage) begin() error {
	c := s.c
	var err error
	if !c.piped {
		err = c.missing()
	}
	if err == nil && c.Cmd.Begin != nil {
		err = c.Cmd.Begin(c)
	}
	s.dead = err != nil
	return s.wrap(err)
}

// missing reports mandatory parameters without a value.
func (c *Invocation) missing() error {
	var names []string
	for i := range c.params {
		if p := &c.params[i]; p.Mandatory && !c.Has(p.Name) {
			names = append(names, p.Name)
		}
	}
	if names == nil {
		return nil
	}
	return c.R.fail("System.Management.Automation.ParameterBindingException", "MissingMandatoryParameter",
		"InvalidArgument", nil, "Cannot process command because of one or more missing mandatory parameters: %s.",
		strings.Join(names, " "))
}

func (s *cmdletStage) process(v any) error {
	c := s.c
	if s.done {
		return &stopError{c.pipe}
	}
	if c.Cmd.Process == nil || s.dead {
		return nil
	}
	c.Item, c.HasItem = v, true
	for i := range c.params {
		p := &c.params[i]
		key := strings.ToLower(p.Name)
		if c.given[key] || !p.Pipeline && !p.ByProp {
			continue
		}
		delete(c.args, key)
		val, ok := v, p.Pipeline
		if p.ByProp {
			if pv, has := c.byProp(p, v); has {
				val, ok = pv, true
			}
		}
		if !ok {
			continue
		}
		conv, err := c.R.convertParam(p, val)
		if err != nil {
			return s.wrap(c.Error(c.R.fail("System.Management.Automation.ParameterBindingException",
				"InputObjectNotBound", "InvalidArgument", v,
				"The input object cannot be bound to any parameters for the command either because the command does "+
					"not take pipeline input or the input and its properties do not match any of the parameters that "+
					"take pipeline input.")))
		}
		c.args[key] = conv
	}
	if err := c.missing(); err != nil {
		return s.wrap(c.Error(err))
	}
	return s.wrap(c.Cmd.Process(c))
}

func (c *Invocation) byProp(p *Param, v any) (any, bool) {
	switch value.Unwrap(v).(type) {
	case string, nil:
		return nil, false
	}
	if o, ok := v.(*value.Object); ok && o.Base != nil {
		if _, text := o.Base.(string); text {
			return nil, false
		}
	}
	for _, name := range append([]string{p.Name}, p.Aliases...) {
		if pv, ok := c.R.HasProperty(v, name); ok && pv != nil {
			return pv, true
		}
	}
	return nil, false
}

func (s *cmdletStage) end() error {
	c := s.c
	if s.dead {
		return nil
	}
	if !c.piped && c.Cmd.Process != nil {
		if err := s.wrap(c.Cmd.Process(c)); err != nil {
			return err
		}
	}
	if c.Cmd.End != nil {
		if err := s.wrap(c.Cmd.End(c)); err != nil {
			return err
		}
	}
	c.R.ok = !c.failed
	return nil
}

// wrap converts a Go error to the command's terminating error. Its error action
// applies: SilentlyContinue hides it.
func (s *cmdletStage) wrap(err error) error {
	if err == nil || isFlow(err) {
		return err
	}
	if err := s.c.R.ended(err); err != nil {
		return err
	}
	if _, ok := errors.AsType[*Thrown](err); ok {
		return err
	}
	c := s.c
	var rec *ErrorRecord
	if re, ok := errors.AsType[*recordError](err); ok {
		rec = re.rec
	} else {
		rec = c.record(err)
	}
	if _, explicit := c.args["erroraction"]; explicit {
		switch c.action() {
		case "silentlycontinue", "ignore", "0", "4":
			c.failed = true
			if c.errVar != nil {
				c.errVar.Items = append(c.errVar.Items, rec)
			}
			c.R.remember(rec)
			c.R.ok = false
			return nil
		case "stop", "1":
			return &Thrown{Record: rec, Script: true}
		}
	}
	if c.errVar != nil {
		c.errVar.Items = append(c.errVar.Items, rec)
	}
	return &Thrown{Record: rec}
}

// Record returns an error record for an error, in the command's name.
func (c *Invocation) Record(err error) *ErrorRecord { return c.record(err) }

// Terminate makes a statement-terminating error of a record, or of the
// command's error action.
func (c *Invocation) Terminate(rec *ErrorRecord) error {
	return &recordError{rec}
}

// recordError carries a record to the stage, which applies the error action.
type recordError struct{ rec *ErrorRecord }

func (e *recordError) Error() string { return e.rec.Text() }
