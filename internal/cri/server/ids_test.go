// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/mount"
	"github.com/mullion-k8s/mullion/internal/cri/store"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

const testAccount = 64000 // linuxEngine.Owner

func TestUserMaps(t *testing.T) {
	inside, outside := map[int]bool{}, map[int]bool{}
	for _, m := range userMaps(testAccount, testFirstUID) {
		for i := range m.Count {
			if inside[m.Inside+i] || outside[m.Outside+i] {
				t.Fatalf("%d to %d is mapped twice", m.Inside+i, m.Outside+i)
			}
			inside[m.Inside+i], outside[m.Outside+i] = true, true
		}
	}
	if len(inside) != 1<<16 || outside[testAccount] {
		t.Errorf("%d ids are mapped; accounts keep theirs: %t", len(inside), outside[testAccount])
	}
}

func TestMapUsers(t *testing.T) {
	const passwd = "root:x:0:0::/:/\nA:x:64000:64000::/:/\nB:x:64031:64031::/:/\nC:x:64032:1::/:/\nnone\n"
	const want = "root:x:0:0::/:/\nA:x:100:64000::/:/\nB:x:131:64031::/:/\nC:x:64032:1::/:/\nnone\n"
	if got := mapUsers(passwd, testAccount, 100); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLowestFree(t *testing.T) {
	for want, taken := range map[int][]int{1: nil, 2: {1, 0, 3}, 4: {3, 2, 1, 9}} {
		if got := lowestFree(taken); got != want {
			t.Errorf("of %v: %d, want %d", taken, got, want)
		}
	}
}

// TestOwnUsers: each pod has users of its own, its containers share them, and what the image
// has belongs to them. So what one pod uses up of what the kernel counts by user, others have.
func TestOwnUsers(t *testing.T) {
	l := newLab(t)
	whoami := func(sandbox, name string) string {
		t.Helper()
		id := l.run(sandbox, containerConfig(name, "sleep"))
		r, err := l.Runtime.ExecSync(t.Context(), &runtime.ExecSyncRequest{
			ContainerId: id, Cmd: []string{"/guest", "whoami"}, Timeout: 10,
		})
		must(t, err)
		return strings.TrimSpace(string(r.Stdout))
	}
	first, second := l.runSandbox(sandboxConfig("first")), l.runSandbox(sandboxConfig("second"))
	line := func(n int) string {
		uid := testFirstUID + n*IDsPerPod
		return fmt.Sprintf("%d 64000 %d", uid, uid)
	}
	// The layer belongs to root; the writable layer's own directory does not.
	for _, tt := range []struct{ sandbox, name, want string }{
		{first, "a", line(0)}, {first, "b", line(0)}, {second, "a", line(1)},
	} {
		uid, _, _ := strings.Cut(tt.want, " ")
		if got := whoami(tt.sandbox, tt.name); got != uid+" 64000 0" {
			t.Errorf("%s: %s, want user %s", tt.name, got, uid)
		}
	}
	hog := l.run(first, containerConfig("hog", "inotify"))
	testenv.Until(t, "all instances", func() bool {
		return strings.Contains(l.logText(sandboxConfig("first"), "hog"), "true")
	})
	other := l.run(second, containerConfig("other", "inotify"))
	testenv.Until(t, "the other pod", func() bool {
		return strings.Contains(l.logText(sandboxConfig("second"), "other"), "true")
	})
	for _, id := range []string{hog, other} {
		if got := l.status(id); got.State != runtime.ContainerState_CONTAINER_RUNNING {
			t.Errorf("%v", got)
		}
	}
	// A range is free when its pod is removed, not before.
	_, err := l.Runtime.StopPodSandbox(t.Context(), &runtime.StopPodSandboxRequest{PodSandboxId: first})
	must(t, err)
	third := l.runSandbox(sandboxConfig("third"))
	_, err = l.Runtime.RemovePodSandbox(t.Context(), &runtime.RemovePodSandboxRequest{PodSandboxId: first})
	must(t, err)
	l.stop()
	l.start() // ranges are in the records
	fourth := l.runSandbox(sandboxConfig("fourth"))
	for id, want := range map[string]int{second: 2, third: 3, fourth: 1} {
		if sb, err := l.store.Sandboxes.Get(id); err != nil || sb.IDRange != want {
			t.Errorf("range %d, %v; want %d", sb.IDRange, err, want)
		}
	}
}

// TestLayersBelongToThePod: what accounts own in the image, the pod's users own, and they may
// change it, in the pod and nowhere else.
func TestLayersBelongToThePod(t *testing.T) {
	l := newLab(t)
	file := filepath.Join(l.images.layer, "data.txt")
	must(t, os.WriteFile(file, []byte("of the image"), 0o644))
	must(t, os.Lchown(file, testAccount, testAccount))
	for _, pod := range []string{"a", "b"} {
		sb := l.runSandbox(sandboxConfig(pod))
		id := l.run(sb, containerConfig("c", "write", "/data.txt", "of pod "+pod))
		if got := l.wait(id); got.ExitCode != 0 {
			t.Errorf("pod %s: %v: %s", pod, got, l.logText(sandboxConfig(pod), "c"))
		}
		content, err := os.ReadFile(l.dir(id, upperDir, "data.txt"))
		if err != nil || string(content) != "of pod "+pod {
			t.Errorf("pod %s has %q, %v", pod, content, err)
		}
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != "of the image" {
		t.Errorf("the image has %q, %v", content, err)
	}
	if left, err := os.ReadDir(l.mappedDir()); err != nil || len(left) > 0 {
		t.Errorf("mounts of layers are left: %v, %v", left, err)
	}
}

// TestSharedVolume: a pod may change what another one has made in a volume.
func TestSharedVolume(t *testing.T) {
	l := newLab(t)
	must(t, os.Mkdir(filepath.Join(l.drive, "shared"), 0o755))
	for _, pod := range []string{"a", "b"} {
		config := containerConfig("c", "write", "/data/dir/file", "of pod "+pod)
		config.Mounts = []*runtime.Mount{{HostPath: `C:\shared`, ContainerPath: `C:\data`}}
		if pod == "a" {
			config.Args = []string{"mkdir", "/data/dir"}
			sb := l.runSandbox(sandboxConfig("first"))
			if got := l.wait(l.run(sb, config)); got.ExitCode != 0 {
				t.Fatalf("make a directory: %v", got)
			}
			config.Args = []string{"write", "/data/dir/file", "of pod a"}
		}
		sb := l.runSandbox(sandboxConfig(pod))
		if got := l.wait(l.run(sb, config)); got.ExitCode != 0 {
			t.Errorf("pod %s: %v: %s", pod, got, l.logText(sandboxConfig(pod), "c"))
		}
	}
	content, err := os.ReadFile(filepath.Join(l.drive, "shared/dir/file"))
	if err != nil || string(content) != "of pod b" {
		t.Errorf("the volume has %q, %v", content, err)
	}
}

// TestMappedLayersOfAKill: a server that was killed while it stacked layers leaves mounts,
// which the next one takes down without touching the layers.
func TestMappedLayersOfAKill(t *testing.T) {
	l := newLab(t)
	l.stop()
	mapped, _, err := mount.Mapped(l.mappedDir(), []string{l.images.layer}, userMaps(testAccount, testFirstUID))
	must(t, err)
	if _, err := os.Stat(filepath.Join(mapped[0], "guest")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(mapped[0], "x"), nil, 0o644); err == nil {
		t.Error("a layer can be written")
	}
	l.start()
	if left, err := os.ReadDir(l.mappedDir()); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(l.images.layer, "guest")); err != nil {
		t.Error(err)
	}
}

// TestOutOfRanges: the error says what to do.
func TestOutOfRanges(t *testing.T) {
	st, _, err := store.Open(t.TempDir())
	must(t, err)
	s := &Server{store: st, cfg: Config{FirstUID: testFirstUID}}
	for i := range podRanges {
		must(t, st.Sandboxes.Reserve(strconv.Itoa(i), "pod-"+strconv.Itoa(i)))
		sb := store.Sandbox{ID: strconv.Itoa(i), Name: "pod-" + strconv.Itoa(i), Config: sandboxConfig("x")}
		must(t, s.reserveIDs(&sb))
	}
	last := store.Sandbox{ID: "last", Name: "last", Config: sandboxConfig("x")}
	if err := s.reserveIDs(&last); !errors.Is(err, errNoIDs) {
		t.Errorf("error %v", err)
	}
	if !slices.ContainsFunc(st.Sandboxes.List(), func(sb store.Sandbox) bool { return sb.IDRange == podRanges }) {
		t.Error("the last range was not used")
	}
}
