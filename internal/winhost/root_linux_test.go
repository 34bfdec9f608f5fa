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

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestOnlyTheHostsDirectoryIsWritable reads the description: whatever is of the
// machine is read-only, but for devices and the host's own directory.
func TestOnlyTheHostsDirectoryIsWritable(t *testing.T) {
	b := boot{Config: testConfig("/x"), Prefix: "prefix-1", Cgroups: hierarchies{Unified: true}}
	for _, m := range describeRoot(b) {
		if m.Type != "" || m.ReadOnly || strings.HasPrefix(m.Target, "/dev/") {
			continue
		}
		if m.Source != b.Config.Dir {
			t.Errorf("%s is bound writable to %s", m.Source, m.Target)
		}
	}
}

func TestParseHierarchies(t *testing.T) {
	for _, tt := range []struct {
		name, mountinfo string
		unified         bool
		want            string
	}{
		{"version 2 (Ubuntu 24.04, Debian 12)", "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n", true, `[{"dir":".","options":""}]`},
		{"hybrid (systemd)", `31 24 0:27 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755
32 31 0:28 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw,nsdelegate
33 31 0:29 / /sys/fs/cgroup/systemd rw shared:11 - cgroup cgroup rw,xattr,name=systemd
36 31 0:32 / /sys/fs/cgroup/cpu,cpuacct rw shared:15 - cgroup cgroup rw,cpu,cpuacct
37 31 0:33 / /sys/fs/cgroup/memory rw shared:16 - cgroup cgroup rw,memory
`, false, `[{"dir":"unified","options":""},{"dir":"systemd","options":"none,name=systemd"},{"dir":"cpu,cpuacct","options":"cpu,cpuacct"},{"dir":"memory","options":"memory"}]`},
		{"inside of a container, one part only", "30 24 0:26 /a/b /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n31 24 0:27 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n", false, `[{"dir":"pids","options":"pids"}]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hs, err := parseHierarchies(tt.mountinfo)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(hs.List)
			if err != nil || string(got) != tt.want || hs.Unified != tt.unified {
				t.Errorf("%s unified=%v, %v; want %s unified=%v", got, hs.Unified, err, tt.want, tt.unified)
			}
		})
	}
	if _, err := parseHierarchies("1 2 0:1 / / rw - ext4 /dev/sda rw\n"); err == nil {
		t.Error("a machine without cgroups was accepted")
	}
}

// TestCgroup makes and clears a real cgroup with limits and a process in it.
func TestCgroup(t *testing.T) {
	testenv.Need(t, testenv.Root)
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	hs, err := parseHierarchies(string(mountinfo))
	if err != nil {
		t.Fatal(err)
	}
	c := testConfig(t.TempDir())
	c.Cluster = "test-" + filepath.Base(filepath.Dir(t.TempDir()))[:12]
	g := newCgroup(c, hs)
	if err := g.Create(Limits{MemoryBytes: 256 << 20, MilliCPU: 1500, Processes: 100}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Clear(t.Context(), clearLimit); err != nil {
			t.Error(err)
		}
		for _, h := range hs.List {
			if _, err := os.Stat(g.dir(h)); err == nil {
				t.Errorf("%s is still there", g.dir(h))
			}
		}
	}()
	sleep := exec.Command("sleep", "1000")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	if err := g.Add(sleep.Process.Pid); err != nil {
		t.Error(err)
	}
	if err := g.Create(Limits{}); err != nil {
		t.Errorf("a cgroup that exists: %v", err)
	}
	g.kill()
	if err := sleep.Wait(); err == nil {
		t.Error("the process was not killed")
	}
}

// jailed is what the test binary does as process 1 of a test's namespaces.
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
	root := rootDir(b.Config)
	if err := buildRoot(b, root); err != nil {
		say(false, err.Error())
		return
	}
	if err := pivot(root); err != nil {
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
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if b.Cgroups, err = parseHierarchies(string(mountinfo)); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{upperDir(c), workDir(c), rootDir(c), c.Bin, filepath.Join(c.Cache, "p", "drive_c")} {
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
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP,
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
