// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package kernel

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

func newNamespace(t *testing.T) string {
	t.Helper()
	testenv.Need(t, testenv.Root)
	path := filepath.Join(t.TempDir(), "a", "ns")
	if err := CreateNamespace(path, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := DeleteNamespace(path); err != nil {
			t.Error(err)
		}
	})
	return path
}

func TestCreateNamespaceUndoes(t *testing.T) {
	testenv.Need(t, testenv.Root)
	path := filepath.Join(t.TempDir(), "ns")
	cause := errors.New("set-up went wrong")
	if err := CreateNamespace(path, func() error { return cause }); !errors.Is(err, cause) {
		t.Fatalf("got %v, want %v", err, cause)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the file was left behind")
	}
}

// TestCreateNamespaceFollowsNoLink: who can write to the directory must not
// make us mount over another file.
func TestCreateNamespaceFollowsNoLink(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir := t.TempDir()
	victim, link := filepath.Join(dir, "victim"), filepath.Join(dir, "link")
	if err := os.WriteFile(victim, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, link); err != nil {
		t.Fatal(err)
	}
	if err := CreateNamespace(link, nil); err == nil {
		t.Error("a symbolic link was followed")
	}
	if IsNamespace(victim) {
		t.Error("mounted over the link's target")
	}
}

// TestDoStaysInside: the work happens in the namespace, and no goroutine of the
// process ever finds itself there afterwards.
func TestDoStaysInside(t *testing.T) {
	path := newNamespace(t)
	own, err := os.Readlink(ownNamespace)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			var inside string
			if err := s.Do(func() (err error) {
				inside, err = os.Readlink(ownNamespace)
				return err
			}); err != nil || inside == own {
				t.Errorf("worked in %s (own: %s), %v", inside, own, err)
			}
			if here, err := os.Readlink(ownNamespace); err != nil || here != own {
				t.Errorf("is in %s afterwards (own: %s), %v", here, own, err)
			}
		})
	}
	wg.Wait()
	// The first thread, by which others find our namespaces, above all.
	if now, err := os.Readlink("/proc/self/ns/net"); err != nil || now != own {
		t.Errorf("the process is in %s afterwards (before: %s), %v", now, own, err)
	}
}

func TestLinksAndRoutes(t *testing.T) {
	s, err := Open(newNamespace(t))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if l, err := s.FindLink("none"); l != nil || err != nil {
		t.Errorf("a link that does not exist: %v, %v", l, err)
	}
	if err := s.DeleteLink("none"); err != nil {
		t.Errorf("delete a link that does not exist: %v", err)
	}
	lo, err := s.FindLink("lo")
	if err != nil || lo == nil {
		t.Fatalf("loopback: %v", err)
	}
	a, b := netip.MustParsePrefix("10.1.0.1/32"), netip.MustParsePrefix("10.1.0.2/24")
	for range 2 {
		if err := s.AddAddresses(lo, []netip.Prefix{a, b}, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.KeepAddresses(lo, []netip.Prefix{b}); err != nil {
		t.Fatal(err)
	}
	if have, err := s.addresses(lo); err != nil || len(have) != 1 || have[0] != b {
		t.Errorf("addresses are %v, %v; want %s", have, err, b)
	}
	to := netip.MustParsePrefix("10.2.0.0/16")
	for _, r := range []Route{{Destination: to}, {Destination: to, LinkIndex: lo.Attrs().Index}} {
		if err := s.ReplaceRoute(r); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := s.DeleteRoute(to, 0); err != nil {
			t.Fatal(err)
		}
	}
	if routes, err := s.routes(); err != nil || len(routes) != 0 {
		t.Errorf("routes are left: %v, %v", routes, err)
	}
	if err := s.ReplaceRoute(Route{Destination: to, LinkIndex: lo.Attrs().Index,
		NextHop: netip.MustParseAddr("192.0.2.1")}); err == nil ||
		!strings.Contains(err.Error(), "set route to 10.2.0.0/16") {
		t.Errorf("a next hop that is nowhere: %v", err)
	}
}

func TestNftIsAtomic(t *testing.T) {
	testenv.Need(t, testenv.Nft)
	s, err := Open(newNamespace(t))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.Nft(t.Context(), "add table inet x\nadd rule inet x none accept\n")
	if err == nil || !strings.Contains(err.Error(), "No such file or directory") {
		t.Fatalf("a rule in a chain that does not exist: %v", err)
	}
	if err := s.Nft(t.Context(), "delete table inet x\n"); err == nil {
		t.Error("half of a script was applied")
	}
}
