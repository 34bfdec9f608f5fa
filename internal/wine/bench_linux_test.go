// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wine_test

import (
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/wine"
)

// BenchmarkContainerColdStart is from `runc run` to the end of a Go program
// that does nothing: namespaces, Wine's server, the program.
func BenchmarkContainerColdStart(b *testing.B) {
	var total time.Duration
	for b.Loop() {
		b.StopTimer()
		c := newContainer(b, "2019")
		b.StartTimer()
		start := time.Now()
		c.run(wine.Process{Args: []string{`C:\probe.exe`, "exit", "0"}})
		total += time.Since(start)
	}
	b.ReportMetric(float64(total.Milliseconds())/float64(b.N), "ms/container")
}

// BenchmarkContainerExec is `runc exec` of the same program in a container
// that runs already.
func BenchmarkContainerExec(b *testing.B) {
	c := newContainer(b, "2019")
	main := c.start(wine.Process{Args: []string{`C:\probe.exe`, "wait"}})
	c.await()
	for b.Loop() {
		c.exec("bench", wine.Process{Args: []string{`C:\probe.exe`, "exit", "0"}})
	}
	b.StopTimer()
	c.stop(main)
}
