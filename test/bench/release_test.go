// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package bench

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// BenchmarkRelease measures from an unpacked release, on a machine that has no data of mullion's yet, to three Ready
// nodes, one of each build of `mullion up`; and `mullion stop` with `mullion start`, until both have returned, with
// three pods.
func BenchmarkRelease(b *testing.B) {
	for b.Loop() {
		c := newCluster(b)
		program := unpackedRelease(b)
		run := func(args ...string) time.Duration {
			began := time.Now()
			cmd := exec.Command(program, append(args, "--name", name, "--data-dir", c.dir)...)
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("%v: %v: %s", cmd.Args, err, out)
			}
			return time.Since(began)
		}
		began := time.Now()
		run("up", "--linux", "0", "--kubeconfig", "none")
		last := time.Time{}
		for _, host := range []string{"win-1", "win-2", "win-3"} {
			if at := c.ready(host); at.After(last) {
				last = at
			}
		}
		b.ReportMetric(last.Sub(began).Seconds(), "s/three-nodes")
		c.kubectl("create", "deployment", "app", "--image=mcr.microsoft.com/windows/nanoserver:ltsc2022",
			"--replicas=3", "--", "cmd", "/c", "ping -t localhost")
		c.kubectl("rollout", "status", "deployment/app", "--timeout=120s")
		stop := run("stop")
		start := run("start")
		b.ReportMetric(stop.Seconds(), "s/stop")
		b.ReportMetric(start.Seconds(), "s/start")
		b.ReportMetric((stop + start).Seconds(), "s/stop-and-start")
	}
	b.ReportMetric(0, "ns/op") // the sum of different things
}

// unpackedRelease returns the program of a release in a directory of its own.
func unpackedRelease(b *testing.B) string {
	b.Helper()
	dir := b.TempDir()
	for _, argv := range [][]string{
		{"go", "run", "-C", testenv.Repo("tools", "release"), ".", "-bin", testenv.Bin(), "-root", testenv.Repo(),
			"-o", dir, "-version", "v0.0.0-gbench", "-date", "1790000000", "-level", "1",
			"-only", "archive"},
		{"tar", "-xzf", filepath.Join(dir, "mullion_v0.0.0-gbench_linux_amd64.tar.gz"), "-C", dir},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			b.Fatalf("%v: %v: %s", argv, err, out)
		}
	}
	return filepath.Join(dir, "mullion", "mullion")
}
