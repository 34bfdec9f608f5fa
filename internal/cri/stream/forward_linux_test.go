// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package stream

import (
	"net"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/mullion-k8s/mullion/internal/netplane/netlab"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestDialLeavesNoThread: after many connections into a pod the process is where
// it was.
func TestDialLeavesNoThread(t *testing.T) {
	testenv.Need(t, testenv.Root)
	netns := netlab.Namespace(t, filepath.Join(t.TempDir(), "ns"))
	server := netip.MustParseAddrPort("127.0.0.1:80")
	netlab.Serve(t, netns, "server", "tcp", server)
	netlab.LeavesNoThread(t, func() (net.Conn, error) { return Dial(t.Context(), netns, nil, int32(server.Port())) })
	if conn, err := Dial(t.Context(), filepath.Join(t.TempDir(), "none"), nil, int32(server.Port())); err == nil {
		_ = conn.Close()
		t.Error("connected in a namespace that does not exist")
	}
}
