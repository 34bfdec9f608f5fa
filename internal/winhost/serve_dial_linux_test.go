// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mullion-k8s/mullion/internal/netplane/netlab"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

func TestMachineFiles(t *testing.T) {
	if got := nameservers("# x\nnameserver 10.0.0.1\nsearch a\nnameserver\nnameserver\t::1 # y\n"); !slices.Equal(got,
		[]string{"10.0.0.1", "::1"}) {
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
	netns := netlab.Namespace(t, filepath.Join(dir, "ns"))
	const port = "1009"
	netlab.Serve(t, netns, "server", "tcp", netip.MustParseAddrPort("127.0.0.1:"+port))
	if conn, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
		_ = conn.Close()
		t.Fatal("the server can be reached from here: the test proves nothing")
	}
	if err := os.WriteFile(filepath.Join(dir, "hosts"), []byte("127.0.0.1 registry.test\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	d := &machineDialer{netns: netns, dir: dir}
	for _, host := range []string{"127.0.0.1", "registry.test", "localhost"} {
		conn, err := d.dialContext(t.Context(), "tcp", net.JoinHostPort(host, port))
		if err != nil {
			t.Errorf("%s: %v", host, err)
			continue
		}
		_ = conn.Close()
	}
	if _, err := d.dialContext(t.Context(), "tcp", net.JoinHostPort("nowhere.test", port)); err == nil {
		t.Error("an unknown name was resolved")
	}
	netlab.LeavesNoThread(t, func() (net.Conn, error) { return d.dialContext(t.Context(), "tcp", "127.0.0.1:"+port) })
}
