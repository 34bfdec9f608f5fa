// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// streamsLab runs the program testdata/streams in a container.
type streamsLab struct {
	*lab
	id string
}

func newStreamsLab(t testing.TB) streamsLab {
	t.Helper()
	l := newWineLab(t)
	dir := filepath.Join(l.drive, "files")
	must(t, os.MkdirAll(dir, 0o755))
	program := filepath.Join(dir, "streams.exe")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/streams")
	build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c := windowsContainer("a", "ping", "-t", "127.0.0.1")
	c.Mounts = []*runtime.Mount{{HostPath: `C:\files`, ContainerPath: `C:\files`}}
	return streamsLab{l, l.run(l.runSandbox(sandboxConfig("streams")), c)}
}

// use runs the program and returns its code.
func (l streamsLab) use(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer, args ...string) (int32, error) {
	return l.exec(ctx, l.id, execution{args: append([]string{`C:\files\streams.exe`}, args...),
		stdin: stdin, stdout: stdout, stderr: stderr})
}

// output runs the program to its end, which must be a good one, and returns its output.
func (l streamsLab) output(t *testing.T, stdin io.Reader, args ...string) string {
	t.Helper()
	var out, stderr bytes.Buffer
	code, err := l.use(t.Context(), stdin, &out, &stderr, args...)
	if err != nil || code != 0 {
		t.Fatalf("%v: %d, %v\n%s%s", args, code, err, out.String(), stderr.String())
	}
	return strings.ReplaceAll(out.String(), "\r", "")
}

// refusing is a reader of output that goes away.
type refusing struct{ left int }

func (r *refusing) Write(p []byte) (int, error) {
	if r.left -= len(p); r.left < 0 {
		return 0, errors.New("gone")
	}
	return len(p), nil
}

// TestStreams: standard streams of programs are named pipes, as those of Windows' containers are, and no byte is lost.
func TestStreams(t *testing.T) {
	l := newStreamsLab(t)
	t.Run("properties", func(t *testing.T) {
		got := l.output(t, strings.NewReader("x"), "describe")
		want := strings.Repeat("pipe=true set=<nil> state=1/0 info=<nil>/0 sync=true/0 console=false\n", 3)
		if got != want {
			t.Errorf("\n%s\nwant\n%s", got, want)
		}
	})
	t.Run("copy", func(t *testing.T) {
		data := bytes.Repeat([]byte("any bytes: \x00\x1a\xff\r\n"), 1<<20)
		if got := l.raw(t, bytes.NewReader(data), "copy"); !bytes.Equal(got, data) {
			t.Errorf("%d bytes came back changed, of %d", len(got), len(data))
		}
	})
	t.Run("end of a process", func(t *testing.T) {
		const size = 60_000 // fits into the pipes, so the program does not wait
		for range 5 {
			var out bytes.Buffer
			code, err := l.use(t.Context(), nil, &out, io.Discard, "end", "60000")
			if err != nil || code != 99 || out.Len() != size {
				t.Errorf("code %d, %d bytes, %v; want 99 and %d", code, out.Len(), err, size)
			}
		}
	})
}

// TestStreamsMisused: programs that do with their streams what no other expects harm neither others nor the container.
func TestStreamsMisused(t *testing.T) {
	l := newStreamsLab(t)
	t.Run("reader goes away", func(t *testing.T) {
		code, err := l.use(t.Context(), nil, &refusing{10_000}, io.Discard, "gone")
		const errorNoData = 232
		if err != nil || code != errorNoData {
			t.Errorf("code %d, %v; want %d", code, err, errorNoData)
		}
	})
	t.Run("read of no byte waits", func(t *testing.T) {
		in, feed := io.Pipe()
		out, done := &testenv.Buffer{}, make(chan error, 1)
		go func() {
			_, err := l.use(t.Context(), in, out, io.Discard, "wait")
			done <- err
		}()
		testenv.Until(t, "the read", func() bool { return strings.Contains(out.String(), "reads") })
		time.Sleep(300 * time.Millisecond) // a read that does not wait has ended by then
		if strings.Contains(out.String(), "has read") {
			t.Error("it did not wait")
		}
		_, err := feed.Write([]byte("abc"))
		must(t, err)
		must(t, <-done)
		must(t, feed.Close())
		if want := "has read <nil> 3"; !strings.Contains(out.String(), want) {
			t.Errorf("%q, want %q", out.String(), want)
		}
	})
	t.Run("cancel", func(t *testing.T) {
		in, _ := io.Pipe()
		defer in.Close()
		got := l.output(t, in, "cancel")
		if !strings.Contains(got, "aborted") {
			t.Errorf("%q, want ERROR_OPERATION_ABORTED", got)
		}
	})
	t.Run("child goes on", func(t *testing.T) {
		got := l.output(t, nil, "child")
		if want := "parent ends\nchild begins\nchild ends\n"; len(got) != len(want) {
			t.Errorf("%q, want %q in any order", got, want)
		}
	})
	t.Run("standard input that is not read", func(t *testing.T) {
		if got := l.output(t, strings.NewReader(strings.Repeat("x", 1_000_000)), "ignore"); got != "ignored\n" {
			t.Errorf("%q", got)
		}
	})
	t.Run("standard output is closed", func(t *testing.T) {
		var stderr bytes.Buffer
		code, err := l.use(t.Context(), nil, io.Discard, &stderr, "close")
		if err != nil || code != 0 || strings.TrimSpace(stderr.String()) != "still here" {
			t.Errorf("code %d, %v, %q", code, err, stderr.String())
		}
	})
	t.Run("long line", func(t *testing.T) {
		got := l.raw(t, nil, "line", "10000000")
		if want := "\x00\x1b[31m\xff\n"; len(got) != 10_000_000+len(want) || !bytes.HasSuffix(got, []byte(want)) {
			t.Errorf("%d bytes", len(got))
		}
	})
	t.Run("500 programs", func(t *testing.T) {
		if got := l.output(t, nil, "many", "500"); got != strings.Repeat("ignored\n", 500) {
			t.Errorf("%d lines: %.200q", strings.Count(got, "\n"), got)
		}
	})
	t.Run("standard input ends", func(t *testing.T) {
		if got := l.output(t, strings.NewReader(strings.Repeat("x", 1_000_000)), "count"); got != "1000000 <nil>\n" {
			t.Errorf("%q", got)
		}
	})
}

// raw returns the output as it is.
func (l streamsLab) raw(t *testing.T, stdin io.Reader, args ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	code, err := l.use(t.Context(), stdin, &out, io.Discard, args...)
	if err != nil || code != 0 {
		t.Fatalf("%v: %d, %v", args, code, err)
	}
	return out.Bytes()
}

// TestLostServiceManager kills the process that copies the streams of a container's programs. The container ends, as a
// Windows without its service manager does, and no process of it stays.
func TestLostServiceManager(t *testing.T) {
	l := newStreamsLab(t)
	l.output(t, nil, "write", "1") // after it the container's own program runs too
	process, err := os.FindProcess(l.processOf(t, l.id, "services.exe"))
	must(t, err)
	must(t, process.Kill())
	if got := l.wait(l.id); got.GetExitCode() == 0 {
		t.Errorf("%v", got)
	}
}

// processOf returns the process of a container's program, or 0.
func (l *lab) processOf(t *testing.T, id, program string) int {
	t.Helper()
	first, err := os.ReadFile(filepath.Join(l.dir(id, bundleDir), "pidfile"))
	must(t, err)
	list, err := os.ReadFile("/proc/" + string(first) + "/task/" + string(first) + "/children")
	must(t, err)
	for pid := range strings.FieldsSeq(string(list)) {
		name, _ := os.ReadFile("/proc/" + pid + "/cmdline") // it may have ended
		if n, err := strconv.Atoi(pid); err == nil && strings.Contains(string(name), program) {
			return n
		}
	}
	return 0
}

// streamBytes is how much BenchmarkStreams sends each way.
const streamBytes = 200 << 20

// BenchmarkStreams is the throughput of standard output and input.
func BenchmarkStreams(b *testing.B) {
	l := newStreamsLab(b)
	for _, bc := range []struct {
		name  string
		input int64
		args  []string
	}{
		{"output", 0, []string{"write", strconv.Itoa(streamBytes)}},
		{"input", streamBytes, []string{"count"}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.SetBytes(streamBytes)
			for b.Loop() {
				code, err := l.use(b.Context(), io.LimitReader(zeros{}, bc.input), io.Discard, io.Discard, bc.args...)
				if err != nil || code != 0 {
					b.Fatalf("%d, %v", code, err)
				}
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
