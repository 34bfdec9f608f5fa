// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/stream"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

func TestStatusFollowsTheNetworkConfiguration(t *testing.T) {
	l := newLab(t)
	network := func() *runtime.RuntimeCondition {
		r, err := l.Runtime.Status(t.Context(), &runtime.StatusRequest{Verbose: true})
		must(t, err)
		for _, c := range r.Status.Conditions {
			if c.Type == runtime.NetworkReady {
				return c
			}
		}
		t.Fatal("no NetworkReady")
		return nil
	}
	if c := network(); !c.Status {
		t.Errorf("with a configuration: %v", c)
	}
	must(t, os.RemoveAll(filepath.Join(l.drive, "Program Files/containerd/cni/conf")))
	if c := network(); c.Status || c.Reason != "NetworkPluginNotReady" ||
		!strings.Contains(c.Message, "cni plugin not initialized") {
		t.Errorf("without: %v", c)
	}
	v, err := l.Runtime.Version(t.Context(), &runtime.VersionRequest{})
	must(t, err)
	if v.RuntimeName != "mullion" || v.RuntimeApiVersion != "v1" || v.RuntimeVersion != "1.2.3" {
		t.Errorf("version %v", v)
	}
	if _, err := l.Runtime.CheckpointContainer(t.Context(), &runtime.CheckpointContainerRequest{}); status.Code(
		err) != codes.Unimplemented {
		t.Errorf("checkpoint: %v", err)
	}
}

func TestEvents(t *testing.T) {
	l := newLab(t)
	events, err := l.Runtime.GetContainerEvents(t.Context(), &runtime.GetEventsRequest{})
	must(t, err)
	// The stream is open when the server has the listener.
	testenv.Until(l.t, "the listener", func() bool { return l.events.wanted() })
	must(t, l.podLife(t.Context(), "p"))
	var got []string
	var last *runtime.ContainerEventResponse
	for range 8 {
		last, err = events.Recv()
		must(t, err)
		kind := "container"
		if last.ContainerId == last.PodSandboxStatus.GetId() || last.PodSandboxStatus == nil {
			kind = "sandbox"
		}
		got = append(got,
			kind+" "+strings.TrimSuffix(strings.TrimPrefix(last.ContainerEventType.String(), "CONTAINER_"), "_EVENT"))
	}
	want := "sandbox CREATED,sandbox STARTED,container CREATED,container STARTED,container STOPPED,container " +
		"DELETED,sandbox STOPPED,sandbox DELETED"
	if strings.Join(got, ",") != want {
		t.Errorf("events %v", got)
	}
}

func TestStats(t *testing.T) {
	l := newLab(t)
	sb := l.runSandbox(sandboxConfig("p"))
	c := containerConfig("c", "sleep")
	c.Windows.Resources = &runtime.WindowsContainerResources{CpuMaximum: 5000, MemoryLimitInBytes: 256 << 20}
	id := l.run(sb, c)
	r, err := l.Runtime.ContainerStats(t.Context(), &runtime.ContainerStatsRequest{ContainerId: id})
	must(t, err)
	s := r.Stats
	if s.Cpu.GetUsageCoreNanoSeconds().GetValue() == 0 || s.Memory.GetWorkingSetBytes().GetValue() == 0 ||
		s.Memory.GetAvailableBytes().GetValue() >= 256<<20 || s.WritableLayer.GetFsId().GetMountpoint() != imageFS {
		t.Errorf("container %v", s)
	}
	p, err := l.Runtime.ListPodSandboxStats(t.Context(),
		&runtime.ListPodSandboxStatsRequest{
			Filter: &runtime.PodSandboxStatsFilter{LabelSelector: map[string]string{"app": "p"}}})
	must(t, err)
	if len(p.Stats) != 1 {
		t.Fatalf("%d pods", len(p.Stats))
	}
	w := p.Stats[0].Windows
	if w.Memory.GetWorkingSetBytes().GetValue() == 0 || w.Network.GetDefaultInterface().GetRxBytes().GetValue() != 11 ||
		w.Process.GetProcessCount().GetValue() == 0 || len(w.Containers) != 1 {
		t.Errorf("pod %v", w)
	}
	spec, err := l.readSpec(id)
	must(t, err)
	if q := *spec.Linux.Resources.CPU.Quota; q != int64(l.cpus)*50_000 {
		t.Errorf("quota %d", q)
	}
	// New limits reach a running container.
	_, err = l.Runtime.UpdateContainerResources(t.Context(), &runtime.UpdateContainerResourcesRequest{ContainerId: id,
		Windows: &runtime.WindowsContainerResources{MemoryLimitInBytes: 300 << 20}})
	must(t, err)
	if u, err := l.cgroups.Child(sb).Child(id).Usage(); err != nil || u.LimitBytes != 300<<20 {
		t.Errorf("limit after the update: %d, %v", u.LimitBytes, err)
	}
	if got := l.status(id); got.Resources.Windows.MemoryLimitInBytes != 300<<20 {
		t.Errorf("status after the update: %v", got.Resources)
	}
}

func TestExecTimeout(t *testing.T) {
	l := newLab(t)
	id := l.run(l.runSandbox(sandboxConfig("p")), containerConfig("c", "sleep"))
	_, err := l.Runtime.ExecSync(t.Context(),
		&runtime.ExecSyncRequest{ContainerId: id, Cmd: []string{"/guest", "stubborn"}, Timeout: 1})
	if status.Code(err) != codes.DeadlineExceeded || !strings.Contains(err.Error(), "timeout 1s exceeded") {
		t.Errorf("%v", err)
	}
	_, err = l.Runtime.StopContainer(t.Context(), &runtime.StopContainerRequest{ContainerId: id, Timeout: 10})
	must(t, err)
	if _, err := l.Runtime.ExecSync(t.Context(),
		&runtime.ExecSyncRequest{ContainerId: id, Cmd: []string{"/guest"}}); err == nil ||
		!strings.Contains(err.Error(), "container is in CONTAINER_EXITED state") {
		t.Errorf("%v", err)
	}
}

func TestPortForward(t *testing.T) {
	l := newLab(t)
	config := sandboxConfig("p")
	sb := l.runSandbox(config)
	l.run(sb, containerConfig("c", "serve"))
	testenv.Until(l.t, "the server", func() bool { return strings.Contains(l.logText(config, "c"), "started") })
	rec, err := l.sandbox(sb)
	must(t, err)
	conn, err := stream.Dial(t.Context(), l.networkPath(rec), nil, 8080)
	must(t, err)
	client := &loopback{in: bytes.NewBufferString("ping")}
	must(t, stream.Join(t.Context(), client, conn))
	if client.out.String() != "ping" {
		t.Errorf("echo %q", client.out.String())
	}
	if _, err := stream.Dial(t.Context(), l.networkPath(rec), nil, 8081); err == nil {
		t.Error("a closed port answers")
	}
	if _, err := stream.Dial(t.Context(), l.networkPath(rec), nil, 70000); err == nil {
		t.Error("a port that does not exist answers")
	}
}

// loopback is a client that says something and listens.
type loopback struct {
	in  *bytes.Buffer
	out bytes.Buffer
}

func (l *loopback) Read(p []byte) (int, error)  { return l.in.Read(p) }
func (l *loopback) Write(p []byte) (int, error) { return l.out.Write(p) }
func (l *loopback) Close() error                { return nil }

func TestScratchLimit(t *testing.T) {
	l := newLab(t)
	sb := l.runSandbox(sandboxConfig("p"))
	c := containerConfig("c", "sleep")
	c.Windows.Resources.RootfsSizeInBytes = 1 << 20
	id := l.run(sb, c)
	must(t, os.WriteFile(l.dir(id, upperDir, "big"), bytes.Repeat([]byte{1}, 2<<20), 0o644))
	l.samples.forget(id) // as if the last look were long ago
	if got := l.wait(id); !strings.Contains(got.Message, "not enough space on the disk") || got.ExitCode != 137 {
		t.Errorf("%v", got)
	}
}

func TestErrorsAreTranslated(t *testing.T) {
	s := &Server{cfg: Config{Engine: linuxEngine{}, StateDir: "/state", RunDir: "/run", Drive: "/drive"}}
	for want, err := range map[codes.Code]error{
		codes.OK: nil, codes.Unknown: errors.New("x"), codes.InvalidArgument: invalid{errors.New("x")},
		codes.Aborted: status.Error(codes.Aborted, "x"),
	} {
		if got := status.Code(s.toStatus(err)); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}

// TestExitsAreForgotten: nothing is kept of a container that was removed.
func TestExitsAreForgotten(t *testing.T) {
	l := newLab(t)
	sandbox := l.runSandbox(sandboxConfig("forgotten"))
	for i := range 5 {
		id := l.run(sandbox, containerConfig(fmt.Sprint("main", i), "exit", "0"))
		l.wait(id)
		_, err := l.Runtime.StopContainer(t.Context(), &runtime.StopContainerRequest{ContainerId: id, Timeout: 1})
		must(t, err)
		_, err = l.Runtime.RemoveContainer(t.Context(), &runtime.RemoveContainerRequest{ContainerId: id})
		must(t, err)
	}
	l.exits.mu.Lock()
	defer l.exits.mu.Unlock()
	if n := len(l.exits.waiting); n != 0 {
		t.Errorf("%d containers are still waited for", n)
	}
}
