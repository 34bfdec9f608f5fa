// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// container makes a bundle with /proc and /sys as runc does, in namespaces of a thread that ends with f.
func container(t *testing.T, spec string, f func(bundle string) error) {
	t.Helper()
	testenv.Need(t, testenv.Root)
	bundle := t.TempDir()
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), []byte(spec), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"proc", "sys"} {
		if err := os.MkdirAll(filepath.Join(bundle, "rootfs", d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread is of no use to others
		err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNET)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		for _, fs := range [][2]string{{"proc", "proc"}, {"sysfs", "sys"}} {
			if err == nil {
				err = unix.Mount(fs[0], filepath.Join(bundle, "rootfs", fs[1]), fs[0], 0, "")
			}
		}
		if err == nil {
			err = f(bundle)
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// writable opens a file for writing and writes nothing.
func writable(path string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

func state(bundle string) *strings.Reader {
	return strings.NewReader(fmt.Sprintf(`{"ociVersion": "1.0.2", "status": "creating", "bundle": %q}`, bundle))
}

// TestProtect: a privileged container cannot write parameters of the machine's kernel, and can write those of its
// own namespaces.
func TestProtect(t *testing.T) {
	container(t, `{"root": {"path": "rootfs"}, "linux": {}}`, func(bundle string) error {
		if err := Protect(state(bundle)); err != nil {
			return err
		}
		for name, want := range map[string]error{
			"proc/sys/kernel/core_pattern": unix.EROFS, "proc/sys/vm/overcommit_memory": unix.EROFS,
			"proc/sys/vm/max_map_count":              unix.EROFS,
			"proc/sys/fs/inotify/max_user_instances": unix.EROFS, "proc/irq/default_smp_affinity": unix.EROFS,
			"proc/sysrq-trigger": unix.EROFS, "sys/kernel/mm/transparent_hugepage/enabled": unix.EROFS,
			"proc/sys/net/ipv4/ip_forward": nil, "proc/sys/net/core/somaxconn": nil, "proc/sys/kernel/shmmax": nil,
			"proc/sys/kernel/shm_rmid_forced": nil, "proc/sys/kernel/msgmax": nil, "proc/sys/kernel/sem": nil,
			"proc/sys/kernel/hostname": nil, "proc/sys/fs/mqueue/msg_max": nil,
			"sys/devices/virtual/net/lo/mtu": nil, "proc/self/oom_score_adj": nil,
		} {
			err := writable(filepath.Join(bundle, "rootfs", name))
			if !errors.Is(err, want) && !errors.Is(err, unix.ENOENT) { // not every kernel has each
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
		return nil
	})
}

// TestProtectLeavesOthersAlone: runc protects a container that is not privileged, and one in a user namespace has no
// rights to lose.
func TestProtectLeavesOthersAlone(t *testing.T) {
	for _, linux := range []string{`{"readonlyPaths": ["/proc/bus", "/proc/sys"]}`, `{"uidMappings": [{"size": 1}]}`} {
		container(t, `{"root": {"path": "rootfs"}, "linux": `+linux+`}`, func(bundle string) error {
			if err := Protect(state(bundle)); err != nil {
				return err
			}
			return writable(filepath.Join(bundle, "rootfs/proc/sys/kernel/core_pattern"))
		})
	}
}

func TestProtectRefuses(t *testing.T) {
	for _, tt := range []struct{ state, want string }{
		{"", "read the state of the container: EOF"},
		{`{"bundle": "/nowhere"}`, "read the container's specification: open /nowhere/config.json: no such file"},
	} {
		if err := Protect(strings.NewReader(tt.state)); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %s", tt.state, err, tt.want)
		}
	}
}

func TestWithHook(t *testing.T) {
	got, err := withHook([]byte(`{"ociVersion": "1.2.0", "process": {"cwd": "/"}}`))
	if err != nil {
		t.Fatal(err)
	}
	var spec struct {
		Version string `json:"ociVersion"`
		Hooks   struct {
			CreateContainer []struct {
				Path string
				Args []string
			} `json:"createContainer"`
		} `json:"hooks"`
	}
	if err := json.Unmarshal(got, &spec); err != nil {
		t.Fatal(err)
	}
	if hooks := spec.Hooks.CreateContainer; spec.Version != "1.2.0" || len(hooks) != 1 ||
		hooks[0].Path != "/opt/mullion/mullion-linuxhost" || hooks[0].Args[1] != ProtectCommand {
		t.Errorf("specification %s", got)
	}
	if _, err := withHook([]byte("ctr: no")); err == nil {
		t.Error("a message was taken for a specification")
	}
}
