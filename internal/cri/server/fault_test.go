// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/mount"
	"github.com/mullion-k8s/mullion/internal/cri/store"
	"github.com/mullion-k8s/mullion/internal/fault"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// podLife goes through everything that changes something. Each step may be
// called again after it has failed, as the kubelet does.
func (l *lab) podLife(ctx context.Context, name string) error {
	config := sandboxConfig(name)
	sb, err := l.RunPodSandbox(ctx, &runtime.RunPodSandboxRequest{Config: config})
	if err != nil {
		return fmt.Errorf("run sandbox: %w", err)
	}
	c, err := l.CreateContainer(ctx, &runtime.CreateContainerRequest{PodSandboxId: sb.PodSandboxId,
		Config: containerConfig("c", "sleep")})
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if _, err := l.StartContainer(ctx, &runtime.StartContainerRequest{ContainerId: c.ContainerId}); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if _, err := l.StopContainer(ctx, &runtime.StopContainerRequest{ContainerId: c.ContainerId}); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	if _, err := l.RemoveContainer(ctx, &runtime.RemoveContainerRequest{ContainerId: c.ContainerId}); err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	if _, err := l.StopPodSandbox(ctx, &runtime.StopPodSandboxRequest{PodSandboxId: sb.PodSandboxId}); err != nil {
		return fmt.Errorf("stop sandbox: %w", err)
	}
	if _, err := l.RemovePodSandbox(ctx, &runtime.RemovePodSandboxRequest{PodSandboxId: sb.PodSandboxId}); err != nil {
		return fmt.Errorf("remove sandbox: %w", err)
	}
	return nil
}

// points are all places where a pod's life can fail.
func (l *lab) points() []string {
	l.t.Helper()
	set := fault.NewSet()
	must(l.t, l.podLife(fault.With(l.t.Context(), set), "survey"))
	l.nothingLeft()
	seen := map[string]bool{}
	var out []string
	for _, p := range set.Reached() {
		if !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	if len(out) < 12 {
		l.t.Fatalf("only %d points: %v", len(out), out)
	}
	return out
}

// TestEveryPointFails makes each step fail: the error is reported, the kubelet's
// clean-up removes everything, and the same pod can be made again.
func TestEveryPointFails(t *testing.T) {
	l := newLab(t)
	for _, p := range l.points() {
		t.Run(p, func(t *testing.T) {
			err := l.podLife(fault.With(t.Context(), fault.NewSet(p)), "pod")
			if !errors.Is(err, fault.ErrInjected) &&
				(err == nil || !strings.Contains(err.Error(), fault.ErrInjected.Error())) {
				t.Errorf("error %v", err)
			}
			for _, sb := range l.store.Sandboxes.List() {
				_, err := l.RemovePodSandbox(t.Context(), &runtime.RemovePodSandboxRequest{PodSandboxId: sb.ID})
				must(t, err)
			}
			l.nothingLeft()
			if err := l.podLife(t.Context(), "pod"); err != nil {
				t.Errorf("again: %v", err)
			}
			l.nothingLeft()
		})
	}
}

var errKilled = errors.New("killed")

// TestEveryPointKilled ends the server at each step as kill -9 would: nothing
// is taken back. Another one starts on what is left.
func TestEveryPointKilled(t *testing.T) {
	l := newLab(t)
	for _, p := range l.points() {
		t.Run(p, func(t *testing.T) {
			// A panic runs no inverse: the named error is still nil.
			l.onFault = func() { panic(errKilled) }
			func() {
				defer func() {
					if r := recover(); r != errKilled { //nolint:errorlint // the very value
						t.Errorf("not killed: %v", r)
					}
				}()
				_ = l.podLife(fault.With(t.Context(), fault.NewSet(p)), "pod")
			}()
			l.stop()
			l.start()
			// What was half made is gone by itself; what was whole the kubelet removes.
			testenv.Until(l.t, "the sweep", func() bool {
				for _, sb := range l.store.Sandboxes.List() {
					if sb.Made == 0 || sb.Removing || sb.Stopped != 0 && sb.NamespaceID != "" {
						return false
					}
				}
				return true
			})
			for _, sb := range l.store.Sandboxes.List() {
				_, err := l.Runtime.RemovePodSandbox(t.Context(), &runtime.RemovePodSandboxRequest{PodSandboxId: sb.ID})
				must(t, err)
			}
			l.nothingLeft()
			if err := l.podLife(t.Context(), "pod"); err != nil {
				t.Errorf("again: %v", err)
			}
			l.nothingLeft()
		})
	}
}

func TestRestart(t *testing.T) {
	l := newLab(t)
	ctx := t.Context()
	sb := l.runSandbox(sandboxConfig("p"))
	lives := l.run(sb, containerConfig("lives", "sleep"))
	ends := l.run(sb, containerConfig("ends", "sleep"))
	created := l.create(sb, containerConfig("created", "sleep"))
	vanishes := l.run(sb, containerConfig("vanishes", "sleep"))
	started := l.run(sb, containerConfig("started", "sleep"))
	before := l.status(lives)
	l.stop()

	// Meanwhile: one ends, one loses its conmon, and the record of one is as a
	// kill between `runc start` and the record leaves it.
	must(t, l.runtime.Kill(ctx, ends, unix.SIGTERM))
	kill(t, l.conmon(vanishes))
	c, err := l.store.Containers.Get(started)
	must(t, err)
	c.Started, c.PID = 0, 0
	must(t, l.store.Containers.Put(c))
	// Half-created and half-removed objects, and objects without a record.
	must(t, l.store.Containers.Put(store.Container{
		ID:        "half",
		Name:      "half",
		SandboxID: sb,
		Config:    containerConfig("x"),
	}))
	must(t, os.MkdirAll(filepath.Join(l.cfg.StateDir, "containers", "leftover", rootDir), 0o755))
	must(t, unix.Mount("tmpfs", filepath.Join(l.cfg.StateDir, "containers", "leftover", rootDir), "tmpfs", 0, ""))
	must(t, os.MkdirAll(filepath.Join(l.cfg.StateDir, "sandboxes", "leftover"), 0o755))
	orphan, err := l.namespaces.CreateNamespace(ctx)
	must(t, err)
	l.images.holds["unknown"] = l.images.list[0].ID
	l.start()

	after := l.status(lives)
	if after.State != runtime.ContainerState_CONTAINER_RUNNING || after.StartedAt != before.StartedAt {
		t.Errorf("the running container: %v", after)
	}
	r, err := l.Runtime.ExecSync(ctx, &runtime.ExecSyncRequest{ContainerId: lives, Cmd: []string{"/guest", "hostname"}})
	if err != nil || string(r.Stdout) != "p\n" {
		t.Errorf("exec in an adopted container: %v, %v", r, err)
	}
	if got := l.wait(ends); got.ExitCode != 7 {
		t.Errorf("ended meanwhile: %v", got)
	}
	if got := l.wait(vanishes); got.Reason != "Unknown" || got.ExitCode != 255 {
		t.Errorf("lost its monitor: %v", got)
	}
	if got := l.status(started); got.State != runtime.ContainerState_CONTAINER_RUNNING || got.StartedAt == 0 {
		t.Errorf("started, but not recorded: %v", got)
	}
	l.startContainerOK(created)
	if _, err := l.store.Containers.Get("half"); err == nil {
		t.Error("a half-made container is still there")
	}
	for _, id := range l.namespaces.Namespaces() {
		if id == orphan {
			t.Error("an orphan namespace is still there")
		}
	}
	if exists(l.dir("leftover")) || exists(l.store.Sandboxes.Dir("leftover")) {
		t.Error("leftovers are still there")
	}
	if len(l.images.Holders(l.images.list[0].ID)) != 5 {
		t.Errorf("holds %v", l.images.holds)
	}
	_, err = l.Runtime.RemovePodSandbox(ctx, &runtime.RemovePodSandboxRequest{PodSandboxId: sb})
	must(t, err)
	l.nothingLeft()
}

// TestReboot starts after the machine went down: no process, no mount and no
// namespace has survived, but all records have.
func TestReboot(t *testing.T) {
	l := newLab(t)
	sb := l.runSandbox(sandboxConfig("p"))
	id := l.run(sb, containerConfig("c", "sleep"))
	l.stop()
	st, err := l.runtime.States(t.Context())
	must(t, err)
	kill(t, l.conmon(id))
	kill(t, st[id].PID)
	testenv.Until(l.t, "the end of the program", func() bool { return unix.Kill(st[id].PID, 0) == unix.ESRCH })
	// A process of the new life has the PID of the old conmon.
	must(t, os.WriteFile(l.dir(id, bundleDir, "conmon.pid"), fmt.Appendln(nil, os.Getpid()), 0o600))
	must(t, l.hostCgroup().Remove())
	must(t, mount.Unmount(l.dir(id, rootDir)))
	must(t, os.RemoveAll(l.cfg.RunDir))
	for _, ns := range l.namespaces.Namespaces() {
		must(t, unix.Unmount(l.namespaces.NamespacePath(ns), unix.MNT_DETACH))
	}
	l.start()
	if got := l.status(id); got.State != runtime.ContainerState_CONTAINER_EXITED || got.Reason != "Unknown" {
		t.Errorf("container %v", got)
	}
	r, err := l.Runtime.PodSandboxStatus(t.Context(), &runtime.PodSandboxStatusRequest{PodSandboxId: sb})
	must(t, err)
	if r.Status.State != runtime.PodSandboxState_SANDBOX_NOTREADY {
		t.Errorf("sandbox %v", r.Status)
	}
	testenv.Until(l.t, "the address to be given back", func() bool { return len(l.plugins.Held()) == 0 })
	_, err = l.Runtime.RemovePodSandbox(t.Context(), &runtime.RemovePodSandboxRequest{PodSandboxId: sb})
	must(t, err)
	l.nothingLeft()
}

// TestFailingPlugin keeps a sandbox until its network could be taken down.
func TestFailingPlugin(t *testing.T) {
	l := newLab(t)
	l.plugins.Fail = func(string) error { return errors.New("plugin is broken") }
	if _, err := l.Runtime.RunPodSandbox(t.Context(),
		&runtime.RunPodSandboxRequest{Config: sandboxConfig("p")}); err == nil ||
		!strings.Contains(err.Error(), "plugin is broken") {
		t.Fatalf("%v", err)
	}
	list, err := l.Runtime.ListPodSandbox(t.Context(), &runtime.ListPodSandboxRequest{})
	must(t, err)
	if len(list.Items) != 1 || list.Items[0].State != runtime.PodSandboxState_SANDBOX_NOTREADY {
		t.Errorf("a sandbox that could not be taken back is hidden: %v", list.Items)
	}
	l.plugins.Fail = nil
	testenv.Until(l.t, "the sweep", func() bool { return len(l.store.Sandboxes.List()) == 0 })
	l.nothingLeft()
}

// kill ends a process. Without one the signal would go to the test's own group.
func kill(t *testing.T, pid int) {
	t.Helper()
	if pid <= 0 {
		t.Fatal("the process has ended already")
	}
	must(t, unix.Kill(pid, unix.SIGKILL))
}
