// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/agent/componentconfig"
)

// live lets the agent make a pass every two seconds for a while. Each check ends before the clock goes on.
func (r *rig) live(seconds int) {
	r.t.Helper()
	for ; seconds > 0; seconds -= 2 {
		r.agent.pass(r.ctx)
		for _, p := range []*reconciler{r.agent.kubelet, r.agent.proxy} {
			if p.check == nil {
				continue
			}
			result := <-p.check
			p.check <- result
		}
		r.now = r.now.Add(idle)
	}
}

// TestAFrozenProgramIsKilled: a program that does not answer for a minute is killed and started again, with an event
// and a line in the status, and one that is only slow is left alone.
func TestAFrozenProgramIsKilled(t *testing.T) {
	for _, tc := range []struct{ name, address string }{
		{"kubelet", componentconfig.KubeletHealth}, {"kube-proxy", componentconfig.ProxyHealth},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := up(t)
			silent := map[string]error{tc.address: errors.New("no answer")}
			r.live(30)
			r.ill.Store(silent)
			r.live(44)
			r.ill.Store(map[string]error{})
			r.live(20)
			if got := r.scm.Dump(); got != "" {
				t.Errorf("a slow program: %s", got)
			}
			r.ill.Store(silent)
			r.live(48) // 58 s after the last answer
			if got := r.scm.Dump(); got != "" {
				t.Errorf("before a minute: %s", got)
			}
			r.live(20)
			if got := r.scm.Dump(); got != "kill "+tc.name+"\nstart "+tc.name {
				t.Errorf("after a minute: %s", got)
			}
			r.ill.Store(map[string]error{})
			r.live(40)
			want := tc.name + " did not answer for 60s; restarted"
			if got := fmt.Sprint(r.api.warnings()); got != "[Warning ProgramFrozen: "+want+"]" {
				t.Errorf("events %s", got)
			}
			r.wantStatus(func(s Status) bool {
				p := map[string]ProgramStatus{"kubelet": s.Kubelet, "kube-proxy": s.Proxy}[tc.name]
				return s.Healthy() && p.Restarts == 1 && p.Frozen != nil && p.Frozen.Message == want && !p.Hopeless
			}, "restarted")
		})
	}
}

// TestAStartingProgramIsLeftAlone: a kubelet without a certificate answers nothing, for as long as it takes.
func TestAStartingProgramIsLeftAlone(t *testing.T) {
	r := newRig(t)
	r.ill.Store(map[string]error{componentconfig.KubeletHealth: errors.New("no answer")})
	r.live(600)
	if got := r.scm.Dump(); got != "create kubelet\nstart kubelet" {
		t.Errorf("services:\n%s", got)
	}
}

// TestFrozenWithoutTheCluster: the event is recorded when the API server is there again.
func TestFrozenWithoutTheCluster(t *testing.T) {
	r := up(t)
	r.live(20)
	r.api.down(true)
	r.ill.Store(map[string]error{componentconfig.KubeletHealth: errors.New("no answer")})
	r.live(70)
	r.ill.Store(map[string]error{})
	r.live(10)
	if got := r.api.warnings(); got != nil {
		t.Errorf("events without an API server: %q", got)
	}
	r.api.down(false)
	r.live(40)
	if got := r.api.warnings(); len(got) != 1 {
		t.Errorf("events %q", got)
	}
}

// TestAlive: an agent that makes passes is alive, one that makes none is not, and one whose kubelet does not answer
// after three restarts says that a restart of itself does not help.
func TestAlive(t *testing.T) {
	r := up(t)
	now := time.Now()
	if err := Alive(r.disk, now); err != nil {
		t.Error(err)
	}
	old := now.Add(-time.Minute)
	if err := os.Chtimes(r.disk.Path(StatusFile), old, old); err != nil {
		t.Fatal(err)
	}
	if err := Alive(r.disk, now); err == nil {
		t.Error("alive without a pass for a minute")
	}
	r.passes(1)
	if err := Alive(r.disk, now); err != nil {
		t.Errorf("after a pass: %v", err)
	}
	r.live(20)
	r.ill.Store(map[string]error{componentconfig.KubeletHealth: errors.New("no answer")})
	r.live(700)
	err := Alive(r.disk, time.Now())
	if err == nil || err.Error() != "kubelet.exe or kube-proxy.exe does not answer after several restarts" {
		t.Errorf("%v", err)
	}
}
