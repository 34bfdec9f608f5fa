// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/cri/runc"
	"github.com/mullion-k8s/mullion/internal/cri/wineengine"
	"github.com/mullion-k8s/mullion/internal/standin"
	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/internal/wine"
)

const servercore = "mcr.microsoft.com/windows/servercore:ltsc2019"

// newWineLab returns a lab with the real engine and the real images.
func newWineLab(t testing.TB) *lab {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Runc, testenv.Wine, testenv.Built)
	cache := testenv.Cache(t)
	ctx, log := context.Background(), slog.New(slog.DiscardHandler)
	return newLabWith(t, func(cfg *Config) {
		rt, err := wine.OpenRuntime(ctx, cache, testenv.Bin(), log)
		must(t, err)
		standIns, err := standin.Prepare(ctx, cache, standin.Programs{Winbox: testenv.Bin("windows", "winbox.exe"),
			PowerShell: testenv.Bin("windows", "powershell.exe")}, log)
		must(t, err)
		store, err := image.Open(filepath.Join(cfg.StateDir, "images"), image.Config{
			HostBuild:   cfg.Build,
			Base:        rt.ContainerLayers,
			StandIns:    standIns,
			ExternalDir: cache,
			UID:         wine.ContainerUID,
			GID:         wine.ContainerGID,
			Log:         log,
		})
		must(t, err)
		t.Cleanup(func() { must(t, store.Close()) })
		_, err = standin.Install(ctx, store, standIns, cfg.Build)
		must(t, err)
		cfg.Images, cfg.Engine = store, wineengine.New(rt, cfg.Build)
	})
}

func windowsContainer(name string, args ...string) *runtime.ContainerConfig {
	c := containerConfig(name)
	c.Image.Image, c.Command = servercore, args
	return c
}

func TestWindowsPrograms(t *testing.T) {
	l := newWineLab(t)
	config := sandboxConfig("web")
	sb := l.runSandbox(config)

	t.Run("output, code, environment, directory", func(t *testing.T) {
		c := windowsContainer("a", "cmd", "/c", "echo %GREETING% %COMPUTERNAME% %CD% & exit 259")
		c.Envs = []*runtime.KeyValue{{Key: "Greeting", Value: []byte("hello")}}
		c.WorkingDir = `C:\Windows`
		begin := time.Now()
		id := l.run(sb, c)
		t.Logf("created and started in %v", time.Since(begin))
		got := l.wait(id)
		t.Logf("ended after %v", time.Since(begin))
		if got.ExitCode != 259 || got.Reason != "Error" {
			t.Errorf("%v", got)
		}
		if log := l.logText(config, "a"); !strings.Contains(log, `hello WEB C:\windows`) {
			t.Errorf("log %q", log)
		}
	})
	t.Run("exec and stop", func(t *testing.T) {
		id := l.run(sb, windowsContainer("b", "ping", "-t", "127.0.0.1"))
		begin := time.Now()
		r, err := l.Runtime.ExecSync(t.Context(),
			&runtime.ExecSyncRequest{ContainerId: id, Cmd: []string{"cmd", "/c", "echo from exec & exit 77"},
				Timeout: 60})
		must(t, err)
		t.Logf("exec took %v", time.Since(begin))
		if r.ExitCode != 77 || !strings.Contains(string(r.Stdout), "from exec") {
			t.Errorf("%v", r)
		}
		_, err = l.Runtime.ExecSync(t.Context(),
			&runtime.ExecSyncRequest{ContainerId: id, Cmd: []string{"nonesuch.exe"}})
		if err == nil || !strings.Contains(err.Error(), "The system cannot find the file specified.") {
			t.Errorf("%v", err)
		}
		begin = time.Now()
		_, err = l.Runtime.StopContainer(t.Context(), &runtime.StopContainerRequest{ContainerId: id, Timeout: 20})
		must(t, err)
		t.Logf("stop took %v: %v", time.Since(begin), l.status(id))
	})
	t.Run("no such program", func(t *testing.T) {
		id := l.create(sb, windowsContainer("c", "nonesuch.exe"))
		_, err := l.Runtime.StartContainer(t.Context(), &runtime.StartContainerRequest{ContainerId: id})
		if err == nil || !strings.Contains(err.Error(), "The system cannot find the file specified.") {
			t.Fatalf("%v", err)
		}
		if got := l.status(id); got.Reason != "StartError" || got.ExitCode != 128 {
			t.Errorf("%v", got)
		}
	})
}

func TestAttachWindowsShell(t *testing.T) {
	l := newWineLab(t)
	sb := l.runSandbox(sandboxConfig("web"))
	c := windowsContainer("sh", "cmd", "/Q")
	c.Stdin, c.StdinOnce = true, true
	id := l.run(sb, c)
	in, feed := io.Pipe()
	out := &testenv.Buffer{}
	done := make(chan error, 1)
	go func() {
		done <- l.runtime.Attach(t.Context(), runc.Attach{
			Bundle: l.dir(id, bundleDir),
			Stdin:  in,
			Stdout: out,
			Stderr: out,
		})
	}()
	if _, err := feed.Write([]byte("echo hello\r\n")); err != nil {
		t.Fatal(err)
	}
	// Windows would show a prompt after it; Wine's cmd.exe does not (docs/fidelity/cri.md).
	testenv.Until(l.t, "the answer", func() bool { return strings.Contains(out.String(), "hello\r\n") })
	_ = feed.Close()
	must(t, <-done)
	l.wait(id) // StdinOnce: the shell has read the end of its input
}

// TestTerminalSize: a program sees the size of a client's window, and each
// change of it.
func TestTerminalSize(t *testing.T) {
	l := newWineLab(t)
	sb := l.runSandbox(sandboxConfig("web"))
	id := l.run(sb, windowsContainer("c", "ping", "-t", "127.0.0.1"))
	resize, out := make(chan runc.Size), &testenv.Buffer{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = l.exec(ctx, id, execution{
			args: []string{"powershell", "-Command",
				`while ($true) { $s = $Host.UI.RawUI.WindowSize; Write-Output "<$($s.Width)x$($s.Height)>"; ` +
					`Start-Sleep -Milliseconds 100 }`},
			terminal: true, stdout: out, resize: resize,
		})
	}()
	for _, size := range []runc.Size{{Width: 100, Height: 30}, {Width: 132, Height: 50}, {Width: 60, Height: 20},
		{Width: 61, Height: 20}} {
		resize <- size
		want := fmt.Sprintf("<%dx%d>", size.Width, size.Height)
		testenv.Until(l.t, "size "+want, func() bool { return strings.Contains(out.String(), want) })
	}
	cancel()
	<-done
}
