// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package programs

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	containername "github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

const (
	postgresPackage = "@embedded-postgres/windows-x64"
	// postgresData is the server's directory, in a claim. It is in the command line of each process of the server.
	postgresData = `C:\data\programs`
	recovery     = "database system was not properly shut down; automatic recovery in progress"
	// postgresRows is how many transactions write one row each.
	postgresRows = 10000
)

// postgresInit initializes the directory at the first start.
const postgresInit = `@echo off
if exist ` + postgresData + `\PG_VERSION exit /b
native\bin\initdb -D ` + postgresData + ` -U postgres -A trust || exit /b 1
echo host all all all trust>>` + postgresData + `\pg_hba.conf
`

const postgresManifest = `
apiVersion: v1
kind: Service
metadata: {name: pg}
spec: {selector: {app: pg}, ports: [{port: 5432}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: pg}
spec:
  serviceName: pg
  selector: {matchLabels: {app: pg}}
  template:
    metadata: {labels: {app: pg}}
    spec:
      os: {name: windows}
      securityContext: {windowsOptions: {runAsUserName: ContainerUser}}
      terminationGracePeriodSeconds: 30
      initContainers:
      - name: init
        image: postgres:1
        command: [cmd, /c, 'C:\app\init.cmd']
        volumeMounts: [{name: data, mountPath: 'C:\data'}]
      containers:
      - name: c
        image: postgres:1
        command: ['C:\app\native\bin\postgres.exe', -D, '` + postgresData + `', -h, 0.0.0.0]
        readinessProbe: {tcpSocket: {port: 5432}, periodSeconds: 1}
        volumeMounts: [{name: data, mountPath: 'C:\data'}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {storageClassName: mullion-local, accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}
`

// postgres runs PostgreSQL on a claim. A client on Linux writes through a Service; then the server is killed, and its
// pod is deleted, and no acknowledged row is lost.
func (l lab) postgres(t *testing.T, packages map[string]pack) {
	t.Helper()
	l.startPostgres(t, packages, postgresManifest)
	l.loadClient(t)
	t.Log(l.client(t, "write", "write", strconv.Itoa(postgresRows)))
	want := fmt.Sprintln(postgresRows, postgresRows*(postgresRows-1)/2)
	if got := l.client(t, "count", "count"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	killed := killAll(t, postgresData)
	if killed == 0 {
		t.Fatal("no process of the server")
	}
	testenv.Eventually(t, "the restart", func() error {
		time.Sleep(pause)
		const restarts = "jsonpath={.status.containerStatuses[0].restartCount}"
		if n := l.kubectl(t, "get", "pod", "pg-0", "-o", restarts); n != "1" {
			return fmt.Errorf("%s restarts", n)
		}
		return nil
	})
	l.ready(t)
	if got := l.client(t, "count-after-kill", "count"); got != want {
		t.Errorf("after kill -9 of %d processes: %q, want %q", killed, got, want)
	}
	l.logs(t, recovery)
	began := time.Now()
	l.kubectl(t, "delete", "pod", "pg-0")
	t.Logf("deleted in %v", time.Since(began).Round(100*time.Millisecond))
	l.ready(t)
	// Each process of the server handles CTRL_SHUTDOWN_EVENT by a note for its main thread (pg_console_handler in
	// src/backend/port/win32/signal.c). Windows ends the process when the handler returns, before a shutdown.
	l.logs(t, recovery)
	if got := l.client(t, "count-after-delete", "count"); got != want {
		t.Errorf("after the pod was deleted: %q, want %q", got, want)
	}
	l.kubectl(t, "delete", "statefulset,service", "pg")
}

// startPostgres starts the server of a manifest, and waits for it.
func (l lab) startPostgres(t testing.TB, packages map[string]pack, manifest string) {
	t.Helper()
	dir := folder(t, program{name: "postgres", npm: []string{postgresPackage}}, packages)
	batch := strings.ReplaceAll(postgresInit, "\n", "\r\n")
	if err := os.WriteFile(filepath.Join(dir, "init.cmd"), []byte(batch), 0o644); err != nil {
		t.Fatal(err)
	}
	l.mullion(t, "load", dir, "--tag", "postgres:1")
	l.apply(t, manifest)
	l.ready(t)
}

func (l lab) ready(t testing.TB) {
	t.Helper()
	l.kubectl(t, "rollout", "status", "statefulset/pg", "--timeout=240s")
}

// logs waits for a text in the server's log: it answers before it has recovered.
func (l lab) logs(t *testing.T, want string) {
	t.Helper()
	testenv.Eventually(t, want, func() error {
		time.Sleep(pause)
		if log := l.kubectl(t, "logs", "pg-0"); !strings.Contains(log, want) {
			return fmt.Errorf("the log has only:\n%s", log)
		}
		return nil
	})
}

// client runs pgclient in a pod of Linux to its end, and returns its output.
func (l lab) client(t *testing.T, name string, args ...string) string {
	t.Helper()
	l.kubectl(t, append([]string{"run", "pg-" + name, "--image=pgclient:1", "--restart=Never", "--env=PGHOST=pg",
		"--"}, args...)...)
	code, log := l.end(t, "pg-"+name)
	if code != 0 {
		t.Fatalf("pgclient %s: exit code %d: %s", args, code, log)
	}
	return log
}

// killAll kills each process of this machine whose command line has the text, without a chance to write anything, and
// returns their number.
func killAll(t *testing.T, text string) int {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range lines {
		line, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(line, []byte(text)) || !bytes.Contains(line, []byte("postgres")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
			n++
		}
	}
	return n
}

// loadClient builds the client, and loads it as an image of Linux.
func (l lab) loadClient(t *testing.T) {
	t.Helper()
	program := buildClient(t)
	archive, err := linuxImage(program, "pgclient:1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.run(t, bytes.NewReader(archive), "load", "-"); err != nil {
		t.Fatal(err)
	}
}

func buildClient(t testing.TB) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "pgclient")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "pgclient", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build pgclient: %v: %s", err, out)
	}
	return program
}

// linuxImage returns the archive of an image with one program.
func linuxImage(program, ref string) ([]byte, error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	if err := w.WriteHeader(&tar.Header{Name: "pgclient", Mode: 0o755, Size: int64(len(content))}); err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files.Bytes())), nil
	})
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config.OS, config.Architecture, config.Config = "linux", "amd64", v1.Config{Entrypoint: []string{"/pgclient"}}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return nil, err
	}
	tag, err := containername.NewTag(ref)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = tarball.Write(tag, img, &out)
	return out.Bytes(), err
}
