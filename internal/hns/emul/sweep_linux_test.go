// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package emul

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/mullion-k8s/mullion/internal/netplane/apply"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// sweepDir makes the test a program that makes and deletes namespaces below that
// directory until it is killed.
const sweepDir = "MULLION_TEST_HNS_SWEEP"

// openReal opens a store with the data plane of Linux.
func openReal(t *testing.T, dir string) *Service {
	t.Helper()
	plane, err := apply.New(apply.Config{NetnsDir: filepath.Join(dir, "namespaces"), Netns: filepath.Join(dir, "host")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plane.Close)
	return openTest(t, filepath.Join(dir, "store"), func(c *Config) {
		c.DataPlane, c.Log = plane, slog.New(slog.DiscardHandler)
	})
}

func makeNamespaces(t *testing.T, dir string) {
	s := openReal(t, dir)
	for i := 0; ; i++ {
		id, err := s.CreateNamespace(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(id)
		if i%3 == 0 {
			if err := s.DeleteNamespace(context.Background(), id); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestNamespacesAfterKill kills a process while it makes namespaces. The next
// one finds exactly those in the kernel that the store knows, also if a power
// cut has taken the end of the journal.
func TestNamespacesAfterKill(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Nft)
	if dir := os.Getenv(sweepDir); dir != "" {
		makeNamespaces(t, dir)
	}
	dir := newRealHost(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := openReal(t, dir)
	if _, err := s.CreateNamespace(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	store, old := filepath.Join(dir, "store"), filepath.Join(dir, "store-before")
	if err := os.CopyFS(old, os.DirFS(store)); err != nil {
		t.Fatal(err)
	}
	for round := range 6 {
		killMaker(t, exec.Command(exe, "-test.run", "^TestNamespacesAfterKill$"), dir, 3+5*round)
		lost := round%2 == 1
		if lost { // all of the child's records
			if err := os.RemoveAll(store); err != nil {
				t.Fatal(err)
			}
			if err := os.CopyFS(store, os.DirFS(old)); err != nil {
				t.Fatal(err)
			}
		}
		s := openReal(t, dir)
		want := s.Namespaces()
		for i, id := range want {
			want[i] = strings.ToLower(id)
			if !kernel.IsNamespace(s.NamespacePath(id)) {
				t.Errorf("round %d: %s has no compartment", round, id)
			}
		}
		if lost && len(want) != 1 {
			t.Errorf("round %d: the store knows %v", round, want)
		}
		have := files(t, filepath.Join(dir, "namespaces"))
		slices.Sort(want)
		if !slices.Equal(have, want) {
			t.Errorf("round %d: there are %v, the store knows %v", round, have, want)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// newRealHost makes a directory with the network namespace of a host.
func newRealHost(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		paths := []string{filepath.Join(dir, "host")}
		for _, name := range files(t, filepath.Join(dir, "namespaces")) {
			paths = append(paths, filepath.Join(dir, "namespaces", name))
		}
		for _, path := range paths {
			if err := kernel.DeleteNamespace(path); err != nil {
				t.Error(err)
			}
		}
	})
	if err := kernel.CreateNamespace(filepath.Join(dir, "host"), nil); err != nil {
		t.Fatal(err)
	}
	space, err := kernel.Open(filepath.Join(dir, "host"))
	if err != nil {
		t.Fatal(err)
	}
	defer space.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "eth0"
	uplink := &netlink.Bridge{LinkAttrs: attrs}
	if err := space.Netlink.LinkAdd(uplink); err != nil {
		t.Fatal(err)
	}
	if err := space.AddAddresses(uplink, []netip.Prefix{netip.MustParsePrefix("10.89.0.11/24")}, false); err != nil {
		t.Fatal(err)
	}
	return dir
}

// killMaker lets the program make that many namespaces and kills it.
func killMaker(t *testing.T, cmd *exec.Cmd, dir string, n int) {
	t.Helper()
	cmd.Env = append(os.Environ(), sweepDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for range n {
		if !lines.Scan() {
			break
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	said := lines.Text()
	for lines.Scan() {
		said = lines.Text()
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Exited() {
		t.Fatalf("the program ended by itself: %s", said)
	}
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		names = append(names, f.Name())
	}
	return names
}
