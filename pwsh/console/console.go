// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package console is powershell.exe and pwsh.exe: their command lines, the
// prompt, and their exit codes.
//
// Sources, read 2026-11: about_PowerShell_exe and about_Pwsh,
// https://learn.microsoft.com/powershell/module/microsoft.powershell.core/about/about_powershell_exe.
package console

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/internal/cmdlet"
	"github.com/mullion-k8s/mullion/pwsh/internal/complete"
	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/syntax"
)

// Options is a parsed command line.
type Options struct {
	Edition     syntax.Edition
	Command     string
	HasCommand  bool
	FromStdin   bool // -Command - or -File -
	File        string
	FileArgs    []string
	Encoded     bool // Command came from -EncodedCommand
	NoExit      bool
	NoLogo      bool
	Interactive bool // standard input is a terminal
	NonInter    bool // -NonInteractive
	Dir         string
	Version     bool
	Help        bool
}

// option describes an option of the command line: its name, the shortest
// abbreviation, and whether a value follows.
type option struct {
	name, short string
	value       bool
}

// options are the options of both programs. Options without an effect here are
// accepted because scripts and manifests pass them.
var options = []option{
	{"command", "c", true}, {"file", "f", true}, {"encodedcommand", "e", true}, {"noprofile", "nop", false},
	{"noninteractive", "noni", false}, {"nologo", "nol", false}, {"noexit", "noe", false},
	{"executionpolicy", "ex", true}, {"windowstyle", "w", true}, {"version", "v", true}, {"inputformat", "i", true},
	{"outputformat", "o", true}, {"psconsolefile", "psc", true}, {"sta", "s", false}, {"mta", "mta", false},
	{"workingdirectory", "wd", true}, {"configurationname", "config", true}, {"login", "l", false},
	{"interactive", "inter", false}, {"settingsfile", "settings", true}, {"custompipename", "cus", true},
	{"help", "h", false}, {"?", "?", false}, {"noprofileloadtime", "noprofilel", false},
	{"encodedarguments", "encodeda", true},
}

// aliases are abbreviations that a prefix does not explain.
var aliases = map[string]string{"ec": "encodedcommand", "enc": "encodedcommand", "ep": "executionpolicy",
	"wd": "workingdirectory", "exec": "executionpolicy"}

// UsageError is an invalid command line. Its exit code is 64 in
// PowerShell 7 and -196608 (0xFFFD0000) in 5.1.
type UsageError struct{ Msg string }

func (e *UsageError) Error() string { return e.Msg }

// ParseArgs reads a command line without the program's name. name decides the
// edition and the meaning of a first plain argument: a command for powershell.exe,
// a file for pwsh.exe.
func ParseArgs(name string, args []string) (*Options, error) {
	o := &Options{}
	base := strings.TrimSuffix(strings.ToLower(interp.LeafPath(name)), ".exe")
	if base == "pwsh" {
		o.Edition = syntax.Core
	}
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "" {
			continue
		}
		if len(a) < 2 || a[0] != '-' && a[0] != '/' || a[0] == '/' && strings.Contains(a[1:], "/") {
			if a == "-" {
				o.FromStdin, o.HasCommand = true, true
				return o, nil
			}
			o.positional(args[i:])
			return o, nil
		}
		name := strings.ToLower(strings.TrimLeft(a, "-/"))
		opt, ok := findOption(name)
		if !ok {
			if o.Edition == syntax.Core {
				return nil,
					&UsageError{fmt.Sprintf("The argument '%s' is not recognized as the name of a script file. Check "+
						"the spelling of the name, or if a path was included, verify that the path is correct and "+
						"try again.", a)}
			}
			o.positional(args[i:]) // 5.1 treats it as the command
			return o, nil
		}
		val := ""
		if opt.value {
			if i+1 >= len(args) {
				return nil,
					&UsageError{fmt.Sprintf("Cannot process the command because of a missing parameter. A command "+
						"must follow -%s.", opt.name)}
			}
			i++
			val = args[i]
		}
		done, err := o.set(opt.name, val, args, i)
		if err != nil || done {
			return o, err
		}
	}
	return o, nil
}

func findOption(name string) (option, bool) {
	if full, ok := aliases[name]; ok {
		name = full
	}
	for _, o := range options {
		if o.name == name || strings.HasPrefix(o.name, name) && strings.HasPrefix(name, o.short) {
			return o, true
		}
	}
	return option{}, false
}

func (o *Options) positional(rest []string) {
	if o.Edition == syntax.Core {
		o.File, o.FileArgs = rest[0], rest[1:]
		return
	}
	o.setCommand(rest)
}

func (o *Options) setCommand(rest []string) {
	o.Command, o.HasCommand = strings.Join(rest, " "), true
}

// set applies an option; done is true if the rest of the line belongs to it.
func (o *Options) set(name, val string, args []string, i int) (done bool, err error) {
	switch name {
	case "command":
		if val == "-" {
			o.FromStdin, o.HasCommand = true, true
			return true, nil
		}
		o.setCommand(args[i:])
		return true, nil
	case "file":
		if val == "-" {
			o.FromStdin, o.HasCommand = true, true
			return true, nil
		}
		o.File, o.FileArgs = val, args[i+1:]
		return true, nil
	case "encodedcommand":
		b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(val))
		if err != nil {
			return false, &UsageError{"Cannot process the command because the value specified with -EncodedCommand " +
				"is not properly encoded. The value must be Base64 encoded."}
		}
		o.Command, o.HasCommand, o.Encoded = interp.DecodeUTF16(b, false), true, true
	case "noexit":
		o.NoExit = true
	case "nologo":
		o.NoLogo = true
	case "noninteractive":
		o.NonInter = true
	case "workingdirectory":
		o.Dir = val
	case "help", "?":
		o.Help = true
	case "version":
		if o.Edition == syntax.Core {
			o.Version = true
		}
	}
	return false, nil
}

// Exit codes. Source: about_PowerShell_exe and about_Pwsh, "Parameters".
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 64
	// exitUsageDesktop is 5.1's, as an int32.
	exitUsageDesktop = -196608
)

// Main runs a command line and returns the exit code. dir is the current
// directory. A signal on interrupts (Ctrl+C) ends the running command: at a
// prompt the session goes on.
func Main(ctx context.Context, interrupts <-chan os.Signal, name string, args []string, h host.Handlers, windows,
	terminal bool, dir string) int {
	// pwsh -v and -Version have no value.
	o, err := ParseArgs(name, args)
	var ue *UsageError
	if errors.As(err, &ue) && strings.Contains(ue.Msg, "-version") {
		o, err = &Options{Edition: syntax.Core, Version: true}, nil
	}
	if err != nil {
		fmt.Fprintln(h.Stderr, err)
		if strings.HasPrefix(strings.ToLower(interp.LeafPath(name)), "pwsh") {
			return exitUsage
		}
		return exitUsageDesktop
	}
	o.Interactive = terminal && !o.NonInter
	if o.Help {
		_, err := io.WriteString(h.Stdout, usage)
		return exitOf(err)
	}
	if o.Version {
		_, err := io.WriteString(h.Stdout, "PowerShell 7.4.6\n")
		return exitOf(err)
	}
	if o.Dir != "" {
		dir = o.Dir
	}
	version := ""
	if h.System != nil && o.Edition == syntax.Desktop {
		if p := strings.Split(h.System.OSVersion(), "."); len(p) >= 3 {
			rev := "0"
			if len(p) > 3 {
				rev = p[3]
			}
			version = "5.1." + p[2] + "." + rev
		}
	}
	r, err := interp.New(interp.Config{
		Handlers: h,
		Library:  cmdlet.Library(),
		Edition:  o.Edition,
		Windows:  windows,
		Dir:      dir,
		Version:  version,
	})
	if err != nil {
		fmt.Fprintln(h.Stderr, err)
		return exitError
	}
	defer r.Close()
	c := &session{r: r, o: o, in: bufio.NewReader(h.Stdin), interrupts: interrupts}
	return c.run(ctx)
}

func exitOf(err error) int {
	if err != nil {
		return exitError
	}
	return exitOK
}

const usage = `PowerShell[.exe] [-NoLogo] [-NoExit] [-NoProfile] [-NonInteractive] [-ExecutionPolicy <policy>]
    [-WindowStyle <style>] [-InputFormat {Text | XML}] [-OutputFormat {Text | XML}]
    [-EncodedCommand <Base64EncodedCommand>]
    [-File - | <filePath> <args>]
    [-Command { - | <script-block> [-args <arg-array>] | <string> [<CommandParameters>] } ]

This is mullion's interpreter of a PowerShell subset: docs/fidelity/pwsh.md lists what differs.
`

type session struct {
	r          *interp.Runner
	o          *Options
	in         *bufio.Reader
	interrupts <-chan os.Signal
}

// interruptible calls f with a context that an interrupt ends.
func (c *session) interruptible(ctx context.Context, f func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-c.interrupts:
			cancel()
		case <-done:
		}
	}()
	f(ctx)
	close(done)
	<-watched
	cancel()
}

func (c *session) run(ctx context.Context) (code int) {
	if !c.o.FromStdin && !c.o.HasCommand && c.o.File == "" {
		return c.prompt(ctx, c.o.Interactive)
	}
	prompt := false
	c.interruptible(ctx, func(ctx context.Context) { code, prompt = c.runArgs(ctx) })
	if prompt {
		return c.prompt(ctx, true)
	}
	return code
}

// runArgs runs the command or file of the command line. prompt: the session goes
// on with a prompt (-NoExit).
func (c *session) runArgs(ctx context.Context) (code int, prompt bool) {
	switch {
	case c.o.FromStdin:
		return c.stdin(ctx), false
	case c.o.HasCommand:
		res, err := c.r.RunText(ctx, "", c.o.Command)
		if c.o.NoExit && !res.Exited && err == nil {
			return exitOK, true
		}
		return c.exit(res, err), false
	}
	return c.file(ctx)
}

// exit returns the program's exit code. For -Command it is the argument of exit,
// else 1 if the last command failed.
func (c *session) exit(res interp.Result, err error) int {
	switch {
	case err != nil && !errors.Is(err, context.Canceled):
		fmt.Fprintln(c.r.Handlers().Stderr, err)
		return exitError
	case err != nil:
		return exitError
	case res.Exited:
		return res.Exit
	case res.Failed, !res.OK:
		return exitError
	}
	return exitOK
}

func (c *session) file(ctx context.Context) (code int, prompt bool) {
	f := c.o.File
	full := c.r.Path(f)
	if !c.r.Exists(full) {
		if c.o.Edition == syntax.Core && !strings.HasSuffix(strings.ToLower(f), ".ps1") {
			fmt.Fprintf(c.r.Handlers().Stderr, "The argument '%s' is not recognized as the name of a script file. "+
				"Check the spelling of the name, or if a path was included, verify that the path is correct and try "+
				"again.\n", f)
			return exitUsage, false
		}
		fmt.Fprintf(c.r.Handlers().Stderr, "The argument '%s' to the -File parameter does not exist. Provide the "+
			"path to an existing '.ps1' file as an argument to the -File parameter.\n", f)
		return exitUsageOr(c.o), false
	}
	if !strings.HasSuffix(strings.ToLower(full), ".ps1") && c.o.Edition == syntax.Desktop {
		fmt.Fprintf(c.r.Handlers().Stderr, "Processing -File '%s' failed because the file does not have a '.ps1' "+
			"extension. Specify a valid PowerShell script file name, and then try again.\n", f)
		return exitUsageOr(c.o), false
	}
	c.r.ResetExit()
	res, err := c.r.RunScriptFile(ctx, full, c.o.FileArgs)
	if c.o.NoExit && !res.Exited && err == nil {
		return exitOK, true
	}
	if err == nil && !res.Exited && !res.Failed {
		return exitOK, false // -File: without exit the code is 0
	}
	return c.exit(res, err), false
}

func exitUsageOr(o *Options) int {
	if o.Edition == syntax.Core {
		return exitUsage
	}
	return exitUsageDesktop
}

// stdin is -Command -: each complete statement of the input is run as it is
// read; the last statement determines the exit code.
func (c *session) stdin(ctx context.Context) int {
	last := exitOK
	var text strings.Builder
	for {
		line, rerr := c.in.ReadString('\n')
		text.WriteString(line)
		src := text.String()
		if rerr == nil && c.incomplete(src) {
			continue
		}
		if strings.TrimSpace(src) != "" {
			res, err := c.r.RunText(ctx, "", src)
			last = c.exit(res, err)
			if res.Exited || err != nil {
				return last
			}
		}
		text.Reset()
		if rerr != nil {
			return last
		}
	}
}

func (c *session) incomplete(text string) bool {
	_, err := syntax.Parse(&syntax.Source{Text: text}, c.o.Edition)
	var pe *syntax.Error
	return errors.As(err, &pe) && pe.Incomplete
}

// interruptWait is how long the news of Ctrl+C may come after the end of the
// read that it cut off: two threads of the system bring them.
const interruptWait = time.Second

// interrupted reports whether Ctrl+C ended a read from a console.
func (c *session) interrupted(interactive bool) bool {
	if !interactive {
		return false
	}
	select {
	case <-c.interrupts:
		return true
	case <-time.After(interruptWait):
		return false
	}
}

// readLine reads a line of a prompt.
func (c *session) readLine(interactive bool) (string, error) {
	if terminal := c.r.Handlers().Console; interactive && terminal != nil {
		return terminal.ReadLine(complete.NewCycle(c.r).Next)
	}
	return c.in.ReadString('\n')
}

// prompt reads commands from a terminal, or from a pipe without a prompt's
// decoration, until the input ends.
func (c *session) prompt(ctx context.Context, interactive bool) int {
	h := c.r.Handlers()
	if interactive && !c.o.NoLogo {
		fmt.Fprintf(h.Stdout, "Windows PowerShell (mullion)\nSee docs/fidelity/pwsh.md for what differs.\n\n")
	}
	var text strings.Builder
	code := exitOK
	for {
		if text.Len() == 0 {
			if _, err := fmt.Fprintf(h.Stdout, "PS %s> ", c.r.Location); err != nil {
				return exitError
			}
		} else if _, err := io.WriteString(h.Stdout, ">> "); err != nil {
			return exitError
		}
		line, rerr := c.readLine(interactive)
		if rerr != nil && c.interrupted(interactive) {
			if _, err := io.WriteString(h.Stdout, "^C\n"); err != nil {
				return exitError
			}
			text.Reset()
			continue
		}
		text.WriteString(line)
		src := text.String()
		// an empty line ends a statement that cannot be completed
		blank := strings.TrimSpace(line) == "" && text.Len() > len(line)
		if rerr == nil && !blank && c.incomplete(src) {
			continue
		}
		if strings.TrimSpace(src) != "" {
			var res interp.Result
			var err error
			c.interruptible(ctx, func(ctx context.Context) { res, err = c.r.RunText(ctx, "", src) })
			switch {
			case res.Exited:
				return res.Exit
			case errors.Is(err, context.Canceled) && ctx.Err() == nil:
				// Interrupted; whatever it had printed, the prompt begins a line.
			case err != nil:
				return c.exit(res, err)
			}
			code = exitOK
		}
		text.Reset()
		if rerr != nil {
			return code
		}
	}
}
