// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/nodeapi"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// TestMain starts the package os/signal, whose channels must not be made in a bubble of synctest: the first test that
// is in one would own them.
func TestMain(m *testing.M) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGCHLD)
	signal.Stop(c)
	os.Exit(m.Run())
}

// TestAHopelessHostEnds: if no restart of a component helps, the host ends with an error, after which the cluster
// starts it again, and its status says why.
func TestAHopelessHostEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reports bytes.Buffer
		stopped := false
		err := Supervise(t.Context(), []supervise.Component{{
			Name: "agent",
			Run:  func(ctx context.Context) error { <-ctx.Done(); stopped = true; return ctx.Err() },
			Alive: func(context.Context) error {
				return supervise.Permanent(errors.New("kubelet.exe does not answer"))
			},
		}}, NewReaper(), &Reporter{to: &reports},
			func() (*nodeapi.Client, error) { return nil, errors.New("no cluster") }, t.TempDir())
		const want = "kubelet.exe does not answer; that does not help, so the host is started again"
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if !stopped || !strings.Contains(reports.String(), `"frozen":{"at":`) {
			t.Errorf("stopped: %t, reports:\n%s", stopped, &reports)
		}
	})
}

// TestFreezes: what init and the agent report is one list.
func TestFreezes(t *testing.T) {
	s := Status{
		Components: []supervise.Status{{Name: "wine"}, {Name: "serve", Frozen: &supervise.Freeze{Message: "a"}}},
		Agent:      []byte(`{"kubelet":{"frozen":{"message":"b"}},"kubeProxy":{"frozen":{"message":"c"}}}`),
	}
	got := ""
	for _, f := range s.Freezes() {
		got += f.Message
	}
	if got != "abc" {
		t.Error(got)
	}
	if list := (Status{}).Freezes(); list != nil {
		t.Errorf("%v of a host that has only begun", list)
	}
}
