// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

//go:build !windows

package oshost

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/pwsh/host"
)

func handlers(stdin string) (h host.Handlers, out *bytes.Buffer) {
	out = &bytes.Buffer{}
	return New(strings.NewReader(stdin), out, out), out
}

func TestPrograms(t *testing.T) {
	h, out := handlers("typed")
	sh, ok := h.LookPath("sh", "/")
	if !ok {
		t.Fatal("no sh")
	}
	if _, ok := h.LookPath("./sh", filepath.Dir(sh)); !ok {
		t.Error("a path is not looked up in the current directory")
	}
	if _, ok := h.LookPath("no-such-program", "/"); ok {
		t.Error("found no-such-program")
	}
	run := func(p host.Process) (int, error) {
		p.Path, p.Dir, p.Stdout, p.Stderr = sh, t.TempDir(), out, out
		return h.Exec(t.Context(), p)
	}
	code, err := run(host.Process{Args: []string{"-c", "cat; echo to the error stream >&2; exit 3"}})
	if code != 3 || err != nil {
		t.Errorf("exit %d, %v", code, err)
	}
	if _, err := run(host.Process{Args: []string{"-c", "cat"}, Stdin: strings.NewReader(" and piped")}); err != nil {
		t.Error(err)
	}
	if got := out.String(); got != "typedto the error stream\n and piped" {
		t.Errorf("printed %q", got)
	}
	if pid, err := run(host.Process{Args: []string{"-c", "exit 0"}, Detach: true}); pid <= 0 || err != nil {
		t.Errorf("detached: process %d, %v", pid, err)
	}
	_, err = h.Exec(t.Context(), host.Process{Path: "/no/such/program", Stdout: out, Stderr: out})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("start a missing program: %v", err)
	}
	if _, err := h.Exec(t.Context(), host.Process{Path: "/no/such/program", Detach: true}); err == nil {
		t.Error("a missing program was detached")
	}
}

func TestSleep(t *testing.T) {
	h, _ := handlers("")
	if err := h.Sleep(t.Context(), time.Nanosecond); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("sleep after the end of the context: %v", err)
	}
}

func TestFiles(t *testing.T) {
	h, _ := handlers("")
	f := h.Files
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := f.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "file")
	w, err := f.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.OpenFile(dir+"/none", os.O_RDONLY, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open a missing file: %v", err)
	}
	// A link out of a tree is removed with it, what it leads to is not.
	outside := filepath.Join(t.TempDir(), "kept")
	if err := os.WriteFile(outside, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := f.Symlink(outside, link); err != nil {
		t.Fatal(err)
	}
	if to, err := f.Readlink(link); to != outside || err != nil {
		t.Errorf("the link leads to %s, %v", to, err)
	}
	old := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	if err := f.Chtimes(name, old, old); err != nil {
		t.Error(err)
	}
	if fi, err := f.Stat(name); err != nil || !fi.ModTime().Equal(old) {
		t.Errorf("changed at %v, %v", fi.ModTime(), err)
	}
	if fi, err := f.Lstat(link); err != nil || fi.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", fi.Mode(), err)
	}
	if err := f.Rename(name, name+"2"); err != nil {
		t.Error(err)
	}
	if list, err := f.ReadDir(dir); err != nil || len(list) != 2 {
		t.Errorf("%d entries, %v", len(list), err)
	}
	if err := f.Remove(name + "2"); err != nil {
		t.Error(err)
	}
	if err := f.RemoveAll(filepath.Dir(dir)); err != nil {
		t.Error(err)
	}
	if err := f.RemoveAll(filepath.Dir(dir)); err != nil {
		t.Errorf("remove what is gone: %v", err)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("what a link led to is gone: %v", err)
	}
	if f.TempDir() != os.TempDir() || f.Drives()[0] != "/" {
		t.Errorf("temporary directory %s, drives %v", f.TempDir(), f.Drives())
	}
}

func TestEnvironment(t *testing.T) {
	h, _ := handlers("")
	t.Setenv("OSHOST_TEST", "before")
	if err := h.Env.Set("OSHOST_TEST", "after"); err != nil {
		t.Fatal(err)
	}
	if v, ok := h.Env.Get("OSHOST_TEST"); v != "after" || !ok {
		t.Errorf("got %q, %t", v, ok)
	}
	if !strings.Contains(strings.Join(h.Env.List(), "\n"), "OSHOST_TEST=after") {
		t.Error("the list lacks the variable")
	}
	if err := h.Env.Unset("OSHOST_TEST"); err != nil {
		t.Fatal(err)
	}
	if _, ok := h.Env.Get("OSHOST_TEST"); ok {
		t.Error("still set")
	}
}

// TestNetwork connects over loopback. Names are asked for with a context that
// has ended, so that nothing leaves the machine.
func TestNetwork(t *testing.T) {
	h, _ := handlers("")
	l, err := h.Net.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := h.Net.Dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close() // nothing was written
	if _, err := h.Net.Listen(t.Context(), "tcp", l.Addr().String()); err == nil {
		t.Error("two listeners on one port")
	}
	adapters, err := h.Net.Adapters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	loopback := false
	for _, a := range adapters {
		if a.Loopback {
			loopback = len(a.Addresses) > 0 && a.Addresses[0].Addr().IsLoopback()
		}
	}
	if !loopback {
		t.Errorf("no loopback interface with its address: %+v", adapters)
	}
	routes, err := h.Net.Routes(t.Context())
	if err != nil {
		t.Error(err)
	}
	for _, r := range routes {
		if !r.Destination.IsValid() || r.Alias == "" || r.Interface == 0 {
			t.Errorf("route %+v", r)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for what, err := range map[string]error{
		"host":    second(h.Net.LookupHost(ended, "mullion.invalid")),
		"address": second(h.Net.LookupAddr(ended, "192.0.2.1")),
		"CNAME":   second(h.Net.LookupCNAME(ended, "mullion.invalid")),
		"TXT":     second(h.Net.LookupTXT(ended, "mullion.invalid")),
		"SRV":     second(h.Net.LookupSRV(ended, "mullion.invalid")),
		"MX":      second(h.Net.LookupMX(ended, "mullion.invalid")),
		"NS":      second(h.Net.LookupNS(ended, "mullion.invalid")),
		// Only Windows' network can be changed.
		"add route":    h.Net.AddRoute(t.Context(), host.Route{}),
		"delete route": h.Net.DeleteRoute(t.Context(), host.Route{}),
		"forwarding":   h.Net.SetIPInterface(t.Context(), host.IPInterfaceChange{Index: 1}),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestNameServers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	const text = "# nameserver 192.0.2.9\nsearch x\nnameserver 192.0.2.1\nnameserver bad\nnameserver 2001:db8::1\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	got := nameServers(file)
	if len(got) != 2 || got[0] != netip.MustParseAddr("192.0.2.1") || got[1] != netip.MustParseAddr("2001:db8::1") {
		t.Errorf("got %v", got)
	}
	if nameServers(file+"x") != nil {
		t.Error("servers of a file that does not exist")
	}
	if a := hexAddr("0100007F"); a.String() != "127.0.0.1" {
		t.Errorf("0100007F is %s", a)
	}
	if a := hexAddr("xyz"); !a.IsUnspecified() {
		t.Errorf("xyz is %s", a)
	}
}

func TestSystem(t *testing.T) {
	h, _ := handlers("")
	s := h.System
	if s.PID() != os.Getpid() || s.ProcessorCount() < 1 || strings.Count(s.OSVersion(), ".") < 2 {
		t.Errorf("process %d, %d processors, version %s", s.PID(), s.ProcessorCount(), s.OSVersion())
	}
	if s.Hostname() == "" || s.UserName() == "" || s.HomeDir() == "" {
		t.Errorf("host %q, user %q, home %q", s.Hostname(), s.UserName(), s.HomeDir())
	}
	if total, free := s.Memory(); free <= 0 || total <= free {
		t.Errorf("memory: %d bytes, %d free", total, free)
	}
	if b := s.BootTime(); b.IsZero() || b.After(time.Now()) {
		t.Errorf("booted at %v", b)
	}
	if _, _, ok := s.ConsoleSize(); ok {
		t.Error("a console without a terminal")
	}
	if _, err := s.Identity(); err == nil {
		t.Error("a Windows account")
	}
	if _, err := s.Services(t.Context()); err == nil {
		t.Error("Windows services")
	}
	if s.ControlService(t.Context(), "x", "start") == nil {
		t.Error("a service was started")
	}
	if h.Registry != nil {
		t.Error("a registry")
	}
}

func TestProcesses(t *testing.T) {
	h, _ := handlers("")
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended already
		_ = cmd.Wait()
	})
	list, err := h.System.Processes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, p := range list {
		if p.ID == cmd.Process.Pid {
			found = true
			if p.Parent != os.Getpid() || p.Name != "sleep" {
				t.Errorf("process %+v", p)
			}
		}
	}
	if !found {
		t.Errorf("the list of %d processes lacks %d", len(list), cmd.Process.Pid)
	}
	if err := h.System.Kill(t.Context(), cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the process ended by itself")
	}
}

func TestAddGateways(t *testing.T) {
	hop := netip.MustParseAddr("fd00::2")
	list := []host.Adapter{{Index: 1}, {Index: 2, Gateways: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}}
	route := host.Route{Interface: 2, Destination: netip.MustParsePrefix("::/0"), NextHop: hop}
	addGateways(list, []host.Route{route, route,
		{Interface: 1, Destination: netip.MustParsePrefix("fd01::/64"), NextHop: hop},
		{Interface: 1, Destination: netip.MustParsePrefix("::/0"), NextHop: netip.IPv6Unspecified()}})
	if len(list[0].Gateways) != 0 || len(list[1].Gateways) != 2 || list[1].Gateways[1] != hop {
		t.Errorf("gateways %v and %v", list[0].Gateways, list[1].Gateways)
	}
}
