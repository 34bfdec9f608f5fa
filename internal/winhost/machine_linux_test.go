// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

func TestMachineFiles(t *testing.T) {
	if got := nameservers("# x\nnameserver 10.0.0.1\nsearch a\nnameserver\nnameserver\t::1 # y\n"); !slices.Equal(got, []string{"10.0.0.1", "::1"}) {
		t.Errorf("%q", got)
	}
	hosts := "127.0.0.1 localhost\n10.0.0.5 Registry.example registry # reg\n#10.0.0.6 registry\n"
	if got := inHosts(hosts, "registry.EXAMPLE"); !slices.Equal(got, []string{"10.0.0.5"}) {
		t.Errorf("%q", got)
	}
	if got := inHosts(hosts, "reg"); got != nil {
		t.Errorf("a name in a comment was found: %q", got)
	}
}

// TestMachineDialer reaches a server that listens in another network namespace,
// by address and by a name of that machine's hosts file.
func TestMachineDialer(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir := t.TempDir()
	netns := filepath.Join(dir, "ns")
	if err := kernel.CreateNamespace(netns, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kernel.DeleteNamespace(netns); err != nil {
			t.Error(err)
		}
	})
	space, err := kernel.Open(netns)
	if err != nil {
		t.Fatal(err)
	}
	defer space.Close()
	var l net.Listener
	if err := space.Do(func() error {
		l, err = net.Listen("tcp", "127.0.0.1:0")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			_ = conn.Close()
		}
	}()
	if conn, err := net.Dial("tcp", l.Addr().String()); err == nil {
		_ = conn.Close()
		t.Fatal("the server can be reached from here: the test proves nothing")
	}
	if err := os.WriteFile(filepath.Join(dir, "hosts"), []byte("127.0.0.1 registry.test\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	d := &MachineDialer{netns: netns, dir: dir}
	for _, host := range []string{"127.0.0.1", "registry.test", "localhost"} {
		conn, err := d.DialContext(t.Context(), "tcp", net.JoinHostPort(host, port))
		if err != nil {
			t.Errorf("%s: %v", host, err)
			continue
		}
		_ = conn.Close()
	}
	if _, err := d.DialContext(t.Context(), "tcp", net.JoinHostPort("nowhere.test", port)); err == nil {
		t.Error("a name that nobody knows was resolved")
	}
	// No thread may stay there, above all not the first one, by which others find
	// the process's namespaces.
	own, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 300 {
		wg.Go(func() {
			conn, err := d.DialContext(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", port))
			if err != nil {
				t.Error(err)
				return
			}
			_ = conn.Close()
			if here, err := os.Readlink("/proc/thread-self/ns/net"); err != nil || here != own {
				t.Errorf("is in %s afterwards, before in %s, %v", here, own, err)
			}
		})
	}
	wg.Wait()
	if first, err := os.Readlink("/proc/self/ns/net"); err != nil || first != own {
		t.Errorf("the process is in %s afterwards, before in %s, %v", first, own, err)
	}
}
