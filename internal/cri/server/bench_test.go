// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"fmt"
	"os"
	"path/filepath"
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

// BenchmarkPodStartWithoutWine is what of it is runc, conmon and mounts.
func BenchmarkPodStartWithoutWine(b *testing.B) {
	l := newLab(b)
	bench(b, l, func(name string) *runtime.ContainerConfig { return containerConfig(name, "sleep") })
}

func bench(b *testing.B, l *lab, container func(name string) *runtime.ContainerConfig) {
	var parts [4]time.Duration // sandbox, create, start, first line
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
		testenv.Until(l.t, "the first line", func() bool { data, _ := os.ReadFile(log); return strings.Contains(string(data), "started") })
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
