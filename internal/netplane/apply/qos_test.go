// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package apply_test

import (
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/netplane/intent"
	"github.com/mullion-k8s/mullion/internal/netplane/intent/intenttest"
)

// TestBucket: the bound on what an endpoint sends appears, changes in place, survives a new process, is put back after
// damage, and goes.
func TestBucket(t *testing.T) {
	h := newHost(t)
	want := func(rate uint64) intent.Host {
		w := withPods(intenttest.Services(0, 0), 1)
		w.Endpoints[0].MaxRate = rate
		return w
	}
	t.Cleanup(func() { h.removeNamespaces(h.plane, want(0)) })
	queue := func() string {
		t.Helper()
		return strings.TrimSpace(h.runIn(h.plane.NamespacePath("ns-0"), "tc", "qdisc", "show", "dev", "eth0"))
	}
	for _, step := range []struct {
		what string
		rate uint64
		show string
	}{
		{"bound", 1_250_000, "rate 10Mbit burst 25000b"},
		{"other bound", 125_000, "rate 1Mbit burst 6056b"},
		{"none", 0, "qdisc noqueue"},
		{"bound again", 125_000, "rate 1Mbit burst 6056b"},
	} {
		if err := h.plane.Apply(t.Context(), want(step.rate)); err != nil {
			t.Fatal(err)
		}
		if got := queue(); !strings.Contains(got, step.show) {
			t.Errorf("%s: %s", step.what, got)
		}
		before := queue()
		if err := h.open().Apply(t.Context(), want(step.rate)); err != nil {
			t.Fatal(err)
		}
		if got := queue(); got != before {
			t.Errorf("%s: a new process makes it %s", step.what, got)
		}
	}
	h.runIn(h.plane.NamespacePath("ns-0"), "tc", "qdisc", "del", "dev", "eth0", "root")
	if err := h.open().Apply(t.Context(), want(125_000)); err != nil {
		t.Fatal(err)
	}
	if got := queue(); !strings.HasPrefix(got, "qdisc tbf") {
		t.Errorf("after damage: %s", got)
	}
}
