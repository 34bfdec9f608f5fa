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

	"github.com/mullion-k8s/mullion/internal/agent/storage"
	"github.com/mullion-k8s/mullion/internal/cgroup"
	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestOnlyTheHostsDirectoryIsWritable reads the description: whatever is of the
// machine is read-only, but for devices and the host's own directory.
func TestOnlyTheHostsDirectoryIsWritable(t *testing.T) {
	b := boot{Config: testConfig("/x"), Prefix: "prefix-1", Boot: host.Boot{Cgroups: cgroup.Hierarchies{Unified: true}}}
	for _, m := range describeRoot(b) {
		if m.Type != "" || m.ReadOnly || strings.HasPrefix(m.Target, "/dev/") {
			continue
		}
		if m.Source != b.Config.Dir && !strings.HasPrefix(m.Source, b.Config.Dir+"/") {
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
	if err := host.Enter(b.Config.Config, describeRoot(b)); err != nil {
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
	b := boot{Config: c, Prefix: "p", Runtime: "r"}
	var err error
	if b.Cgroups, err = cgroup.Find(); err != nil {
		t.Fatal(err)
	}
	drive := filepath.Join(c.Cache, "p", "drive_c")
	for _, d := range []string{host.RootDir(c.Dir), c.Bin, filepath.Join(c.Cache, "r/usr/lib"), drive} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := directories(t.Context(), c, "p"); err != nil {
		t.Fatal(err)
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

// TestDirectories: a host of an earlier version, which had everything on the machine's disk, keeps
// it, claims included.
func TestDirectories(t *testing.T) {
	testenv.Need(t, testenv.Root)
	c := testConfig(t.TempDir())
	state := filepath.Join("drive_c", "ProgramData", "mullion")
	old := filepath.Join(c.Dir, "prefix")
	files := map[string]string{ // by the name in the old place, with the one in the new
		filepath.Join(old, "template"):              onOwnDisk(c, "prefix", "template"),
		filepath.Join(old, "upper", "drive_c", "x"): filepath.Join(upperDir(c), "drive_c", "x"),
		filepath.Join(c.Dir, "cri", "images", "i"):  onOwnDisk(c, "cri", "images", "i"),
		filepath.Join(old, "upper", state, "volumes", "pvc-1", "important"): filepath.Join(upperDir(c), state,
			"volumes",
			"pvc-1", "important"),
	}
	for name := range files {
		err := os.MkdirAll(filepath.Dir(name), 0o700)
		if err == nil {
			err = os.WriteFile(name, []byte("p"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := directories(t.Context(), c, "p"); err != nil {
			t.Fatal(err)
		}
		for from, to := range files {
			if content, err := os.ReadFile(to); err != nil || string(content) != "p" {
				t.Errorf("%s: %q, %v", to, content, err)
			}
			if _, err := os.Lstat(from); !os.IsNotExist(err) {
				t.Errorf("%s is still there: %v", from, err)
			}
		}
	}
}

// TestNewTemplate: another version of Wine or of mullion installs the host again, but keeps volumes and images, also if
// that is interrupted. Containers go.
func TestNewTemplate(t *testing.T) {
	testenv.Need(t, testenv.Root)
	c := testConfig(t.TempDir())
	if err := directories(t.Context(), c, "old"); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(upperDir(c), "drive_c", "ProgramData", "mullion")
	var kept []string
	for _, name := range storage.Dirs() {
		kept = append(kept, filepath.Join(state, name, "pvc-1"))
	}
	kept = append(kept, onOwnDisk(c, "cri", "images", "images", "i"))
	program := filepath.Join(upperDir(c), "drive_c", "windows", "x")
	container := onOwnDisk(c, "cri", "state", "containers", "c")
	for _, file := range append(kept, program, container) {
		if err := os.MkdirAll(filepath.Dir(file), 0o751); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string) {
		t.Helper()
		for _, file := range kept {
			if content, err := os.ReadFile(file); err != nil || string(content) != "precious" {
				t.Errorf("%s: %s: %q, %v", when, file, content, err)
			}
		}
		for _, gone := range []string{program, container, onOwnDisk(c, "former-prefix")} {
			if _, err := os.Lstat(gone); !os.IsNotExist(err) {
				t.Errorf("%s: %s: %v", when, gone, err)
			}
		}
		if info, err := os.Stat(state); err != nil || info.Mode().Perm() != 0o751 {
			t.Errorf("%s: %v, %v", when, info, err)
		}
	}
	if err := directories(t.Context(), c, "new"); err != nil {
		t.Fatal(err)
	}
	check("another template")
	// As after a crash between the two.
	if err := os.Rename(onOwnDisk(c, "prefix"), onOwnDisk(c, "former-prefix")); err != nil {
		t.Fatal(err)
	}
	if err := directories(t.Context(), c, "newer"); err != nil {
		t.Fatal(err)
	}
	check("interrupted")
}

// TestForgetState: what the agent knew of another cluster goes, volumes stay.
func TestForgetState(t *testing.T) {
	dir := t.TempDir()
	for _, name := range append(storage.Dirs(), "pki") {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := forgetState(dir); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(storage.Dirs()) {
		t.Errorf("left %v, %v", entries, err)
	}
}
