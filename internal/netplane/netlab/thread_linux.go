// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netlab

import (
	"net"
	"os"
	"sync"
	"testing"
)

// LeavesNoThread connects many times by dial, which enters another network
// namespace, and checks that afterwards no thread of the process is there:
// neither the first, by which others find the process's namespaces, nor one that
// serves other goroutines.
func LeavesNoThread(t testing.TB, dial func() (net.Conn, error)) {
	t.Helper()
	own, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 300 {
		wg.Go(func() {
			conn, err := dial()
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
