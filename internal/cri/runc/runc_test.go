// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package runc

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/mullion-k8s/mullion/internal/cri/oci"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestMain also plays the program in the containers: the test binary is static.
func TestMain(m *testing.M) {
	if role := os.Getenv("MULLION_TEST_GUEST"); role != "" {
		os.Exit(guest(role))
	}
	os.Exit(m.Run())
}

func guest(role string) int {
	switch role {
	case "hello":
		fmt.Println("hello out")
		fmt.Fprintln(os.Stderr, "hello err")
		return 42
	case "sleep":
		c := make(chan os.Signal, 1)
		signal.Notify(c, unix.SIGTERM)
		fmt.Println("started")
		<-c
		return 7
	case "cat":
		_, _ = io.Copy(os.Stdout, os.Stdin)
		return 3
	case "size":
		awaitModes()
		for {
			if w, h, err := term.GetSize(0); err == nil && w == 91 {
				fmt.Println("size", w, h)
				return 0
			}
			time.Sleep(time.Millisecond)
		}
	case "first size":
		awaitModes()
		w, h, err := term.GetSize(0)
		fmt.Println("size", w, h, err)
		return 0
	case "report":
		awaitModes()
		// The size arrives within the input, as a console host reads it.
		if _, err := term.MakeRaw(0); err != nil {
			return 1
		}
		text, err := bufio.NewReader(os.Stdin).ReadString('t')
		if err != nil {
			return 1
		}
		fmt.Printf("report %q", text)
		return 0
	case "background":
		// A child that keeps the output open.
		p, err := os.StartProcess("/guest", []string{"/guest"}, &os.ProcAttr{
			Env: []string{"MULLION_TEST_GUEST=sleep"}, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
		if err != nil {
			return 1
		}
		_ = p.Release()
		fmt.Println("left")
		return 5
	case "lines":
		for i := 0; ; i++ {
			fmt.Println("line", i)
			time.Sleep(time.Millisecond)
		}
	}
	return 99
}

// awaitModes waits until runc has set the modes of this program's terminal. While a process starts, runc reads them and
// writes them back without ONLCR (opencontainers/runc v1.1.5 tty.go, recvtty): what the program changes or writes
// meanwhile is lost, or has a carriage return too many.
func awaitModes() {
	for settled := false; !settled; time.Sleep(time.Millisecond) {
		modes, err := unix.IoctlGetTermios(0, unix.TCGETS)
		settled = err == nil && modes.Oflag&unix.ONLCR == 0
	}
}

type box struct {
	*Runtime
	t      *testing.T
	id     string
	bundle string
	log    string
}

// newBox makes a bundle for a container that plays a role.
func newBox(t *testing.T, role string, change func(*oci.Config, *Create)) *box {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Runc, testenv.Static)
	dir := t.TempDir()
	r, err := New(Config{Root: filepath.Join(dir, "runc"), ExitDir: filepath.Join(dir, "exits")})
	if err != nil {
		t.Fatal(err)
	}
	b := &box{
		Runtime: r,
		t:       t,
		id:      "mullion-test-" + strings.ToLower(rand.Text()),
		bundle:  filepath.Join(dir, "bundle"),
		log:     filepath.Join(dir, "log"),
	}
	rootfs := filepath.Join(b.bundle, "rootfs")
	if err := os.MkdirAll(rootfs, 0o755); err != nil {
		t.Fatal(err)
	}
	// The container's user must be able to walk to its root.
	for d := rootfs; d != "/tmp" && d != "/"; d = filepath.Dir(d) {
		_ = os.Chmod(d, 0o755)
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(rootfs, "guest"), self, 0o755); err != nil {
		t.Fatal(err)
	}
	c := oci.Config{
		ID: b.id, Hostname: "box", Rootfs: rootfs, Cgroup: "/" + b.id,
		Process: oci.Process{
			Args:      []string{"/guest"},
			Env:       []string{"MULLION_TEST_GUEST=" + role},
			Cwd:       "/",
			UID:       64000,
			GID:       64000,
			OpenFiles: 1024,
		},
	}
	create := Create{ID: b.id, Name: "test", Bundle: b.bundle, LogPath: b.log}
	if change != nil {
		change(&c, &create)
	}
	spec, err := json.Marshal(oci.Spec(c))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.bundle, "config.json"), spec, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Delete(context.Background(), b.id); err != nil {
			t.Error(err)
		}
	})
	if _, err := r.Create(t.Context(), create); err != nil {
		t.Fatalf("create: %v", err)
	}
	return b
}

func (b *box) start() {
	b.t.Helper()
	if err := b.Start(b.t.Context(), b.id); err != nil {
		b.t.Fatalf("start: %v", err)
	}
}

// wait waits for the end of the container.
func (b *box) wait() Exit {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 20*time.Second)
	defer cancel()
	if err := b.Watch(ctx, nil, func(id string) {
		if id == b.id {
			cancel()
		}
	}); err != nil {
		b.t.Fatal(err)
	}
	exit, ok, err := b.Exit(b.id, b.bundle)
	if err != nil || !ok {
		b.t.Fatalf("no exit code: %v", err)
	}
	return exit
}

func TestRunLogExit(t *testing.T) {
	b := newBox(t, "hello", nil)
	states, err := b.States(t.Context())
	if err != nil || states[b.id].Status != "created" {
		t.Fatalf("states %v, %v", states, err)
	}
	b.start()
	if exit := b.wait(); exit.Code != 42 || exit.OOM {
		t.Errorf("exit %+v", exit)
	}
	log, err := os.ReadFile(b.log)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{" stdout F hello out\n", " stderr F hello err\n"} {
		if !strings.Contains(string(log), want) {
			t.Errorf("log lacks %q:\n%s", want, log)
		}
	}
	if err := b.Kill(t.Context(), b.id, unix.SIGKILL); !errors.Is(err, ErrNotRunning) {
		t.Errorf("kill after the end: %v", err)
	}
	for range 2 {
		if err := b.Delete(t.Context(), b.id); err != nil {
			t.Error(err)
		}
	}
}

func TestCreateExplains(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Runc, testenv.Static)
	dir := t.TempDir()
	r, err := New(Config{Root: filepath.Join(dir, "runc"), ExitDir: filepath.Join(dir, "exits")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Create(t.Context(), Create{ID: "mullion-test-none", Name: "x", Bundle: dir}); err == nil ||
		!strings.Contains(err.Error(), "config.json") {
		t.Errorf("create without a bundle: %v", err)
	}
}

func (b *box) exec(ctx context.Context, role string, terminal bool, e Exec) (int, string, error) {
	var out bytes.Buffer
	e.ID, e.Bundle, e.Stdout = b.id, b.bundle, &out
	e.Process = oci.ExecProcess(oci.Process{
		Args:      []string{"/guest"},
		Env:       []string{"MULLION_TEST_GUEST=" + role},
		Cwd:       "/",
		UID:       64000,
		GID:       64000,
		OpenFiles: 1024,
		Terminal:  terminal,
	})
	code, err := b.Exec(ctx, e)
	return code, out.String(), err
}

func TestExec(t *testing.T) {
	b := newBox(t, "sleep", nil)
	b.start()
	t.Run("output and code", func(t *testing.T) {
		var stderr bytes.Buffer
		code, out, err := b.exec(t.Context(), "hello", false, Exec{Stderr: &stderr})
		if code != 42 || out != "hello out\n" || stderr.String() != "hello err\n" || err != nil {
			t.Errorf("%d %q %q %v", code, out, stderr.String(), err)
		}
	})
	t.Run("input", func(t *testing.T) {
		code, out, err := b.exec(t.Context(), "cat", false, Exec{Stdin: strings.NewReader("abc")})
		if code != 3 || out != "abc" || err != nil {
			t.Errorf("%d %q %v", code, out, err)
		}
	})
	t.Run("terminal", func(t *testing.T) {
		size := make(chan Size, 1)
		size <- Size{Width: 91, Height: 17}
		code, out, err := b.exec(t.Context(), "size", true, Exec{Resize: size})
		if code != 0 || !strings.Contains(out, "size 91 17\r\n") || err != nil {
			t.Errorf("%d %q %v", code, out, err)
		}
	})
	t.Run("first size", func(t *testing.T) {
		for range 10 {
			size := make(chan Size, 1)
			size <- Size{Width: 91, Height: 17}
			code, out, err := b.exec(t.Context(), "first size", true, Exec{Resize: size})
			if code != 0 || !strings.Contains(out, "size 91 17 <nil>") || err != nil {
				t.Errorf("%d %q %v", code, out, err)
			}
		}
	})
	t.Run("late size", func(t *testing.T) {
		// The size comes at different moments of the start, while runc and the
		// program change the modes of their terminals.
		for delay := time.Duration(0); delay < firstSizeWait; delay += firstSizeWait / 20 {
			size := make(chan Size, 2)
			size <- Size{Width: 80, Height: 24} // with which the terminal begins
			timer := time.AfterFunc(delay, func() { size <- Size{Width: 91, Height: 17} })
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			code, out, err := b.exec(ctx, "report", true, Exec{Resize: size})
			cancel()
			timer.Stop()
			if code != 0 || !strings.Contains(out, `report "\x1b[48;17;91;0;0t"`) || err != nil {
				t.Errorf("after %v: %d %q %v", delay, code, out, err)
			}
		}
	})
	t.Run("timeout", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if _, _, err := b.exec(ctx, "sleep", false, Exec{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
	t.Run("background child", func(t *testing.T) {
		_, out, err := b.exec(t.Context(), "background", false, Exec{})
		if !strings.Contains(out, "left\n") || err != nil {
			t.Errorf("%q %v", out, err)
		}
	})
	t.Run("no such program", func(t *testing.T) {
		_, err := b.Exec(t.Context(), Exec{
			ID:      b.id,
			Bundle:  b.bundle,
			Stdout:  io.Discard,
			Process: oci.ExecProcess(oci.Process{Args: []string{"/none"}, Cwd: "/", OpenFiles: 1024}),
		})
		if err == nil || !strings.Contains(err.Error(), "/none") {
			t.Errorf("%v", err)
		}
	})
	if err := b.Kill(t.Context(), b.id, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if exit := b.wait(); exit.Code != 7 {
		t.Errorf("exit %+v", exit)
	}
}

func TestAttachAndReopen(t *testing.T) {
	b := newBox(t, "cat", func(_ *oci.Config, c *Create) { c.Stdin, c.StdinOnce = true, true })
	b.start()
	in, feed := io.Pipe()
	out := make(chan string, 1)
	go func() {
		var got bytes.Buffer
		if err := b.Attach(t.Context(), Attach{Bundle: b.bundle, Stdin: in, Stdout: &got}); err != nil {
			t.Error(err)
		}
		out <- got.String()
	}()
	if _, err := feed.Write([]byte("one\n")); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "first line in the log", func() bool {
		data, _ := os.ReadFile(b.log)
		return strings.Contains(string(data), "one")
	})
	if err := os.Rename(b.log, b.log+".1"); err != nil {
		t.Fatal(err)
	}
	if err := b.ReopenLog(t.Context(), b.bundle, b.log); err != nil {
		t.Fatal(err)
	}
	if _, err := feed.Write([]byte("two\n")); err != nil {
		t.Fatal(err)
	}
	_ = feed.Close()
	if got := <-out; got != "one\ntwo\n" {
		t.Errorf("attached client saw %q", got)
	}
	if exit := b.wait(); exit.Code != 3 {
		t.Errorf("exit %+v", exit)
	}
	data, err := os.ReadFile(b.log)
	if err != nil || strings.Contains(string(data), "one") || !strings.Contains(string(data), "stdout F two") {
		t.Errorf("new log %q, %v", data, err)
	}
}
