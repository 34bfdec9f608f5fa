// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package oshost implements package host with the machine that the program runs
// on. The registry, services and changes of routes exist on Windows (and under
// Wine) only; elsewhere commands that need them report an error.
package oshost

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/pwsh/host"
)

// New returns the handlers of this machine with the given standard streams.
func New(stdin io.Reader, stdout, stderr io.Writer) host.Handlers {
	return host.Handlers{
		Stdin:    stdin,
		Stdout:   stdout,
		Stderr:   stderr,
		Console:  newConsole(stdin, stdout),
		Exec:     runProgram(stdin),
		LookPath: lookPath,
		Files:    files{},
		Net:      network{},
		Env:      environment{},
		System:   system{started: time.Now()},
		Registry: newRegistry(), Security: newSecurity(),
		Now:   time.Now,
		Sleep: sleep,
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func runProgram(stdin io.Reader) func(context.Context, host.Process) (int, error) {
	return func(ctx context.Context, p host.Process) (int, error) {
		if p.Detach {
			ctx = context.WithoutCancel(ctx)
		}
		cmd := exec.CommandContext(ctx, p.Path, p.Args...)
		prepare(cmd, p)
		cmd.Dir, cmd.Stdout, cmd.Stderr = p.Dir, p.Stdout, p.Stderr
		cmd.Stdin = p.Stdin
		if p.Stdin == nil && !p.Detach {
			cmd.Stdin = stdin
		}
		cmd.WaitDelay = time.Second // a grandchild may keep the pipes open
		if p.Detach {
			cmd.Stdout, cmd.Stderr = nil, nil
			if err := cmd.Start(); err != nil {
				return 0, err
			}
			pid := cmd.Process.Pid
			return pid, cmd.Process.Release()
		}
		err := cmd.Run()
		var ee *exec.ExitError
		if errors.As(err, &ee) || errors.Is(err, exec.ErrWaitDelay) {
			return cmd.ProcessState.ExitCode(), nil
		}
		return 0, err
	}
}

// lookPath finds a program in dir (when a path is written) or in PATH.
// PowerShell, unlike cmd.exe, does not search the current directory.
func lookPath(name, dir string) (string, bool) {
	if strings.ContainsAny(name, `/\`) && !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	p, err := exec.LookPath(name)
	if err != nil {
		return "", false
	}
	return p, true
}

type files struct{}

func (files) OpenFile(name string, flag int, perm fs.FileMode) (host.File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return f, nil
}
func (files) Stat(name string) (fs.FileInfo, error)        { return os.Stat(name) }
func (files) Lstat(name string) (fs.FileInfo, error)       { return os.Lstat(name) }
func (files) ReadDir(name string) ([]fs.DirEntry, error)   { return os.ReadDir(name) }
func (files) MkdirAll(name string, perm fs.FileMode) error { return os.MkdirAll(name, perm) }
func (files) Remove(name string) error                     { return os.Remove(name) }
func (files) RemoveAll(name string) error                  { return os.RemoveAll(name) }
func (files) Rename(from, to string) error                 { return os.Rename(from, to) }
func (files) Symlink(target, name string) error            { return os.Symlink(target, name) }
func (files) Readlink(name string) (string, error)         { return os.Readlink(name) }
func (files) Chtimes(name string, a, m time.Time) error    { return os.Chtimes(name, a, m) }
func (files) TempDir() string                              { return os.TempDir() }
func (files) Drives() []string                             { return drives() }

type environment struct{}

func (environment) Get(name string) (string, bool) { return os.LookupEnv(name) }
func (environment) Set(name, value string) error   { return os.Setenv(name, value) }
func (environment) Unset(name string) error        { return os.Unsetenv(name) }
func (environment) List() []string                 { return os.Environ() }

type network struct{ resolver }

func (network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

func (network) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, network, address)
	if err != nil && network == "tcp" {
		// A machine without IPv6 cannot open the dual-stack wildcard.
		if l4, err4 := lc.Listen(ctx, "tcp4", address); err4 == nil {
			return l4, nil
		}
	}
	return l, err
}

// resolver is the system's own if r is nil.
type resolver struct{ r *net.Resolver }

// Server queries one server, with Go's own DNS client.
func (network) Server(server string) host.Resolver {
	return resolver{&net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(server, "53"))
	}}}
}

func (x resolver) LookupHost(ctx context.Context, name string) ([]netip.Addr, error) {
	return x.r.LookupNetIP(ctx, "ip", name)
}
func (x resolver) LookupAddr(ctx context.Context, addr string) ([]string, error) {
	return x.r.LookupAddr(ctx, addr)
}
func (x resolver) LookupCNAME(ctx context.Context, name string) (string, error) {
	return x.r.LookupCNAME(ctx, name)
}
func (x resolver) LookupTXT(ctx context.Context, name string) ([]string, error) {
	return x.r.LookupTXT(ctx, name)
}
func (x resolver) LookupSRV(ctx context.Context, name string) ([]*net.SRV, error) {
	_, list, err := x.r.LookupSRV(ctx, "", "", name)
	return list, err
}
func (x resolver) LookupMX(ctx context.Context, name string) ([]*net.MX, error) {
	return x.r.LookupMX(ctx, name)
}
func (x resolver) LookupNS(ctx context.Context, name string) ([]*net.NS, error) {
	return x.r.LookupNS(ctx, name)
}

// defaultSpeed is the speed that a virtual adapter of Hyper-V reports, in bits per second.
const defaultSpeed = 10_000_000_000

type system struct{ started time.Time }

func (system) PID() int            { return os.Getpid() }
func (system) ProcessorCount() int { return runtime.NumCPU() }
func (system) Hostname() string {
	h, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return h
}
func (system) HomeDir() string {
	h, err := os.UserHomeDir()
	if err != nil {
		return os.TempDir()
	}
	return h
}
