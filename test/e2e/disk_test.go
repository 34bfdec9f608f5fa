// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/cri/image/imagebuild"
)

// A critical pod is not evicted when the disk is full.
const diskYAML = `
apiVersion: v1
kind: Pod
metadata: {name: writer, namespace: kube-system}
spec:
  os: {name: windows}
  nodeName: win-1
  priorityClassName: system-node-critical
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: "example.test/winprog:v1", imagePullPolicy: Never, args: [wait]}
`

// TestDiskFull puts a cluster on a separate disk and fills it. Operations that
// need space report that there is none; acknowledged writes survive; and once
// there is space again, everything recovers by itself.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	dir := ownCluster(t)
	s := newSingle(t, "full", dir, 23)
	s.smallDisk(1 << 30)
	s.mullion("up")
	s.load("example.test/winprog:v1", winprogSpec(t))
	s.applyPod(diskYAML)
	s.mullion("kubectl", "wait", "-n", "kube-system", "--for=condition=Ready", "pod/writer", "--timeout=180s")
	write := func() string {
		// Without room the exec itself may fail, and says so.
		out, _ := s.try(nil, "kubectl", "exec", "-n", "kube-system", "writer", "--", `C:\app\winprog.exe`, "write",
			`C:\app\file`)
		return strings.TrimSpace(out)
	}
	if got := write(); got != "write: 0 <nil>" {
		t.Fatalf("with room: %q", got)
	}

	free := s.fill()
	// The disk of the host has no room to grow: the host ends before it loses anything, and says what to do.
	eventually(t, time.Minute, "the host ends", func() error {
		if out, _ := s.try(nil, "status"); !strings.Contains(out, "the machine's disk has only") {
			return fmt.Errorf("status: %s", out)
		}
		return nil
	})
	tar := layoutOf(t, "example.test/late:v1", randomSpec(t, 1<<20))
	if out, err := s.try(tar, "load", "-"); err == nil {
		t.Errorf("load onto a full disk: %v: %s", err, out)
	}
	var acknowledged []string
	for i := range 10 {
		name := fmt.Sprintf("kept-%d", i)
		if _, err := s.try(nil, "kubectl", "create", "configmap", name, "--from-literal=a="+
			strings.Repeat("x", 1000)); err == nil {
			acknowledged = append(acknowledged, name)
		}
	}
	free()

	eventually(t, 90*time.Second, "everything ready again", func() error {
		out, err := s.try(nil, "status")
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
	have := s.mullion("kubectl", "get", "configmaps", "-o", "name") + "\n"
	for _, name := range acknowledged {
		if !strings.Contains(have, "configmap/"+name+"\n") {
			t.Errorf("%s was acknowledged and is gone", name)
		}
	}
	eventually(t, 90*time.Second, "the container runs again", func() error {
		if got := write(); got != "write: 0 <nil>" {
			return fmt.Errorf("with room again: %q", got)
		}
		return nil
	})
	if out, err := s.try(tar, "load", "-"); err != nil {
		t.Errorf("load with room again: %v: %s", err, out)
	}
}

// smallDisk puts the cluster's directory onto a file system of its own.
func (s single) smallDisk(size int) {
	s.t.Helper()
	dir := s.dir()
	config, err := os.ReadFile(filepath.Join(dir, "cluster.json"))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := unix.Mount("full", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size)); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cluster.json"), config, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// fill leaves no byte on the cluster's disk; free gives the room back.
func (s single) fill() (free func()) {
	s.t.Helper()
	f, err := os.Create(filepath.Join(s.dir(), "ballast"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	// In smaller and smaller pieces, because others write, too.
	for piece := 1 << 20; piece >= 1<<12; {
		if _, err := f.Write(make([]byte, piece)); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				s.t.Fatal(err)
			}
			piece /= 16
		}
	}
	return func() {
		if err := os.Remove(f.Name()); err != nil {
			s.t.Error(err)
		}
	}
}

// randomSpec returns an image with a layer that does not compress.
func randomSpec(t *testing.T, size int) imagebuild.Spec {
	content := make([]byte, size)
	_, _ = rand.Read(content) // never fails
	return imagebuild.Spec{
		Build: build2019(t), Base: "servercore", Config: v1.Config{Cmd: []string{"cmd.exe"}},
		Layers: []imagebuild.Layer{{Entries: []imagebuild.Entry{{Path: "app/random", Content: content}}}},
	}
}

func layoutOf(t *testing.T, ref string, spec imagebuild.Spec) []byte {
	t.Helper()
	img := buildImage(t, spec)
	return archive(t, func(b *bytes.Buffer) error {
		return imagebuild.WriteLayout(b, map[string]*imagebuild.Image{ref: img})
	})
}

// try runs a command with an input and returns what it prints.
func (s single) try(stdin []byte, args ...string) (string, error) {
	cmd := s.command(s.t.Context(), args...)
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (s single) load(ref string, spec imagebuild.Spec) {
	s.t.Helper()
	if out, err := s.try(layoutOf(s.t, ref, spec), "load", "-"); err != nil {
		s.t.Fatalf("load %s: %v: %s", ref, err, out)
	}
}

// applyPod applies a manifest. In a new cluster the account that pods need is
// made a moment after its namespace.
func (s single) applyPod(manifest string) {
	s.t.Helper()
	eventually(s.t, 20*time.Second, "apply", func() error {
		out, err := s.try([]byte(manifest), "kubectl", "apply", "-f", "-")
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
}
