// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package curl is curl.exe of the stand-in images: the part of the command line
// of curl 8.13, which Windows ships, that health checks, guides and scripts use,
// for HTTP/1.1 and HTTPS. Options and their meaning follow curl's manual
// (curl.se/docs/manpage.html), messages and exit codes its source
// (src/tool_*.c, lib/strerror.c). options.go names every option of curl; it
// refuses the rest with the text and exit code of a curl built without them.
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
	exitUnsupported  = 1
	exitFailedInit   = 2
	exitMalformed    = 3
	exitNoHost       = 6
	exitNoConnect    = 7
	exitWeirdReply   = 8
	exitPartial      = 18
	exitHTTPError    = 22
	exitWrite        = 23
	exitRead         = 26
	exitTimeout      = 28
	exitTLS          = 35
	exitTooManyJumps = 47
	exitResolveEntry = 49
	exitEmptyReply   = 52
	exitReceive      = 56
	exitBadPeer      = 60
	exitBadCAFile    = 77
)

// version is the release of curl that Windows has had since 2025.
const version = "8.13.0"

// Env is the environment that curl runs in.
type Env struct {
	Args           []string // without the program's name
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// TextMode makes line ends CR LF where curl.exe writes text and no body, as
	// the C library of Windows does.
	TextMode bool
}

// failure is an error with curl's exit code.
type failure struct {
	code    int
	text    string // empty if the message is already printed
	refused bool   // no server listens: --retry-connrefused applies
}

func (f *failure) Error() string { return f.text }

func fail(code int, format string, args ...any) error {
	return &failure{code: code, text: fmt.Sprintf(format, args...)}
}

// codeOf returns the exit code that belongs to an error.
func codeOf(err error) int {
	if err == nil {
		return 0
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	return exitReceive
}

// client is one run of curl.
type client struct {
	env  Env
	out  *output
	opts settings
}

// Run runs curl and returns its exit code.
func Run(ctx context.Context, env Env) int {
	c := &client{env: env, out: &output{w: env.Stdout, text: env.TextMode}, opts: defaults()}
	if len(env.Args) == 0 {
		c.tryHelp()
		return exitFailedInit
	}
	if err := c.args(env.Args); err != nil {
		return c.reportUsage(err)
	}
	if len(c.opts.urls) == 0 {
		c.errorf("(%d) no URL specified", exitFailedInit)
		c.tryHelp()
		return exitFailedInit
	}
	return c.run(ctx)
}

func (c *client) tryHelp() {
	_, _ = io.WriteString(c.env.Stderr, "curl: try 'curl --help' for more information\n")
}

// errorf prints an error of the command line, even if curl is silent.
func (c *client) errorf(format string, args ...any) {
	_, _ = fmt.Fprintf(c.env.Stderr, "curl: "+format+"\n", args...)
}

// report prints a failure of a transfer and returns its exit code.
func (c *client) report(err error) int {
	code := codeOf(err)
	if err == nil || err.Error() == "" || c.opts.silent && !c.opts.showError {
		return code
	}
	c.errorf("(%d) %v", code, err)
	if code == exitBadPeer {
		_, _ = io.WriteString(c.env.Stderr, badPeerHelp)
	}
	return code
}

// columns is the width at which curl wraps its warnings outside a terminal, less
// "Warning: ".
const columns = 79 - 9

// warnf prints a warning, wrapped as curl wraps it.
func (c *client) warnf(format string, args ...any) {
	if c.opts.silent {
		return
	}
	text := fmt.Sprintf(format, args...)
	for len(text) > columns {
		cut := strings.LastIndexAny(text[:columns], " \t")
		if cut <= 0 {
			cut = columns - 1
		}
		_, _ = fmt.Fprintf(c.env.Stderr, "Warning: %s\n", text[:cut+1])
		text = text[cut+1:]
	}
	_, _ = fmt.Fprintf(c.env.Stderr, "Warning: %s\n", text)
}
