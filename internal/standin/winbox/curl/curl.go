// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package curl is curl.exe of the stand-in images: the command line of curl 8.13,
// which Windows ships, for HTTP, HTTPS and file URLs. Options and their meaning
// are those of curl's manual (curl.se/docs/manpage.html), messages and exit codes
// those of its source (src/tool_*.c, lib/strerror.c). The table in options.go
// names every option; those that are not implemented are refused with the text
// and exit code of a curl that was built without them.
package curl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Exit codes: curl.se/libcurl/c/libcurl-errors.html.
const (
	exitUnsupported    = 1
	exitFailedInit     = 2
	exitMalformed      = 3
	exitNoProxy        = 5
	exitNoHost         = 6
	exitNoConnect      = 7
	exitWeirdReply     = 8
	exitPartial        = 18
	exitHTTPError      = 22
	exitWrite          = 23
	exitUpload         = 25
	exitRead           = 26
	exitTimeout        = 28
	exitRange          = 33
	exitTLS            = 35
	exitFileUnreadable = 37
	exitTooManyJumps   = 47
	exitEmptyReply     = 52
	exitReceive        = 56
	exitCertificate    = 58
	exitBadPeer        = 60
	exitEncoding       = 61
	exitFileSize       = 63
	exitBadCAFile      = 77
	exitProxy          = 97
	exitNoAuth         = 94
)

// version is the release of curl that Windows has had since 2025.
const version = "8.13.0"

// Env is the environment that curl runs in.
type Env struct {
	Args           []string // without the program's name
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	// TextMode makes line ends CR LF where curl.exe writes text and no body, as
	// the C library of Windows does.
	TextMode bool
}

// failure is an error with curl's exit code.
type failure struct {
	code int
	text string
	// quiet failures have been reported, or are not: curl exits without a line.
	quiet bool
}

func (f *failure) Error() string { return f.text }

func fail(code int, format string, args ...any) error {
	return &failure{code: code, text: fmt.Sprintf(format, args...)}
}

// codeOf returns the exit code that belongs to an error.
func codeOf(err error) int {
	var f *failure
	switch {
	case err == nil:
		return 0
	case errors.As(err, &f):
		return f.code
	}
	return exitReceive
}

// Run runs curl and returns its exit code.
func Run(ctx context.Context, env Env) int {
	g := &global{env: env, out: &output{w: env.Stdout, text: env.TextMode}, errs: env.Stderr}
	defer g.closeFiles()
	p := &parser{global: g, options: options}
	p.next()
	if len(env.Args) == 0 || !strings.HasPrefix(env.Args[0], "-q") && env.Args[0] != "--disable" {
		p.defaultConfig()
	}
	if len(env.Args) == 0 && len(g.first().nodes) == 0 {
		g.tryHelp()
		return exitFailedInit
	}
	if err := p.args(env.Args); err != nil {
		return p.report(err)
	}
	return g.run(ctx)
}

// run performs the operations, which --next separates, in turn.
func (g *global) run(ctx context.Context) int {
	code := 0
	for _, o := range g.operations {
		if !o.hasURL() {
			g.errorf("(%d) no URL specified", exitFailedInit)
			g.tryHelp()
			return exitFailedInit
		}
		c := g.newClient(o)
		code = c.run(ctx)
		if code != 0 && g.failEarly {
			break
		}
	}
	return code
}

func (g *global) tryHelp() {
	_, _ = fmt.Fprint(g.stderr(), "curl: try 'curl --help' for more information\n")
}

// errorf prints an error of the command line's; curl prints those even if silent.
func (g *global) errorf(format string, args ...any) {
	_, _ = fmt.Fprintf(g.stderr(), "curl: "+format+"\n", args...)
}

// columns is the width that curl wraps its warnings at where it knows no terminal.
const columns = 79

// warnf prints a warning, wrapped as curl wraps it.
func (g *global) warnf(format string, args ...any) { g.wrap("Warning: ", fmt.Sprintf(format, args...)) }

func (g *global) notef(format string, args ...any) { g.wrap("Note: ", fmt.Sprintf(format, args...)) }

func (g *global) wrap(prefix, text string) {
	if g.silent {
		return
	}
	width := columns - len(prefix)
	for len(text) > width {
		cut := strings.LastIndexAny(text[:width], " \t")
		if cut <= 0 {
			cut = width - 1
		}
		_, _ = fmt.Fprintf(g.stderr(), "%s%s\n", prefix, text[:cut+1])
		text = text[cut+1:]
	}
	_, _ = fmt.Fprintf(g.stderr(), "%s%s\n", prefix, text)
}
