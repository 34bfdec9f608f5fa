// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package winbox holds the small Windows programs of the stand-in images: programs
// that guides, probes and hooks call, and that Wine lacks or has as a stub. They
// are one executable, which selects the program by the name it was started under,
// and they are plain portable Go, so that their tests run anywhere.
//
// Their output follows Windows' own, in English, as far as programs read it.
// docs/fidelity/images.md lists the omissions of each.
package winbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/pwsh/host"
)

// Env is the environment that a tool runs in.
type Env struct {
	Args           []string // without the program's name
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Host           host.Handlers // the machine, as PowerShell's cmdlets read and change it
	System         System
	Console        bool // standard input is a console
}

// printf writes to standard output with Windows' line endings. Write errors are
// ignored: a broken pipe means that there is no reader to report them to.
func (e *Env) printf(format string, args ...any) {
	_, _ = io.WriteString(e.Stdout, crlf(fmt.Sprintf(format, args...)))
}

func (e *Env) errorf(format string, args ...any) {
	_, _ = io.WriteString(e.Stderr, crlf(fmt.Sprintf(format, args...)))
}

func crlf(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}

// System is the part of the operating system that only tools here query.
type System interface {
	// SearchList returns the DNS suffixes of the resolver, or nil if it has none.
	SearchList() []string
	// Echo sends one ICMP echo request and waits for the reply.
	Echo(ctx context.Context, to netip.Addr, size int, ttl int, wait time.Duration) (EchoReply, error)
	hnsCaller
}

// registryText reads a text from the registry, or returns "" if there is none.
func (e *Env) registryText(key, name string) string {
	if e.Host.Registry == nil {
		return ""
	}
	values, err := e.Host.Registry.Values(key)
	if err != nil {
		return ""
	}
	for _, v := range values {
		if text, ok := v.Data.(string); ok && strings.EqualFold(v.Name, name) {
			return text
		}
	}
	return ""
}

// EchoReply is a reply to an ICMP echo request.
type EchoReply struct {
	From netip.Addr
	Time time.Duration
	TTL  int
}

// Tool is one program.
type Tool struct {
	Name string // "ping", without .exe
	Run  func(ctx context.Context, env *Env) int
}

// Tools lists all programs.
func Tools() []Tool {
	return []Tool{
		{"curl", curlTool},
		{"find", find},
		{"findstr", findstr},
		{"hnsdiag", hnsdiag},
		{"hostname", hostname},
		{"icacls", icacls},
		{"inetsrv", inetsrv},
		{"ipconfig", ipconfig},
		{"net", netCommand},
		{"net1", netCommand},
		{"netsh", netsh},
		{"nltest", nltest},
		{"nslookup", nslookup},
		{"pause", pause},
		{"ping", ping},
		{"redis-cli", redisCLI},
		{"redis-server", redisServer},
		{"route", route},
		{"servicemonitor", serviceMonitor},
		{"systeminfo", systeminfo},
		{"tasklist", tasklist},
		{"tar", tarTool},
		{"timeout", timeout},
		{"w3wp", inetsrv},
		{"where", where},
		{"whoami", whoami},
	}
}

// ErrInterrupted is the cause of a context that Ctrl+C has ended.
var ErrInterrupted = errors.New("interrupted")

// Run runs the program that argv names: by the name of the executable or, if
// that is winbox itself, by the first argument. It returns the exit code.
func Run(ctx context.Context, argv []string, env *Env) int {
	name, args := "winbox", []string(nil)
	if len(argv) > 0 {
		name, args = programName(argv[0]), argv[1:]
	}
	if name == "winbox" {
		if len(args) == 0 {
			env.errorf("usage: winbox PROGRAM [ARGUMENT...]\nprograms:%s\n", names())
			return 1
		}
		name, args = programName(args[0]), args[1:]
	}
	i := slices.IndexFunc(Tools(), func(t Tool) bool { return t.Name == name })
	if i < 0 {
		env.errorf("winbox: no program %q; programs:%s\n", name, names())
		return 1
	}
	env.Args = args
	return Tools()[i].Run(ctx, env)
}

func programName(arg string) string {
	name := path.Base(strings.ReplaceAll(arg, `\`, "/"))
	name = strings.ToLower(name)
	return strings.TrimSuffix(name, ".exe")
}

func names() string {
	var b strings.Builder
	for _, t := range Tools() {
		b.WriteString(" " + t.Name)
	}
	return b.String()
}
