// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// memoryLab runs the program testdata/memory in containers.
type memoryLab struct {
	*lab
	sandbox string
}

func newMemoryLab(t testing.TB) memoryLab {
	t.Helper()
	testenv.Need(t, testenv.MinGW)
	testenv.Compiles(t, "internal/cri/server/testdata/memory")
	l := newWineLab(t)
	dir := filepath.Join(l.drive, "files")
	must(t, os.MkdirAll(dir, 0o755))
	out, err := exec.Command("x86_64-w64-mingw32-gcc", "-O1", "-o", filepath.Join(dir, "memory.exe"),
		testenv.Repo("internal/cri/server/testdata/memory/memory.c")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return memoryLab{l, l.runSandbox(sandboxConfig("memory"))}
}

// container runs a container with a limit in MiB, or without one.
func (l memoryLab) container(name string, mib int64, args ...string) string {
	c := windowsContainer(name, args...)
	c.Windows.Resources.MemoryLimitInBytes = mib << 20
	c.Mounts = []*runtime.Mount{{HostPath: `C:\files`, ContainerPath: `C:\files`}}
	return l.run(l.sandbox, c)
}

// use runs the program, which must end with 0, and returns its output.
func (l memoryLab) use(t testing.TB, id, args string) string {
	t.Helper()
	var out bytes.Buffer
	code, err := l.exec(t.Context(), id, execution{
		args: append([]string{`C:\files\memory.exe`}, strings.Fields(args)...), stdout: &out, stderr: &out})
	if err != nil || code != 0 {
		t.Fatalf("%s: %d, %v\n%s", args, code, err, out.String())
	}
	return strings.TrimSpace(out.String())
}

// TestMemoryLimit: beyond the container's limit allocations fail with the error of Windows, and programs go on.
func TestMemoryLimit(t *testing.T) {
	l := newMemoryLab(t)
	const limit = 256
	id := l.container("limited", limit, "ping", "-t", "127.0.0.1")
	for _, tt := range []struct{ args, want string }{
		{"commit 200", "ok"},
		{"commit 300", "error 1455"},
		{"commit 100000000", "error 1455"},
		{"map 100", "ok"},
		{"map 300", "error 1455"},
		{"reserve 65536", "1 1"},
		{"again 150", "0 failed"},
		{"recommit 100", "1"},
		{"threads 150", "ok"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			if got := l.use(t, id, tt.args); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	// What programs get: the limit without what Wine's own programs have, and what is kept back.
	for _, tt := range []struct {
		args       string
		code       int // of the error
		least, all int // MiB
	}{
		{"malloc 4", 8, limit - 50, limit},
		{"small", 8, limit - 50, limit},
		{"unwritten 4", 1455, limit - 50, limit},
		{"child 100", 8, limit - 50 - 100, limit - 100},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var got, code int
			out := l.use(t, id, tt.args)
			_, err := fmt.Sscan(out, &got, &code)
			if err != nil || got < tt.least || got >= tt.all || code != tt.code {
				t.Errorf("%q, want %d to %d and error %d", out, tt.least, tt.all, tt.code)
			}
		})
	}
	t.Run("child without memory", func(t *testing.T) {
		if got := l.use(t, id, "child 0"); !strings.HasSuffix(got, "error 1455") {
			t.Errorf("%q, want error 1455", got)
		}
	})
	t.Run("changed limit", func(t *testing.T) {
		for _, mib := range []int64{128, 512} {
			_, err := l.Runtime.UpdateContainerResources(t.Context(), &runtime.UpdateContainerResourcesRequest{
				ContainerId: id, Windows: &runtime.WindowsContainerResources{MemoryLimitInBytes: mib << 20},
			})
			must(t, err)
			fits, beyond := fmt.Sprintf("commit %d", mib-60), fmt.Sprintf("commit %d", mib)
			if a, b := l.use(t, id, fits), l.use(t, id, beyond); a != "ok" || b != "error 1455" {
				t.Errorf("%s: %q; %s: %q", fits, a, beyond, b)
			}
		}
	})
	t.Run("no limit", func(t *testing.T) {
		free := l.container("free", 0, "ping", "-t", "127.0.0.1")
		if got := l.use(t, free, "unwritten 64"); got != "4096 0" {
			t.Errorf("%q, want all", got)
		}
	})
	// Beside a program that has all memory, a probe still runs.
	t.Run("full", func(t *testing.T) {
		full := l.container("full", 96, `C:\files\memory.exe`, "hold")
		log := sandboxConfig("memory")
		testenv.Until(t, "the end of the memory", func() bool { return l.logText(log, "full") != "" })
		for range 3 {
			r, err := l.Runtime.ExecSync(t.Context(),
				&runtime.ExecSyncRequest{ContainerId: full, Cmd: []string{"cmd", "/c", "echo alive"}, Timeout: 60})
			if err != nil || strings.TrimSpace(string(r.GetStdout())) != "alive" {
				t.Errorf("%v, %v", r, err)
			}
		}
		if got := l.status(full); got.State != runtime.ContainerState_CONTAINER_RUNNING {
			t.Errorf("%v", got)
		}
	})
	if got := l.status(id); got.State != runtime.ContainerState_CONTAINER_RUNNING {
		t.Errorf("after all: %v", got)
	}
}

// BenchmarkCommit is a commit of 64 KiB and its release: without a limit, with one, and where each is measured.
func BenchmarkCommit(b *testing.B) {
	l := newMemoryLab(b)
	for _, bc := range []struct {
		name string
		mib  int64
		args string
	}{{"no limit", 0, "time 0"}, {"limit", 256, "time 0"}, {"at the limit", 256, "time 1"}} {
		b.Run(bc.name, func(b *testing.B) {
			id := l.container(fmt.Sprint(bc.name, b.N), bc.mib, "ping", "-t", "127.0.0.1")
			var all [2]float64
			n := 0.0
			for b.Loop() {
				var ns [2]float64
				lines := strings.Split(l.use(b, id, bc.args), "\n")
				_, err := fmt.Sscan(lines[len(lines)-1], &ns[0], &ns[1])
				must(b, err)
				all[0], all[1], n = all[0]+ns[0], all[1]+ns[1], n+1
			}
			b.ReportMetric(all[0]/n, "ns/commit")
			b.ReportMetric(all[1]/n, "ns/written")
		})
	}
}
