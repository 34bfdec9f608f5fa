// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netlab

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/netplane/apply"
	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

// TestConnectionsSurvive: a connection to a service goes on through changes of
// the service, the loss of the table, and a restart of the data plane.
func TestConnectionsSurvive(t *testing.T) {
	w := newTwoHosts(t)
	p := w.pods
	for _, to := range []*pod{p[1], p[2]} {
		serveEcho(t, to.Netns, at(to.Address, 7))
	}
	w.a.service("echo", vip, intent.TCP, 7, 7, p[1].Address, p[2].Address)
	w.a.service("echo-node", vip.Next(), intent.TCP, 7, 7, p[2].Address)
	w.a.apply()
	var open []net.Conn
	for range 4 { // to either backend, with some luck
		open = append(open, dial(t, p[0].Netns, at(vip, 7)))
	}
	defer func() {
		for _, c := range open {
			_ = c.Close() // all was read
		}
	}()
	alive := func(when string) {
		t.Helper()
		for i, c := range open {
			if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Write([]byte{1}); err != nil {
				t.Fatalf("%s: connection %d: %v", when, i, err)
			}
			if _, err := c.Read(make([]byte, 1)); err != nil {
				t.Fatalf("%s: connection %d: %v", when, i, err)
			}
		}
	}
	alive("at first")
	w.a.Intent.LoadBalancers[0].ID = "echo-2"
	w.a.Intent.LoadBalancers[0].Backends = w.a.Intent.LoadBalancers[0].Backends[:1]
	w.a.apply()
	alive("after the service lost a backend")
	second, err := apply.New(apply.Config{NetnsDir: filepath.Join(w.lab.Dir, w.a.Name+"-namespaces"), Netns: w.a.Netns})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := second.Apply(t.Context(), w.a.Intent); err != nil {
		t.Fatal(err)
	}
	alive("after a restart")
	w.a.Intent.LoadBalancers = nil
	if err := second.Apply(t.Context(), w.a.Intent); err != nil {
		t.Fatal(err)
	}
	alive("after the service was removed")
}
