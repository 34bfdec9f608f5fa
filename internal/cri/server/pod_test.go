// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

func TestPodLifecycle(t *testing.T) {
	l := newLab(t)
	ctx := t.Context()
	config := sandboxConfig("web")
	sb := l.runSandbox(config)

	st, err := l.Runtime.PodSandboxStatus(ctx, &runtime.PodSandboxStatusRequest{PodSandboxId: sb, Verbose: true})
	must(t, err)
	if st.Status.State != runtime.PodSandboxState_SANDBOX_READY || st.Status.Network.Ip != "10.244.0.2" {
		t.Errorf("sandbox %v", st.Status)
	}
	if _, err := l.Runtime.RunPodSandbox(ctx, &runtime.RunPodSandboxRequest{Config: config}); status.Code(
		err) != codes.AlreadyExists {
		t.Errorf("the same sandbox again: %v", err)
	}

	id := l.create(sb, containerConfig("c", "echo", "hello", "pod"))
	if got := l.status(id); got.State != runtime.ContainerState_CONTAINER_CREATED {
		t.Errorf("after create: %v", got)
	}
	l.startContainerOK(id)
	got := l.wait(id)
	if got.ExitCode != 0 || got.Reason != "Completed" || got.StartedAt < got.CreatedAt ||
		got.FinishedAt < got.StartedAt {
		t.Errorf("after the end: %v", got)
	}
	if got.LogPath != `\var\log\pods\ns_web\c\0.log` || got.Image.Image != testImage ||
		!strings.HasPrefix(got.ImageRef, "example.test/guest@sha256:") {
		t.Errorf("status %v", got)
	}
	log := l.logText(config, "c")
	if !strings.Contains(log, " stdout F hello pod\n") || !strings.Contains(log, " stderr F to stderr\n") {
		t.Errorf("log %q", log)
	}

	second := l.run(sb, containerConfig("d", "sleep"))
	r, err := l.Runtime.ExecSync(ctx, &runtime.ExecSyncRequest{ContainerId: second, Cmd: []string{"/guest", "hostname"},
		Timeout: 10})
	must(t, err)
	if string(r.Stdout) != "web\n" || r.ExitCode != 0 {
		t.Errorf("exec %v", r)
	}
	list, err := l.Runtime.ListContainers(ctx, &runtime.ListContainersRequest{Filter: &runtime.ContainerFilter{
		PodSandboxId: sb, State: &runtime.ContainerStateValue{State: runtime.ContainerState_CONTAINER_RUNNING}}})
	must(t, err)
	if len(list.Containers) != 1 || list.Containers[0].Id != second {
		t.Errorf("running: %v", list.Containers)
	}
	_, err = l.Runtime.StopContainer(ctx, &runtime.StopContainerRequest{ContainerId: second, Timeout: 20})
	must(t, err)
	if got := l.status(second); got.ExitCode != 7 || got.Reason != "Error" {
		t.Errorf("after a graceful stop: %v", got)
	}
	for range 2 {
		_, err = l.Runtime.RemoveContainer(ctx, &runtime.RemoveContainerRequest{ContainerId: id})
		must(t, err)
	}
	if _, err := l.Runtime.ContainerStatus(ctx, &runtime.ContainerStatusRequest{ContainerId: id}); status.Code(
		err) != codes.NotFound {
		t.Errorf("status after removal: %v", err)
	}
	for range 2 {
		_, err = l.Runtime.StopPodSandbox(ctx, &runtime.StopPodSandboxRequest{PodSandboxId: sb})
		must(t, err)
	}
	st, err = l.Runtime.PodSandboxStatus(ctx, &runtime.PodSandboxStatusRequest{PodSandboxId: sb})
	must(t, err)
	if st.Status.State != runtime.PodSandboxState_SANDBOX_NOTREADY || len(l.plugins.Held()) != 0 {
		t.Errorf("after stop: %v", st.Status)
	}
	for range 2 {
		_, err = l.Runtime.RemovePodSandbox(ctx, &runtime.RemovePodSandboxRequest{PodSandboxId: sb})
		must(t, err)
	}
	l.nothingLeft()
}

func TestExitCodes(t *testing.T) {
	l := newLab(t)
	sb := l.runSandbox(sandboxConfig("p"))
	for i, tt := range []struct {
		arg    string
		want   int32
		reason string
	}{{"0", 0, "Completed"}, {"3", 3, "Error"}, {"256", 256, "Error"}, {"3221225786", -1073741510, "Error"}} {
		c := containerConfig("c", "exit", tt.arg)
		c.Metadata.Attempt = uint32(i)
		if got := l.wait(l.run(sb, c)); got.ExitCode != tt.want || got.Reason != tt.reason {
			t.Errorf("exit %s: %d %s", tt.arg, got.ExitCode, got.Reason)
		}
	}
	keep := l.run(sb, containerConfig("keep", "sleep"))
	r, err := l.Runtime.ExecSync(t.Context(),
		&runtime.ExecSyncRequest{ContainerId: keep, Cmd: []string{"/guest", "exit", "3221225786"}})
	if err != nil || r.ExitCode != -1073741510 {
		t.Errorf("exec: %v, %v", r, err)
	}
}

func TestStopIsForcedAfterTheGracePeriod(t *testing.T) {
	l := newLab(t)
	config := sandboxConfig("p")
	sb := l.runSandbox(config)
	id := l.run(sb, containerConfig("c", "stubborn"))
	testenv.Until(l.t, "the program", func() bool { return strings.Contains(l.logText(config, "c"), "started") })
	_, err := l.Runtime.StopContainer(t.Context(), &runtime.StopContainerRequest{ContainerId: id, Timeout: 1})
	must(t, err)
	if got := l.status(id); got.ExitCode != 137 || got.Reason != "Error" {
		t.Errorf("%v", got)
	}
}

// TestStopIsAskedAgain: a request that came before the program could take it is not lost.
func TestStopIsAskedAgain(t *testing.T) {
	l := newLab(t)
	config := sandboxConfig("p")
	id := l.run(l.runSandbox(config), containerConfig("c", "late"))
	testenv.Until(l.t, "the program", func() bool { return strings.Contains(l.logText(config, "c"), "started") })
	_, err := l.Runtime.StopContainer(t.Context(), &runtime.StopContainerRequest{ContainerId: id, Timeout: 300})
	must(t, err)
	if got := l.status(id); got.ExitCode != 7 {
		t.Errorf("%v", got)
	}
}

func TestOutOfMemory(t *testing.T) {
	l := newLab(t)
	sb := l.runSandbox(sandboxConfig("p"))
	c := containerConfig("c", "eat")
	c.Windows.Resources.MemoryLimitInBytes = 64 << 20
	if got := l.wait(l.run(sb, c)); got.Reason != "OOMKilled" || got.ExitCode != 137 {
		t.Errorf("%v", got)
	}
}

func TestContainerIsConfined(t *testing.T) {
	l := newLab(t)
	config := sandboxConfig("p")
	sb := l.runSandbox(config)
	if got := l.wait(l.run(sb, containerConfig("c", "confined"))); got.ExitCode != 0 {
		t.Errorf("%d ways out:\n%s", got.ExitCode, l.logText(config, "c"))
	}
}

func TestStartErrors(t *testing.T) {
	l := newLab(t)
	sb := l.runSandbox(sandboxConfig("p"))
	for name, tt := range map[string]struct {
		change func(*runtime.ContainerConfig)
		want   string
	}{
		"no program": {func(c *runtime.ContainerConfig) { c.Command = []string{"/none"} }, "/none"},
		"other build": {func(c *runtime.ContainerConfig) {
			c.Image.Image = "example.test/other-build:1"
		}, "The container operating system does not match the host operating system."},
	} {
		t.Run(name, func(t *testing.T) {
			c := containerConfig(strings.ReplaceAll(name, " ", "-"), "sleep")
			tt.change(c)
			id := l.create(sb, c)
			_, err := l.Runtime.StartContainer(t.Context(), &runtime.StartContainerRequest{ContainerId: id})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("start: %v", err)
			}
			got := l.status(id)
			if got.State != runtime.ContainerState_CONTAINER_EXITED || got.Reason != "StartError" ||
				got.ExitCode != 128 || !strings.Contains(got.Message, tt.want) {
				t.Errorf("status %v", got)
			}
			if _, err := l.Runtime.StartContainer(t.Context(),
				&runtime.StartContainerRequest{ContainerId: id}); err == nil {
				t.Error("a failed container starts again")
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	l := newLab(t)
	ctx := t.Context()
	for handler, want := range map[string]string{"gvisor": `no runtime for "gvisor" is configured`,
		"runhcs-wcow-hypervisor": "hypervisor isolation is not emulated"} {
		if _, err := l.Runtime.RunPodSandbox(ctx, &runtime.RunPodSandboxRequest{Config: sandboxConfig("p"),
			RuntimeHandler: handler}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("handler %s: %v", handler, err)
		}
	}
	r, err := l.Runtime.RunPodSandbox(ctx, &runtime.RunPodSandboxRequest{Config: sandboxConfig("p"),
		RuntimeHandler: "example-container-runtime-handler"})
	must(t, err)
	sb := r.PodSandboxId
	for name, tt := range map[string]struct {
		change func(*runtime.ContainerConfig)
		code   codes.Code
		want   string
	}{
		"drive C": {func(c *runtime.ContainerConfig) {
			c.Mounts = []*runtime.Mount{{ContainerPath: "c:", HostPath: `C:\x`}}
		}, codes.InvalidArgument, "destination path can not be C drive"},
		"root": {func(c *runtime.ContainerConfig) {
			c.Mounts = []*runtime.Mount{{ContainerPath: `C:\.`, HostPath: `C:\x`}}
		}, codes.InvalidArgument, "destination path can not be C drive"},
		"other drive": {func(c *runtime.ContainerConfig) {
			c.Mounts = []*runtime.Mount{{ContainerPath: `D:\x`, HostPath: `C:\x`}}
		}, codes.InvalidArgument, "no drive D:"},
		"pipe": {func(c *runtime.ContainerConfig) {
			c.Mounts = []*runtime.Mount{{ContainerPath: `\\.\pipe\x`, HostPath: `\\.\pipe\x`}}
		}, codes.InvalidArgument, "named pipes"},
		"image volume": {func(c *runtime.ContainerConfig) {
			c.Mounts = []*runtime.Mount{{ContainerPath: `C:\x`, Image: &runtime.ImageSpec{Image: "x"}}}
		}, codes.InvalidArgument, "image volumes"},
		"no image": {func(c *runtime.ContainerConfig) { c.Image.Image = "example.test/none:1" },
			codes.NotFound, "none"},
		"host process": {func(c *runtime.ContainerConfig) {
			c.Windows.SecurityContext = &runtime.WindowsContainerSecurityContext{HostProcess: true}
		}, codes.InvalidArgument, "HostProcess"},
	} {
		t.Run(name, func(t *testing.T) {
			c := containerConfig("c", "sleep")
			tt.change(c)
			_, err := l.Runtime.CreateContainer(ctx, &runtime.CreateContainerRequest{PodSandboxId: sb, Config: c})
			if status.Code(err) != tt.code || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v", err)
			}
		})
	}
	if got := l.store.Containers.List(); len(got) != 0 {
		t.Errorf("refused containers left records: %v", got)
	}
}

func TestMounts(t *testing.T) {
	l := newLab(t)
	config := sandboxConfig("p")
	sb := l.runSandbox(config)
	pods := filepath.Join(l.drive, "var/lib/kubelet/pods/u")
	must(t, os.MkdirAll(filepath.Join(pods, "volumes/cm/..2026_1"), 0o755))
	must(t, os.WriteFile(filepath.Join(pods, "volumes/cm/..2026_1/key"), []byte("from configMap;"), 0o644))
	must(t, os.Symlink(`..2026_1`, filepath.Join(pods, "volumes/cm/..data")))
	must(t, os.Symlink("..data/key", filepath.Join(pods, "volumes/cm/key")))
	must(t, os.Symlink(`C:\var\lib\kubelet\pods\u\volumes\cm`, filepath.Join(pods, "volumes/absolute")))
	must(t, os.MkdirAll(filepath.Join(pods, "volumes/empty"), 0o755))
	must(t, os.WriteFile(filepath.Join(pods, "etc-hosts"), []byte("10.0.0.1 known;"), 0o644))
	c := containerConfig("c", "read", "/single", "/DATA/Sub/key", "/etc/hosts", "/windows/System32/drivers/etc/hosts",
		"/etc/resolv.conf")
	c.Mounts = []*runtime.Mount{
		{ContainerPath: `C:\single`, HostPath: `C:\var\lib\kubelet\pods\u\volumes\cm\key`, Readonly: true},
		{ContainerPath: "C:/DATA/Sub", HostPath: `c:\VAR\lib\kubelet\pods\u\volumes\absolute`, Readonly: true},
		{ContainerPath: `\data2`, HostPath: `\var\lib\kubelet\pods\u\volumes\empty`},
		{ContainerPath: `C:\Windows\System32\drivers\etc\hosts`, HostPath: `C:\var\lib\kubelet\pods\u\etc-hosts`},
		{ContainerPath: `/made`, HostPath: `C:\made\by\containerd`},
	}
	if got := l.wait(l.run(sb, c)); got.ExitCode != 0 {
		t.Errorf("exit %d", got.ExitCode)
	}
	log := l.logText(config, "c")
	for want, times := range map[string]int{"from configMap;": 2, "10.0.0.1 known;": 2, "nameserver 10.96.0.10": 1,
		"search ns.svc.cluster.local": 1} {
		if strings.Count(log, want) != times {
			t.Errorf("want %q %d times:\n%s", want, times, log)
		}
	}
	if info, err := os.Stat(filepath.Join(l.drive, "made/by/containerd")); err != nil || !info.IsDir() {
		t.Errorf("a missing host path is not a directory now: %v", err)
	}
	for i, tt := range []struct {
		name string
		code int32
	}{{"/data2/file", 0}, {"/DATA/Sub/file", 1}, {"/single", 1}, {"/made/file", 0}} {
		w := containerConfig("w", "write", tt.name, "x")
		w.Mounts, w.Metadata.Attempt = c.Mounts, uint32(i)
		if got := l.wait(l.run(sb, w)); got.ExitCode != tt.code {
			t.Errorf("write %s: exit %d", tt.name, got.ExitCode)
		}
	}
}

// TestMountsArePinned: a container that may write to a volume cannot lead the
// mount of another one elsewhere, neither before nor after its creation.
func TestMountsArePinned(t *testing.T) {
	l := newLab(t)
	config := sandboxConfig("p")
	sb := l.runSandbox(config)
	volume := filepath.Join(l.drive, "volume")
	must(t, os.MkdirAll(filepath.Join(volume, "sub"), 0o755))
	must(t, os.WriteFile(filepath.Join(volume, "sub/file"), []byte("mine"), 0o644))
	secret := filepath.Join(filepath.Dir(l.drive), "secret")
	must(t, os.MkdirAll(secret, 0o755))
	must(t, os.WriteFile(filepath.Join(secret, "file"), []byte("of the machine"), 0o644))
	c := containerConfig("c", "read", "/data/file")
	c.Mounts = []*runtime.Mount{{ContainerPath: `C:\data`, HostPath: `C:\volume\sub`}}
	id := l.create(sb, c)
	must(t, os.Rename(filepath.Join(volume, "sub"), filepath.Join(volume, "was")))
	must(t, os.Symlink(secret, filepath.Join(volume, "sub")))
	l.startContainerOK(id)
	if got := l.wait(id); got.ExitCode != 0 || !strings.Contains(l.logText(config, "c"), "mine") {
		t.Errorf("%v: %s", got, l.logText(config, "c"))
	}
	// Now the link is there first: it leads to the drive's own directory of that name.
	d := containerConfig("d", "read", "/data/file")
	d.Mounts = c.Mounts
	if got := l.wait(l.run(sb, d)); got.ExitCode != 1 {
		t.Errorf("a link led out of the drive: %s", l.logText(config, "d"))
	}
	_, err := l.Runtime.RemovePodSandbox(t.Context(), &runtime.RemovePodSandboxRequest{PodSandboxId: sb})
	must(t, err)
	l.nothingLeft()
	if data, err := os.ReadFile(filepath.Join(volume, "was/file")); err != nil || string(data) != "mine" {
		t.Errorf("the volume after the removal: %q, %v", data, err)
	}
}

func TestEnvironment(t *testing.T) {
	l := newLab(t)
	config := sandboxConfig("p")
	sb := l.runSandbox(config)
	c := containerConfig("c", "env")
	c.Envs = []*runtime.KeyValue{{Key: "a", Value: []byte("pod")}, {Key: "C", Value: []byte("=x=")}}
	c.Windows.SecurityContext = &runtime.WindowsContainerSecurityContext{RunAsUsername: "ContainerUser"}
	l.wait(l.run(sb, c))
	log := l.logText(config, "c")
	for _, want := range []string{"F a=pod\n", "F B=image\n", "F C==x=\n"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in\n%s", want, log)
		}
	}
	if strings.Contains(log, "A=image") {
		t.Error("one variable in two spellings")
	}
}
