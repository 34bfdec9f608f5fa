// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

func TestDeviceProgram(t *testing.T) {
	program, err := deviceProgram([]string{"b *:* m", "c 1:3 rwm", "c 136:* rw"})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i, in := range program {
		fmt.Fprintf(&b, "%2d: %02x r%d r%d %+d %d\n", i, in.code, in.registers&15, in.registers>>4, in.offset,
			in.immediate)
	}
	testenv.Golden(t, "devices.txt", []byte(b.String()))
	for _, bad := range []string{
		"", "a", "a *:* rwm", "c 1:3", "c 1 rwm", "c 1:x rwm", "c 1:3 rwx", "c -1:3 r", "c 1:1048576 r",
	} {
		if _, err := deviceProgram([]string{bad}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// TestLimitDevices: the kernel takes the program, and a process of the group can use what is on the list and
// nothing else, and make device nodes that it cannot open.
func TestLimitDevices(t *testing.T) {
	testenv.Need(t, testenv.Root)
	hs, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	g := Group{mount: Mount}
	for _, h := range hs.List {
		if h.V2() {
			name := "mullion-test-" + filepath.Base(filepath.Dir(t.TempDir()))
			g = Group{Mount, Hierarchies{List: []Hierarchy{h}}, name}
		}
	}
	if len(g.where.List) == 0 {
		t.Log("the machine has no hierarchy of version 2")
		return
	}
	if err := g.Make(Limits{}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	}()
	if err := g.Allow([]string{"c *:* m", "c 1:3 rwm", "c 1:5 r"}); err != nil {
		t.Fatal(err)
	}
	group, err := os.Open(g.dir(g.where.List[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	node := filepath.Join(t.TempDir(), "node")
	for script, allowed := range map[string]bool{
		"echo > /dev/null": true, "head -c 1 /dev/zero > /dev/null": true, "echo > /dev/zero": false,
		"head -c 1 /dev/full": false, "head -c 1 /dev/urandom": false,
		"mknod " + node + " c 1 11":  true,
		"mknod " + node + "-b b 8 0": false,
	} {
		sh := exec.Command("sh", "-c", script)
		sh.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
		if out, err := sh.CombinedOutput(); (err == nil) != allowed {
			t.Errorf("%s: %v: %s; want allowed: %v", script, err, out, allowed)
		} else if err != nil && !strings.Contains(strings.ToLower(string(out)), unix.EPERM.Error()) {
			t.Errorf("%s: %s; want %v", script, out, unix.EPERM)
		}
	}
	if err := limitDevices(g.dir(g.where.List[0])+"-none", []string{"c 1:3 r"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a group that does not exist: %v", err)
	}
}
