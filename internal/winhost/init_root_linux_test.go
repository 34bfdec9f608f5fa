// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/cgroup"
	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestOnlyTheHostsDirectoryIsWritable reads the description: whatever is of the
// machine is read-only, but for devices and the host's own directory.
func TestOnlyTheHostsDirectoryIsWritable(t *testing.T) {
	b := boot{Config: testConfig("/x"), Prefix: "prefix-1", Cgroups: cgroup.Hierarchies{Unified: true}}
	for _, m := range describeRoot(b) {
		if m.Type != "" || m.ReadOnly || strings.HasPrefix(m.Target, "/dev/") {
			continue
		}
		if m.Source != b.Config.Dir {
			t.Errorf("%s is bound writable to %s", m.Source, m.Target)
		}
	}
}

// jailed is the main function of the test binary as process 1 of a test's namespaces.
func jailed() {
	say := func(ok bool, what string) {
		if !ok {
			os.Stdout.WriteString("FAULT: " + what + "\n")
		}
	}
	var b boot
	if err := json.Unmarshal([]byte(os.Getenv("JAIL")), &b); err != nil {
		panic(err)
	}
	root := host.RootDir(b.Config.Dir)
	if err := host.BuildRoot(describeRoot(b), host.Links(), root); err != nil {
		say(false, err.Error())
		return
	}
	if err := host.Pivot(root); err != nil {
		say(false, err.Error())
		return
	}
	if err := etc(b.Config); err != nil {
		say(false, err.Error())
	}
	for _, name := range []string{"/usr/x", "/cache/x", binDir + "/x", "/usr/lib/x", "/etc/ssl/x"} {
		err := os.WriteFile(name, nil, 0o644)
		say(err != nil, "wrote "+name)
	}
	for _, name := range []string{"/etc/shadow", "/root/.ssh", "/home", "/var/lib", os.Getenv("SECRET")} {
		_, err := os.Stat(name)
		say(os.IsNotExist(err), name+" is visible")
	}
	say(os.WriteFile(nodeDir+"/inside", nil, 0o644) == nil, "the host's own directory is not writable")
	say(os.WriteFile(prefixDir+"/inside", nil, 0o644) == nil, "the prefix is not writable")
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	say(err == nil && !strings.Contains(string(mounts), "deleted"), "mounts are left over")
	err = unix.Mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND, "")
	_ = err // root of the machine may do that; the promise is about mistakes
	os.Stdout.WriteString("done\n")
}

// TestJail builds a host's root and looks from inside.
func TestJail(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir := t.TempDir()
	c := testConfig(dir)
	b := boot{Config: c, Prefix: "p"}
	var err error
	if b.Cgroups, err = cgroup.Find(); err != nil {
		t.Fatal(err)
	}
	drive := filepath.Join(c.Cache, "p", "drive_c")
	for _, d := range []string{upperDir(c), workDir(c), host.RootDir(c.Dir), c.Bin, drive} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	doc, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{"JAIL=" + string(doc), "SECRET=" + secret}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWNS |
			unix.CLONE_NEWCGROUP,
	}
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "done\n" {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(c.Dir, "inside")); err != nil {
		t.Errorf("what the host wrote is not in its directory: %v", err)
	}
	after, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(after), dir) {
		t.Errorf("mounts show on the machine: %v", err)
	}
}
