// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policytest

import (
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/mullion-k8s/mullion/internal/agent/netpolicy"
	"github.com/mullion-k8s/mullion/internal/netplane/netlab"
)

// Wire tests the enforcement of NetworkPolicies with packets. It has all pods of the tables at
// once.
type Wire struct {
	Places map[string]Place
	// Netns are the namespaces of the pods.
	Netns map[string]string
	// Enforce makes the nodes follow the policies, and returns when they do.
	Enforce func(t *testing.T, c *netpolicy.Cluster)
}

// Spread finds places for all pods. The pods of each namespace, and the pods of each name, are on both
// hosts.
func Spread(hosts [2]netlab.Host) map[string]Place {
	places := map[string]Place{}
	for i, name := range Pods() {
		h := hosts[i%2]
		a := h.Pods.Addr().As4()
		a[3] = byte(10 + i)
		places[name] = Place{Node: h.Name, Address: netip.AddrFrom4(a)}
	}
	return places
}

// Judge goes through all tables, one after the other.
func (w Wire) Judge(t *testing.T) {
	for name, netns := range w.Netns {
		for _, port := range ports() {
			for _, network := range []string{"tcp4", "udp4"} {
				netlab.Serve(t, netns, name, network, netip.AddrPortFrom(w.Places[name].Address, port))
			}
		}
	}
	for _, tt := range Tables() {
		t.Run(tt.Name, func(t *testing.T) {
			w.Enforce(t, tt.Cluster(t, w.Places))
			var asking sync.WaitGroup
			for _, c := range tt.Cells(t) {
				asking.Go(func() { w.ask(t, c) })
			}
			asking.Wait()
		})
	}
}

// ask tests one connection.
func (w Wire) ask(t *testing.T, c Cell) {
	network := strings.ToLower(string(c.Protocol)) + "4"
	answer := netlab.Answer(t, w.Netns[c.From], network, netip.AddrPortFrom(w.Places[c.To].Address, c.Port), c.Passes)
	want := ""
	if c.Passes {
		want = c.To
	}
	if answer != want {
		t.Errorf("%s → %s %s %d: %q answered, want %q", c.From, c.To, c.Protocol, c.Port, answer, want)
	}
}
