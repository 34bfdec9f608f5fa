// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestMachineImage runs the release's image in a privileged container of runc, as `docker run --privileged` does: a
// cluster comes up with what the image has, runs a Windows pod, and stops with its container.
func TestMachineImage(t *testing.T) {
	t.Parallel()
	ownCluster(t)
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	entrypoint := unpackImage(t, releaseImage(t, dir), root)
	const container = "mullion-e2e-image"
	runc := func(args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, "runc", args...).CombinedOutput()
		return string(out), err
	}
	volume := filepath.Join(dir, "data")
	if err := os.Mkdir(volume, 0o755); err != nil {
		t.Fatal(err)
	}
	spec, err := json.Marshal(privileged(t, root, volume, container,
		append(entrypoint, "--windows", "2019", "--linux", "0")))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), spec, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("runc", "run", "--bundle", dir, container)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		if out, err := runc("delete", "--force", container); err != nil {
			t.Errorf("remove the container: %v: %s", err, out)
		}
	})
	inside := func(what string, args ...string) {
		t.Helper()
		eventually(t, 4*time.Minute, what, func() error {
			select {
			case err := <-ended:
				t.Fatalf("the container ended: %v: %s", err, output.String())
			default:
			}
			out, err := runc(append([]string{"exec", container, "mullion", "kubectl"}, args...)...)
			if err != nil {
				status, _ := runc("exec", container, "mullion", "status") // it fails before the cluster is there
				return fmt.Errorf("%w: %s\n%s", err, out, status)
			}
			return nil
		})
	}
	inside("the node", "wait", "--for=condition=Ready", "node/win-1", "--timeout=180s")
	inside("the pod", "run", "web", "--image=mcr.microsoft.com/windows/nanoserver:ltsc2019", "--restart=Never", "--",
		"cmd", "/c", "ver")
	inside("the pod's end", "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/web", "--timeout=180s")
	if out, err := runc("exec", container, "mullion", "kubectl", "logs", "web"); err != nil ||
		!strings.Contains(out, "10.0.17763") {
		t.Errorf("the pod wrote %q, %v", out, err)
	}
	if out, err := runc("kill", container, "TERM"); err != nil {
		t.Fatalf("stop the container: %v: %s", err, out)
	}
	select {
	case err := <-ended:
		if err != nil || !strings.Contains(output.String(), "stopped cluster default") {
			t.Errorf("the container ended with %v: %s", err, output.String())
		}
	case <-time.After(2 * time.Minute):
		t.Errorf("the container goes on: %s", output.String())
	}
}

// releaseImage packs the programs into an image.
func releaseImage(t *testing.T, dir string) string {
	t.Helper()
	out := filepath.Join(dir, "dist")
	cmd := exec.Command("go", "run", "-C", testenv.Repo("tools", "release"), ".", "-bin", testenv.Bin(), "-root",
		testenv.Repo(), "-o", out, "-version", "v0.0.0-gtest", "-date", "1790000000", "-level", "0", "-only", "image")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", cmd.Args, err, text)
	}
	return filepath.Join(out, "mullion_v0.0.0-gtest_linux_amd64_image.tar")
}

// unpackImage makes the root file system of an image, and returns its entry point.
func unpackImage(t *testing.T, archive, root string) []string {
	t.Helper()
	tar := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("tar", args...).CombinedOutput(); err != nil {
			t.Fatalf("tar %v: %v: %s", args, err, out)
		}
	}
	blobs := t.TempDir()
	tar("-xf", archive, "-C", blobs)
	if err := os.Remove(archive); err != nil { // a machine may have little room
		t.Fatal(err)
	}
	decode := func(name string, into any) {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(blobs, name))
		if err == nil {
			err = json.Unmarshal(data, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var saved []struct {
		Config string
		Layers []string
	}
	decode("manifest.json", &saved)
	var config struct{ Config struct{ Entrypoint []string } }
	decode(saved[0].Config, &config)
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, layer := range saved[0].Layers {
		tar("-xzf", filepath.Join(blobs, layer), "-C", root)
	}
	return config.Config.Entrypoint
}

// capabilities are those of Linux, in the order of their numbers (linux/capability.h).
const capabilities = `CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT
SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP
MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE`

// allCapabilities returns the capabilities that this machine can give.
func allCapabilities(t *testing.T) (all []string) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "\nCapBnd:")
	line, _, _ := strings.Cut(after, "\n")
	bounding, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range strings.Fields(capabilities) {
		if bounding&(1<<i) != 0 {
			all = append(all, "CAP_"+c)
		}
	}
	return all
}

// privileged describes a container as `docker run --privileged` makes it: all capabilities and devices, namespaces of
// its own, and a volume.
func privileged(t *testing.T, root, volume, name string, args []string) *specs.Spec {
	t.Helper()
	all := allCapabilities(t)
	mount := func(at, kind string, options ...string) specs.Mount {
		return specs.Mount{Destination: at, Type: kind, Source: kind, Options: options}
	}
	return &specs.Spec{
		Version:  specs.Version,
		Hostname: name,
		Root:     &specs.Root{Path: root},
		Process: &specs.Process{
			Args: args, Cwd: "/", Env: []string{"PATH=/usr/sbin:/usr/bin", "HOME=/root"},
			Capabilities: &specs.LinuxCapabilities{Bounding: all, Effective: all, Permitted: all},
		},
		Mounts: []specs.Mount{
			mount("/proc", "proc"), mount("/dev", "tmpfs", "nosuid", "mode=755"),
			mount("/dev/pts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"),
			mount("/dev/shm", "tmpfs", "nosuid", "noexec", "nodev", "mode=1777"), mount("/sys", "sysfs"),
			mount("/sys/fs/cgroup", "cgroup"),
			{Destination: "/var/lib/mullion", Type: "bind", Source: volume, Options: []string{"rbind", "rw"}},
		},
		Linux: &specs.Linux{
			CgroupsPath: "/" + name,
			Namespaces: []specs.LinuxNamespace{{Type: specs.PIDNamespace}, {Type: specs.NetworkNamespace},
				{Type: specs.IPCNamespace}, {Type: specs.UTSNamespace}, {Type: specs.MountNamespace},
				{Type: specs.CgroupNamespace}},
			// A privileged container has all devices of the machine; mullion needs this one.
			Devices:   []specs.LinuxDevice{{Path: "/dev/loop-control", Type: "c", Major: 10, Minor: 237}},
			Resources: &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: true, Access: "rwm"}}},
		},
	}
}
