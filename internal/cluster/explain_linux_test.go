// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

const kubeletLog = `I1125 10:11:12.131415   99 server.go:1] "Starting"
E1125 10:11:13.131415   99 watch.go:7] "Error creating watcher" err="inotify_init: too many open files"
I1125 10:11:14.131415   99 server.go:1] "Ending"
`

func TestExplain(t *testing.T) {
	l := Layout{DataDir: t.TempDir(), Name: "c"}
	logs := filepath.Join(l.Node("linux-1"), "logs")
	for _, dir := range []string{logs, l.run()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(logs, "kubelet.log"), strings.Repeat("x\n", logTail)+kubeletLog)
	write(filepath.Join(logs, "containerd.log"), `time="2026-11-25T10:11:12Z" level=info msg=a
time="2026-11-25T10:11:12.131415161Z" level=fatal msg="failed to start `+"\x1b"+`"
`)
	reason := errors.New(`nodes "linux-1" not found`)
	status := func(node string, age time.Duration, cs ...supervise.Status) {
		t.Helper()
		err := durable.WriteDocument(l.nodeStatus(node), host.Status{Since: time.Now().Add(-age), Components: cs})
		if err != nil {
			t.Fatal(err)
		}
	}
	want := func(node, text string) {
		t.Helper()
		if err := Explain(l, node, reason); !errors.Is(err, reason) || err.Error() != text {
			t.Errorf("%v, want %s", err, text)
		}
	}
	const kubelet = `nodes "linux-1" not found; last error of kubelet: watch.go:7] "Error creating watcher" ` +
		`err="inotify_init: too many open files"`
	want("linux-1", reason.Error()) // it has not booted
	status("linux-1", time.Second)
	want("linux-1", reason.Error())
	status("linux-1", time.Hour)
	want("linux-1", kubelet)
	status("linux-1", time.Hour, supervise.Status{Name: "containerd", State: supervise.Restarting, Restarts: 3})
	want("linux-1", `nodes "linux-1" not found; last error of containerd: msg="failed to start `)
	status("win-1", time.Hour) // without such a log
	want("win-1", reason.Error())
	if err := Explain(l, "linux-1", nil); err != nil {
		t.Error(err)
	}
	// A program on the host puts something else in the log's place.
	for _, plant := range []func(path string) error{
		func(path string) error { return os.Symlink("/etc/passwd", path) },
		func(path string) error { return unix.Mkfifo(path, 0o600) },
		func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		path := filepath.Join(logs, "containerd.log")
		if err := errors.Join(os.Remove(path), plant(path)); err != nil {
			t.Fatal(err)
		}
		want("linux-1", reason.Error())
	}
}
