// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package winbox holds the small Windows programs of the stand-in images: what
// guides, probes and hooks call, and what Wine lacks or has as a stub. They are
// one executable that goes by the name it was started under, and they are plain
// portable Go, so that their tests run anywhere.
//
// Their output follows Windows' own, in English, as far as programs read it.
// docs/fidelity/images.md lists what each of them leaves out.
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
)

// Env is the environment that a tool runs in.
type Env struct {
	Args           []string // without the program's name
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	System         System
	Console        bool // standard input is a console
}

// printf writes to standard output with Windows' line endings. Write errors are
// ignored: a broken pipe means that no reader is left to tell.
func (e *Env) printf(format string, args ...any) {
	_, _ = io.WriteString(e.Stdout, crlf(fmt.Sprintf(format, args...)))
}

func (e *Env) errorf(format string, args ...any) {
	_, _ = io.WriteString(e.Stderr, crlf(fmt.Sprintf(format, args...)))
}

func crlf(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}

// System is the part of the operating system that tools query.
type System interface {
	// Hostname is the computer's name.
	Hostname() (string, error)
	// Identity is the account that the process runs as.
	Identity() (Identity, error)
	// Network describes the adapters and the name resolution.
	Network() (Network, error)
	// OS is the product and version.
	OS() (OSInfo, error)
	// Echo sends one ICMP echo request and waits for the answer.
	Echo(ctx context.Context, to netip.Addr, size int, ttl int, wait time.Duration) (EchoReply, error)
	// Processes lists the running processes.
	Processes() ([]Process, error)
	routing
	hnsCaller
	// Security is who may do what with a file.
	Security(path string) (Security, error)
	// SetSecurity gives a file the entries that are not inherited.
	SetSecurity(path string, s Security) error
	// SetOwner changes a file's owner to a security identifier.
	SetOwner(path, sid string) error
	// LookupSID finds the security identifier of an account.
	LookupSID(name string) (string, error)
}

// OSInfo holds the values that systeminfo shows.
type OSInfo struct {
	Product string // "Microsoft Windows Server 2019 Datacenter"
	Version string // "10.0.17763"
	Memory  uint64 // physical, bytes
	CPUs    int
}

// Network holds the values that ipconfig shows.
type Network struct {
	Host       string
	Primary    string // primary DNS suffix
	SearchList []string
	Adapters   []Adapter
}

// Adapter is one network adapter.
type Adapter struct {
	Name        string // "vEthernet (Ethernet)"
	Description string
	Suffix      string
	MAC         string // "00-15-5D-01-02-03"
	Addresses   []netip.Prefix
	Gateways    []netip.Addr
	DNS         []netip.Addr
	Zone        int // of link-local addresses: the index of the interface
	DHCP        bool
	Up          bool
}

// EchoReply is an answer to an ICMP echo request.
type EchoReply struct {
	From netip.Addr
	Time time.Duration
	TTL  int
}

// Process is a line of tasklist.
type Process struct {
	Name    string
	PID     int
	Session int
	Memory  uint64 // working set, bytes
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
