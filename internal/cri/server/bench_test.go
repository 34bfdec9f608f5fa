// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// BenchmarkPodStart is the runtime's own share of a pod's start: from
// RunPodSandbox to the first line of a Windows program, without the network
// plugins (which critest's log shows) and the kubelet.
func BenchmarkPodStart(b *testing.B) {
	l := newWineLab(b)
	bench(b, l, func(name string) *runtime.ContainerConfig {
		return windowsContainer(name, "cmd", "/c", "echo started & ping -t 127.0.0.1 >nul")
	})
}

// BenchmarkPodStartWithoutWine measures the share of runc, conmon and mounts.
func BenchmarkPodStartWithoutWine(b *testing.B) {
	l := newLab(b)
	bench(b, l, func(name string) *runtime.ContainerConfig { return containerConfig(name, "sleep") })
}

func bench(b *testing.B, l *lab, container func(name string) *runtime.ContainerConfig) {
	var parts [4]time.Duration // sandbox, create, start, first line
	// The first container pays for the layers that all of its account share.
	warm := l.runSandbox(sandboxConfig("warm"))
	l.startContainerOK(l.create(warm, container("c")))
	_, err := l.Runtime.RemovePodSandbox(b.Context(), &runtime.RemovePodSandboxRequest{PodSandboxId: warm})
	must(b, err)
	n := 0
	for b.Loop() {
		n++
		config := sandboxConfig(fmt.Sprintf("p%d", n))
		begin := time.Now()
		lap := func(i int) { now := time.Now(); parts[i] += now.Sub(begin); begin = now }
		sb := l.runSandbox(config)
		lap(0)
		id := l.create(sb, container("c"))
		lap(1)
		l.startContainerOK(id)
		lap(2)
		log := filepath.Join(l.drive, strings.ReplaceAll(config.LogDirectory, `\`, "/"), "c", "0.log")
		testenv.Until(l.t, "the first line", func() bool {
			data, _ := os.ReadFile(log)
			return strings.Contains(string(data), "started")
		})
		lap(3)
		b.StopTimer()
		_, err := l.Runtime.RemovePodSandbox(b.Context(), &runtime.RemovePodSandboxRequest{PodSandboxId: sb})
		must(b, err)
		b.StartTimer()
	}
	for i, unit := range []string{"sandbox-ms/op", "create-ms/op", "start-ms/op", "first-line-ms/op"} {
		b.ReportMetric(float64(parts[i].Milliseconds())/float64(n), unit)
	}
}

// BenchmarkExec is a command in a running container, to its end.
func BenchmarkExec(b *testing.B) {
	l := newWineLab(b)
	id := l.run(l.runSandbox(sandboxConfig("bench")), windowsContainer("c", "ping", "-t", "127.0.0.1"))
	var took []time.Duration
	for b.Loop() {
		begin := time.Now()
		_, err := l.Runtime.ExecSync(b.Context(),
			&runtime.ExecSyncRequest{ContainerId: id, Cmd: []string{"cmd", "/c", "exit"}, Timeout: 60})
		must(b, err)
		took = append(took, time.Since(begin))
	}
	percentiles(b, took)
}

// keysPerRound is how many keys one round of BenchmarkKey types.
const keysPerRound = 200

// BenchmarkKey is a key typed at the prompt of cmd.exe, until its echo.
func BenchmarkKey(b *testing.B) {
	l := newWineLab(b)
	id := l.run(l.runSandbox(sandboxConfig("bench")), windowsContainer("c", "ping", "-t", "127.0.0.1"))
	in, keys := io.Pipe()
	out, done := &testenv.Buffer{}, make(chan struct{})
	go func() {
		defer close(done)
		_, _ = l.exec(b.Context(), id, execution{args: []string{"cmd"}, terminal: true, stdin: in, stdout: out})
	}()
	testenv.Until(l.t, "the prompt", func() bool { return strings.Contains(out.String(), `C:\>`) })
	var took []time.Duration
	for b.Loop() {
		for range keysPerRound {
			before := len(out.String())
			begin := time.Now()
			_, err := keys.Write([]byte("x"))
			must(b, err)
			for len(out.String()) == before {
				time.Sleep(100 * time.Microsecond)
			}
			took = append(took, time.Since(begin))
		}
		_, err := keys.Write([]byte("\x1b"))
		must(b, err)
		time.Sleep(200 * time.Millisecond) // Escape clears the line once no sequence follows
	}
	_, err := keys.Write([]byte("exit\r"))
	must(b, err)
	<-done
	percentiles(b, took)
}

// percentiles reports the median and the slowest in a hundred.
func percentiles(b *testing.B, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(took[len(took)/2]), "p50-ms")
	b.ReportMetric(ms(took[len(took)*99/100]), "p99-ms")
}
