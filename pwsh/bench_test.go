// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package pwsh_test

import (
	"bytes"
	"context"
	"os/exec"
	"strconv"
	"testing"

	"github.com/mullion-k8s/mullion/pwsh"
	"github.com/mullion-k8s/mullion/pwsh/host"
)

// BenchmarkSession is a whole session for one command, without the process.
func BenchmarkSession(b *testing.B) {
	for b.Loop() {
		var out, errs bytes.Buffer
		h := host.Handlers{Stdout: &out, Stderr: &errs}
		r, err := pwsh.New(pwsh.Config{Handlers: h})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := r.Run(context.Background(), "1+1"); err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
}

// iterations is the length of the loops that are compared.
const iterations = 200_000

// BenchmarkLoop counts in a while loop, beside the same loop of the shells
// that are installed.
func BenchmarkLoop(b *testing.B) {
	n := strconv.Itoa(iterations)
	report := func(b *testing.B) {
		b.ReportMetric(float64(iterations)*float64(b.N)/b.Elapsed().Seconds(), "loops/s")
	}
	scripts := []struct{ name, text string }{
		{"while", "$i=0; $s=0; while ($i -lt " + n + ") { $s=$s+$i%7; $i++ }"},
		{"for", "for ($i=0; $i -lt " + n + "; $i++) { $x = $i * 2 }"},
		{"foreach-object", "1.." + n + " | ForEach-Object { $_ + 1 } | Out-Null"},
		{"function", "function f($a) { $a }; for ($i=0; $i -lt " + n + "; $i++) { $x = f $i }"},
	}
	for _, s := range scripts {
		b.Run(s.name, func(b *testing.B) {
			var out, errs bytes.Buffer
			h := host.Handlers{Stdout: &out, Stderr: &errs}
			r, err := pwsh.New(pwsh.Config{Handlers: h})
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Run(context.Background(), s.text); err != nil {
					b.Fatal(err)
				}
			}
			report(b)
		})
	}
	for _, shell := range []string{"dash", "bash", "pwsh"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		script := "i=0; s=0; while [ $i -lt " + n + " ]; do s=$((s+i%7)); i=$((i+1)); done"
		if shell == "pwsh" {
			script = scripts[0].text
		}
		b.Run(shell, func(b *testing.B) {
			for b.Loop() {
				if err := exec.Command(path, "-c", script).Run(); err != nil {
					b.Fatal(err)
				}
			}
			report(b)
		})
	}
}
