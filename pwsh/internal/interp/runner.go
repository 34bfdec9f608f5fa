// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package interp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/internal/syntax"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// Library holds the commands and classes that a Runner can use.
type Library struct {
	Cmdlets []*Cmdlet
	Classes []*Class
	// Display returns the stage that writes a script's results to the console.
	Display func(r *Runner, w io.Writer) Display
}

// Display writes objects as the console shows them.
type Display interface {
	Add(v any) error
	Flush() error
}

// Config configures a Runner.
type Config struct {
	Handlers host.Handlers
	Library  Library
	Edition  syntax.Edition
	// Windows chooses Windows' path rules: drives, backslashes, no case.
	Windows bool
	// Dir is the first location, an absolute path.
	Dir string
	// Version is the text of $PSVersionTable.PSVersion; empty: the edition's.
	Version string
	// MaxDepth bounds calls within calls; 0: 250. One level costs up to a
	// few kilobytes of Go stack per node on the way.
	MaxDepth int
	// MaxSteps ends a script after so many statements; 0: no limit. Tests
	// and fuzzing set it.
	MaxSteps int64
}

// Runner runs scripts, one after another, in one session.
type Runner struct {
	cfg Config
	h   host.Handlers
	//nolint:containedctx // the running script's: a tree walk has no other way to hand it to every node
	ctx     context.Context
	scope   *scope
	aliases map[string]string
	cmdlets map[string]*Cmdlet
	classes map[string]*Class
	members map[memberKey]member

	errors   *value.List
	ok       bool // $?
	lastExit int
	exitSet  bool
	depth    int
	steps    int64
	tries    int // try blocks around
	strict   int
	source   *syntax.Source
	streams  *streams
	display  Display
	Location string
	stack    []string // of Push-Location
	using    []string // namespaces
	rand     *randSource
	calls    []*callFrame
	events   []func() // run at the end of the session
	specs    map[*Cmdlet][]Param
}

// callFrame is a running function or script.
type callFrame struct {
	name   string
	source *syntax.Source
	at     syntax.Span
	bound  *value.Hash
	args   []any
	block  *ScriptBlock
	line   string
	// callSource and at are the position of the call.
	callSource *syntax.Source
}

// Sink takes the objects of a pipeline. Raw is set where they go to the
// console: native programs then write there themselves.
type Sink struct {
	Emit func(v any) error
	Raw  io.Writer
}

// streams are where the other streams go. A nil function is the console.
type streams struct {
	err, warn, verbose, debug, info func(v any) error
}

// New returns a new session.
func New(cfg Config) (*Runner, error) {
	if cfg.MaxDepth == 0 {
		cfg.MaxDepth = 250
	}
	if cfg.Handlers.Stdout == nil {
		cfg.Handlers.Stdout = io.Discard
	}
	if cfg.Handlers.Stderr == nil {
		cfg.Handlers.Stderr = io.Discard
	}
	if cfg.Library.Display == nil {
		return nil, errors.New("new runner: the library has no display")
	}
	r := &Runner{
		cfg: cfg, h: cfg.Handlers, ok: true, Location: cfg.Dir,
		errors:  &value.List{Type: "System.Collections.ArrayList"},
		aliases: map[string]string{}, streams: &streams{},
		cmdlets: make(map[string]*Cmdlet, len(cfg.Library.Cmdlets)),
		classes: make(map[string]*Class, len(cfg.Library.Classes)),
		members: map[memberKey]member{},
		specs:   map[*Cmdlet][]Param{},
	}
	r.scope = newScope(nil)
	r.scope.script = true
	for _, c := range cfg.Library.Cmdlets {
		r.cmdlets[strings.ToLower(c.Name)] = c
		for _, a := range c.Aliases {
			r.aliases[strings.ToLower(a)] = c.Name
		}
	}
	for _, c := range cfg.Library.Classes {
		r.classes[strings.ToLower(c.Name)] = c
	}
	for k, v := range preferences {
		r.scope.set(k, strings.ToLower(k), v)
	}
	r.scope.set("OFS", "ofs", " ")
	delete(r.scope.vars, "ofs")
	r.display = cfg.Library.Display(r, r.h.Stdout)
	return r, nil
}

// preferences are the first values of the preference variables.
// Source: about_Preference_Variables.
var preferences = map[string]any{
	"ErrorActionPreference": "Continue", "WarningPreference": "Continue", "VerbosePreference": "SilentlyContinue",
	"DebugPreference": "SilentlyContinue", "InformationPreference": "SilentlyContinue",
	"ProgressPreference": "Continue", "ConfirmPreference": "High", "WhatIfPreference": false,
	"MaximumHistoryCount": int32(4096), "FormatEnumerationLimit": int32(4), "NestedPromptLevel": int32(0),
	"OutputEncoding": "utf-8",
}

// Handlers returns the handlers of the session, for commands.
func (r *Runner) Handlers() *host.Handlers { return &r.h }

// Context returns the context of the running script.
func (r *Runner) Context() context.Context {
	if r.ctx == nil {
		return context.Background()
	}
	return r.ctx
}

// Edition returns the dialect.
func (r *Runner) Edition() syntax.Edition { return r.cfg.Edition }

// Windows reports whether the path rules of Windows apply.
func (r *Runner) Windows() bool { return r.cfg.Windows }

// Library returns the commands and classes of the session.
func (r *Runner) Library() *Library { return &r.cfg.Library }

// Result is how a script ended.
type Result struct {
	// Exit is the code of an exit statement; Exited says there was one.
	Exit   int
	Exited bool
	// Failed reports whether an uncaught error ended the script.
	Failed bool
	// OK is the last value of $?.
	OK bool
}

// RunText parses and runs a script in the session's own scope, writing its
// results to the console. Errors of the script are shown, not returned; it
// returns only the context's error or the error of a limit.
func (r *Runner) RunText(ctx context.Context, name, text string) (Result, error) {
	src := &syntax.Source{Name: name, Text: text}
	block, err := syntax.Parse(src, r.cfg.Edition)
	if err != nil {
		r.reportParse(err)
		return Result{Failed: true}, nil
	}
	return r.Run(ctx, block)
}

// reportParse shows a mistake of syntax.
func (r *Runner) reportParse(err error) {
	var pe *syntax.Error
	if !errors.As(err, &pe) {
		_ = r.WriteErrorRecord(r.record(err, nil, ""))
		return
	}
	_ = r.WriteErrorRecord(parseRecord(pe))
}

func parseRecord(pe *syntax.Error) *ErrorRecord {
	return &ErrorRecord{
		Exception: &Exception{
			Type:     "System.Management.Automation.ParentContainsErrorRecordException",
			Message:  pe.Msg,
			ID:       pe.ID,
			Category: "ParserError",
		},
		Category: "ParserError", FQID: pe.ID, Source: pe.Source, At: syntax.Span{From: pe.At, To: pe.End},
	}
}

// Run runs a parsed script in the session's own scope.
func (r *Runner) Run(ctx context.Context, block *syntax.ScriptBlock) (Result, error) {
	return r.run(ctx, func(out Sink) error {
		return r.scriptBody(block, out, nil)
	})
}

// wordArgument reads -Name and -Name:value as parameters, as -File does.
func (r *Runner) wordArgument(a string) argument {
	if len(a) > 1 && a[0] == '-' && (a[1]|0x20 >= 'a' && a[1]|0x20 <= 'z') {
		name, val, has := strings.Cut(a[1:], ":")
		if has {
			var v any = val
			switch strings.ToLower(val) {
			case "$true":
				v = true
			case "$false":
				v = false
			}
			return argument{param: name, colon: true, value: v, text: a}
		}
		return argument{param: a[1:], text: a}
	}
	return argument{value: a, text: a}
}

func (r *Runner) run(ctx context.Context, body func(Sink) error) (res Result, err error) {
	old := r.ctx
	r.ctx = ctx
	defer func() { r.ctx = old }()
	r.steps = 0
	base := r.ambient()
	defer func() {
		// A fault of this program must not look like one of the script's,
		// nor end a server that embeds it.
		if p := recover(); p != nil {
			r.restore(base)
			res, err = Result{Failed: true}, fmt.Errorf("run script: internal error: %v\n%s", p, debug.Stack())
		}
		r.depth, r.tries, r.calls = 0, 0, nil
	}()
	out := Sink{Emit: r.display.Add, Raw: flushWriter{r}}
	err = body(out)
	if ferr := r.display.Flush(); err == nil && ferr != nil {
		err = ferr
	}
	return r.finish(err)
}

// finish turns how a script unwound into its result.
func (r *Runner) finish(err error) (Result, error) {
	switch e := err.(type) {
	case nil:
		return Result{OK: r.ok}, nil
	case *exitError:
		return Result{Exit: e.code, Exited: true}, nil
	case *flow, *stopError:
		return Result{OK: r.ok}, nil
	case *abort:
		return Result{Failed: true}, e.cause
	}
	rec := r.record(err, nil, "")
	r.remember(rec)
	r.ok = false
	if werr := r.showError(rec); werr != nil {
		return Result{Failed: true}, werr
	}
	return Result{Failed: true}, nil
}

// Close runs the actions deferred to the session's end.
func (r *Runner) Close() {
	for _, v := range slices.Backward(r.events) {
		v()
	}
	r.events = nil
}

// AtClose registers a clean-up for the session's end.
func (r *Runner) AtClose(f func()) { r.events = append(r.events, f) }

// flushWriter writes to the console after flushing the display.
type flushWriter struct{ r *Runner }

func (w flushWriter) Write(p []byte) (int, error) {
	if err := w.r.display.Flush(); err != nil {
		return 0, err
	}
	return w.r.h.Stdout.Write(p)
}

// Host writes text to the console after flushing the display.
func (r *Runner) Host(text string) error {
	if err := r.display.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(r.h.Stdout, text)
	return hostError(err)
}

func hostError(err error) error {
	if err == nil {
		return nil
	}
	return &abort{fmt.Errorf("write to the console: %w", err)}
}

// step counts a statement and looks at the context.
func (r *Runner) step() error {
	r.steps++
	if r.cfg.MaxSteps > 0 && r.steps > r.cfg.MaxSteps {
		return &abort{errors.New("run script: too many steps")}
	}
	if r.steps&0x3f == 0 && r.ctx != nil {
		select {
		case <-r.ctx.Done():
			return &abort{r.ctx.Err()}
		default:
		}
	}
	return nil
}

func (r *Runner) enter() error {
	r.depth++
	if r.depth > r.cfg.MaxDepth {
		return r.fail("System.Management.Automation.RuntimeException", "CallDepthOverflow", "InvalidOperation", nil,
			"The script failed due to call depth overflow.")
	}
	return nil
}

func (r *Runner) leave() { r.depth-- }

// automatic returns the automatic variables. Source: about_Automatic_Variables.
func (r *Runner) automatic(lower string) (any, bool) {
	switch lower {
	case "true":
		return true, true
	case "false":
		return false, true
	case "null":
		return nil, true
	case "?":
		return r.ok, true
	case "lastexitcode":
		if r.exitSet {
			return int32(r.lastExit), true
		}
		return nil, true
	case "error":
		return r.errors, true
	case "pwd":
		return r.PathInfo(r.Location), true
	case "pid":
		if r.h.System != nil {
			return int32(r.h.System.PID()), true
		}
		return int32(os.Getpid()), true
	case "home":
		if r.h.System != nil {
			return r.h.System.HomeDir(), true
		}
	case "psversiontable":
		return r.versionTable(), true
	case "psedition":
		return r.editionName(), true
	case "iswindows":
		if r.cfg.Edition == syntax.Core {
			return true, true
		}
	case "islinux", "ismacos":
		if r.cfg.Edition == syntax.Core {
			return false, true
		}
	case "iscoreclr":
		if r.cfg.Edition == syntax.Core {
			return true, true
		}
	case "pshome":
		if r.cfg.Edition == syntax.Core {
			return `C:\Program Files\PowerShell\7`, true
		}
		return `C:\Windows\System32\WindowsPowerShell\v1.0`, true
	case "host":
		return r.host(), true
	case "shellid":
		return "Microsoft.PowerShell", true
	case "psculture", "psuiculture":
		return "en-US", true
	case "myinvocation":
		return r.myInvocation(), true
	case "psboundparameters":
		if f := r.frame(); f != nil && f.bound != nil {
			return f.bound, true
		}
		return &value.Hash{}, true
	case "pscommandpath":
		if r.source != nil {
			return r.source.Name, true
		}
		return "", true
	case "psscriptroot":
		if r.source != nil && r.source.Name != "" {
			return r.ParentPath(r.source.Name), true
		}
		return "", true
	case "executioncontext":
		return value.NewObject("System.Management.Automation.EngineIntrinsics"), true
	}
	return nil, false
}

func (r *Runner) frame() *callFrame {
	if len(r.calls) == 0 {
		return nil
	}
	return r.calls[len(r.calls)-1]
}

func (r *Runner) myInvocation() any {
	o := value.NewObject("System.Management.Automation.InvocationInfo", "MyCommand", nil, "InvocationName", "", "Line",
		"", "ScriptName", "", "BoundParameters", nil, "UnboundArguments", nil)
	if f := r.frame(); f != nil {
		path := ""
		if f.source != nil {
			path = f.source.Name
		}
		o.Set("MyCommand", value.NewObject("System.Management.Automation.CommandInfo", "Name", f.name, "Path", path,
			"Definition", path, "ScriptBlock", f.block))
		o.Set("InvocationName", f.name)
		o.Set("ScriptName", path)
		o.Set("Line", f.line)
		o.Set("BoundParameters", f.bound)
		o.Set("UnboundArguments", value.NewArray(f.args...))
	}
	return o
}

func (r *Runner) editionName() string {
	if r.cfg.Edition == syntax.Core {
		return "Core"
	}
	return "Desktop"
}

// version returns the reported version, whose behaviour the interpreter follows.
func (r *Runner) version() value.Version {
	if v, ok := value.ParseVersion(r.cfg.Version); ok {
		return v
	}
	if r.cfg.Edition == syntax.Core {
		return value.Version{Major: 7, Minor: 4, Build: 6, Revision: -1}
	}
	return value.Version{Major: 5, Minor: 1, Build: 17763, Revision: 0}
}

func (r *Runner) versionTable() *value.Hash {
	h := &value.Hash{}
	h.Set("PSVersion", r.version())
	h.Set("PSEdition", r.editionName())
	if r.cfg.Edition == syntax.Core {
		h.Set("OS", "Microsoft Windows "+r.osVersion())
		h.Set("Platform", "Win32NT")
	} else {
		h.Set("CLRVersion", value.Version{Major: 4, Minor: 0, Build: 30319, Revision: 42000})
		v, _ := value.ParseVersion(r.osVersion())
		h.Set("BuildVersion", value.Version{Major: v.Major, Minor: v.Minor, Build: v.Build, Revision: 0})
	}
	h.Set("PSCompatibleVersions", value.NewArray(value.Version{
		Major:    1,
		Minor:    0,
		Build:    -1,
		Revision: -1,
	}, value.Version{Major: 5, Minor: 0, Build: -1, Revision: -1}, r.version()))
	h.Set("PSRemotingProtocolVersion", value.Version{Major: 2, Minor: 3, Build: -1, Revision: -1})
	h.Set("SerializationVersion", value.Version{Major: 1, Minor: 1, Build: 0, Revision: 1})
	h.Set("WSManStackVersion", value.Version{Major: 3, Minor: 0, Build: -1, Revision: -1})
	h.Set("Mullion", "an interpreter of a PowerShell subset, see "+FidelityPage)
	return h
}

func (r *Runner) osVersion() string {
	if r.h.System != nil {
		return r.h.System.OSVersion()
	}
	return "10.0.17763.0"
}

// host is $Host. Its window's size is looked up at each use, because the user may
// have changed it.
func (r *Runner) host() any {
	const ui = "System.Management.Automation.Internal.Host.InternalHost"
	raw := value.NewObject(ui+"RawUserInterface", "WindowTitle", "Windows PowerShell")
	if r.h.System != nil {
		if width, height, ok := r.h.System.ConsoleSize(); ok {
			size := value.NewObject("System.Management.Automation.Host.Size", "Width", int32(width), "Height",
				int32(height))
			size.Str = fmt.Sprintf("%d,%d", width, height)
			raw.Set("WindowSize", size)
			raw.Set("BufferSize", size)
			raw.Set("MaxWindowSize", size)
		}
	}
	return value.NewObject(ui, "Name", "ConsoleHost", "Version", r.version(), "UI",
		value.NewObject(ui+"UserInterface", "RawUI", raw), "CurrentCulture", "en-US", "CurrentUICulture", "en-US")
}
