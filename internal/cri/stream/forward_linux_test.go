// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package stream

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestDialLeavesNoThread: many connections into a pod, and afterwards no thread
// of the process is in the pod's network: neither the first, by which others
// find the process's namespaces, nor one that serves other goroutines.
func TestDialLeavesNoThread(t *testing.T) {
	testenv.Need(t, testenv.Root)
	netns := filepath.Join(t.TempDir(), "ns")
	var l net.Listener
	if err := kernel.CreateNamespace(netns, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kernel.DeleteNamespace(netns); err != nil {
			t.Error(err)
		}
	})
	if err := kernel.Do(netns, func() (err error) {
		l, err = net.Listen("tcp", "127.0.0.1:0")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // nobody connects any more
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			_ = conn.Close()
		}
	}()
	_, text, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 300 {
		wg.Go(func() {
			conn, err := Dial(t.Context(), netns, nil, int32(port))
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
	if conn, err := Dial(t.Context(), filepath.Join(t.TempDir(), "none"), nil, int32(port)); err == nil {
		_ = conn.Close()
		t.Error("connected in a namespace that does not exist")
	}
}
