// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestStorms lets pods without limits of their own take all that they can get. Each is ended
// by its pod's ceiling and says which, and the neighbour goes on answering.
func TestStorms(t *testing.T) {
	l := newLabWith(t, func(c *Config) {
		c.Ceilings = Ceilings{MemoryBytes: 128 << 20, Tasks: 100, DiskBytes: 24 << 20, CPUShares: 512}
	})
	volume := `\var\lib\kubelet\pods\uid-volume\volumes\kubernetes.io~empty-dir\data`
	must(t, os.MkdirAll(filepath.Join(l.drive, strings.ReplaceAll(volume, `\`, "/")), 0o755))
	filler := containerConfig("c", "fill", "/data")
	filler.Mounts = []*runtime.Mount{{HostPath: `C:` + volume, ContainerPath: `C:\data`}}
	pod := l.runSandbox(sandboxConfig("neighbour"))
	neighbour := l.run(pod, containerConfig("c", "sleep"))
	storms := []struct {
		pod             string
		config          *runtime.ContainerConfig
		reason, message string
		id              string
	}{
		{pod: "fork", config: containerConfig("c", "fork"), reason: reasonTasks, message: "at its limit, 100 together"},
		{pod: "memory", config: containerConfig("c", "eat"), reason: reasonOOM,
			message: "without a limit may use on this node, 134217728 bytes"},
		{pod: "drive", config: containerConfig("c", "fill", "/"), reason: reasonDisk,
			message: "a pod on this node may have 25165824"},
		{pod: "flood", config: containerConfig("c", "flood"), reason: reasonDisk,
			message: "a pod on this node may have 25165824"},
		{pod: "volume", config: filler, reason: reasonDisk, message: "a pod on this node may have 25165824"},
	}
	for i := range storms {
		storms[i].id = l.run(l.runSandbox(sandboxConfig(storms[i].pod)), storms[i].config)
	}
	// What a container prints is paid for by its pod.
	groups, err := os.ReadFile("/proc/" + strconv.Itoa(l.conmon(neighbour)) + "/cgroup")
	if want := l.conmonGroup(pod).Path() + "\n"; err != nil || !strings.Contains(string(groups), want) {
		t.Errorf("the neighbour's conmon is in %s (%v), want %s", groups, err, want)
	}
	for _, s := range storms {
		t.Run(s.pod, func(t *testing.T) {
			var st *runtime.ContainerStatus
			testenv.Until(t, "the end of the container", func() bool {
				r, err := l.Runtime.ExecSync(t.Context(), &runtime.ExecSyncRequest{
					ContainerId: neighbour, Cmd: []string{"/guest", "hostname"}, Timeout: 30,
				})
				if err != nil || string(r.Stdout) != "neighbour\n" {
					t.Errorf("the neighbour: %v, %v", r, err)
				}
				st = l.status(s.id)
				return st.State == runtime.ContainerState_CONTAINER_EXITED
			})
			if st.Reason != s.reason || st.ExitCode != 137 || !strings.Contains(st.Message, s.message) {
				t.Errorf("ended with %s, code %d: %s\nwant %s: %s",
					st.Reason, st.ExitCode, st.Message, s.reason, s.message)
			}
		})
	}
	if got := l.status(neighbour); got.State != runtime.ContainerState_CONTAINER_RUNNING {
		t.Errorf("the neighbour: %v", got)
	}
	// What filled the drive is gone, so that the pod can run again.
	if _, err := os.Stat(l.dir(storms[2].id, upperDir)); !os.IsNotExist(err) {
		t.Errorf("the writable layer: %v", err)
	}
	weight, err := os.ReadFile("/sys/fs/cgroup/cpu" + l.cgroups.Path() + "/cpu.shares")
	if err == nil && strings.TrimSpace(string(weight)) != "512" {
		t.Errorf("shares of all pods: %s", weight)
	}
}

// TestLimitWithoutMonitor: a container that a limit ends keeps the reason, also if conmon
// has no time to tell of its end.
func TestLimitWithoutMonitor(t *testing.T) {
	l := newLab(t)
	id := l.run(l.runSandbox(sandboxConfig("limited")), containerConfig("c", "sleep"))
	conmon := l.conmon(id)
	must(t, unix.Kill(conmon, unix.SIGSTOP))
	must(t, l.end(t.Context(), id, reasonOOM, "no memory"))
	must(t, unix.Kill(conmon, unix.SIGKILL))
	var st *runtime.ContainerStatus
	testenv.Until(t, "the end of the container", func() bool {
		st = l.status(id)
		return st.State == runtime.ContainerState_CONTAINER_EXITED
	})
	if st.Reason != reasonOOM || st.ExitCode != 137 || st.Message != "no memory" {
		t.Errorf("ended with %s, code %d: %s", st.Reason, st.ExitCode, st.Message)
	}
}

// TestOwnLimitBeatsCeiling: who says what it needs gets it.
func TestOwnLimitBeatsCeiling(t *testing.T) {
	l := newLabWith(t, func(c *Config) { c.Ceilings.MemoryBytes = 64 << 20 })
	sb := l.runSandbox(sandboxConfig("big"))
	if got := l.memoryCeiling(sb); got != 64<<20 {
		t.Errorf("without containers: %d", got)
	}
	config := containerConfig("c", "sleep")
	config.Windows.Resources.MemoryLimitInBytes = 100 << 20
	id := l.run(sb, config)
	u, err := l.cgroups.Child(sb).Usage()
	if err != nil || u.LimitBytes != 100<<20 {
		t.Errorf("limit of the pod %d, %v", u.LimitBytes, err)
	}
	_, err = l.Runtime.UpdateContainerResources(t.Context(), &runtime.UpdateContainerResourcesRequest{
		ContainerId: id, Windows: &runtime.WindowsContainerResources{MemoryLimitInBytes: 150 << 20},
	})
	must(t, err)
	if u, err = l.cgroups.Child(sb).Usage(); err != nil || u.LimitBytes != 150<<20 {
		t.Errorf("limit of the pod after an update %d, %v", u.LimitBytes, err)
	}
}

func TestTaskWatch(t *testing.T) {
	type look struct{ refused, tasks uint64 }
	at := func(n int, l look) (out []look) {
		for range n {
			out = append(out, l)
		}
		return out
	}
	growing := func(n int) (out []look) {
		for i := range n {
			out = append(out, look{uint64(i + 1), 10})
		}
		return out
	}
	for name, tt := range map[string]struct {
		looks []look
		want  int // the look that ends it, from 1; 0 for none
	}{
		"never":              {at(20, look{0, 100}), 0},
		"once":               {append(at(1, look{3, 100}), at(20, look{3, 50})...), 0},
		"again and again":    {growing(20), stuckLooks},
		"full, and stays so": {at(20, look{1, 96}), stuckLooks},
		"with a pause":       {append(append(growing(stuckLooks-1), look{4, 10}), at(stuckLooks-1, look{9, 99})...), 0},
	} {
		t.Run(name, func(t *testing.T) {
			var w taskWatch
			got := 0
			for i, l := range tt.looks {
				if w.look(l.refused, l.tasks, 100) && got == 0 {
					got = i + 1
				}
			}
			if got != tt.want {
				t.Errorf("ended at look %d, want %d", got, tt.want)
			}
		})
	}
}

func TestOverDisk(t *testing.T) {
	for name, tt := range map[string]struct {
		ceilings Ceilings
		pods     []podDisk
		want     map[string]string // a part of the reason
	}{
		"none":  {Ceilings{}, []podDisk{{"a", 1 << 60}}, nil},
		"below": {Ceilings{DiskBytes: 10, AllDisk: 20}, []podDisk{{"a", 10}, {"b", 10}}, nil},
		"one": {Ceilings{DiskBytes: 10, AllDisk: 50}, []podDisk{{"a", 11}, {"b", 10}}, map[string]string{
			"a": "have 11 bytes; a pod on this node may have 10",
		}},
		"both": {Ceilings{DiskBytes: 10}, []podDisk{{"a", 11}, {"b", 12}}, map[string]string{
			"a": "11", "b": "12",
		}},
		"all together": {Ceilings{DiskBytes: 10, AllDisk: 15}, []podDisk{{"a", 7}, {"b", 9}}, map[string]string{
			"b": "have 16 bytes and may have 15; this pod has most of them, 9",
		}},
		"all, and one is over": {
			Ceilings{DiskBytes: 10, AllDisk: 15}, []podDisk{{"a", 11}, {"b", 9}}, map[string]string{
				"a": "have 11 bytes",
			}},
	} {
		t.Run(name, func(t *testing.T) {
			got := tt.ceilings.overDisk(tt.pods)
			if len(got) != len(tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
			for id, part := range tt.want {
				if !strings.Contains(got[id], part) {
					t.Errorf("%s: %q, want %q", id, got[id], part)
				}
			}
		})
	}
}

func TestIsOwnVolume(t *testing.T) {
	for path, want := range map[string]bool{
		`C:\var\lib\kubelet\pods\u1\volumes\kubernetes.io~empty-dir\x`: true,
		`c:/var/lib/kubelet/pods/u1/volumes/kubernetes.io~empty-dir/x`: true,
		`C:\var\lib\kubelet\pods\u2\volumes\kubernetes.io~empty-dir\x`: false,
		`C:\var\lib\kubelet\pods\u1\volumes\kubernetes.io~projected\x`: false,
		`C:\data`: false,
	} {
		for _, readOnly := range []bool{false, true} {
			m := &runtime.Mount{HostPath: path, Readonly: readOnly}
			if got := isOwnVolume(m, "u1"); got != (want && !readOnly) {
				t.Errorf("%v: %t", m, got)
			}
		}
	}
}
