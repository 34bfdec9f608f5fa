// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package servertest_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/controlplane/controlplanetest"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// settleTime is how long after its start the memory of an idle control plane is
// read: the controllers' first rounds are over by then.
const settleTime = 15 * time.Second

// BenchmarkStart starts a control plane whose data directory exists, as
// `mullion up` does every time but the first, and reads what it costs when idle.
// Run it with -benchtime 3x.
func BenchmarkStart(b *testing.B) {
	s := controlplanetest.New(b, nil)
	s.Start()
	s.Ready()
	s.Stop()
	var ready, api, stop time.Duration
	var pss, cpu float64
	for b.Loop() {
		s.Start()
		s.Ready()
		st, _ := s.Status()
		ready += time.Duration(st.ReadyAfter)
		for _, c := range st.Components {
			if c.Name == "kube-apiserver" {
				api += c.Since.Sub(st.Started)
			}
		}
		time.Sleep(settleTime)
		pss += memory(b, s.PID())
		before := testenv.ProcessorTime(b, s.PID())
		time.Sleep(settleTime)
		cpu += (testenv.ProcessorTime(b, s.PID()) - before) / settleTime.Seconds()
		began := time.Now()
		s.Stop()
		stop += time.Since(began)
	}
	n := float64(b.N)
	b.ReportMetric(0, "ns/op") // it would count the waiting
	b.ReportMetric(api.Seconds()/n, "s/readyz")
	b.ReportMetric(ready.Seconds()/n, "s/all-ready")
	b.ReportMetric(stop.Seconds()/n, "s/stop")
	b.ReportMetric(pss/n, "MB-pss/idle")
	b.ReportMetric(100*cpu/n, "%-of-a-cpu/idle")
}

// memory returns the process' proportional set size in megabytes.
func memory(b *testing.B, pid int) float64 {
	b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var kb float64
		if n, err := fmt.Sscanf(line, "Pss: %f kB", &kb); n == 1 && err == nil {
			return kb / 1000 * 1.024
		}
	}
	b.Fatal("no Pss in smaps_rollup")
	return 0
}
