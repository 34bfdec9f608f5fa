// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

func TestClaim(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "claims")
	a, b := claim{dir, "a", "take a"}, claim{dir, "b", "take b"}
	if err := a.taken(); err != nil {
		t.Fatalf("no process holds the name: %v", err)
	}
	release, err := takeAll(a)
	if err != nil {
		t.Fatal(err)
	}
	var inUse *inUseError
	if err := a.taken(); !errors.As(err, &inUse) || inUse.PID != os.Getpid() || inUse.What != "take a" {
		t.Fatalf("this process holds the name: %v", err)
	}
	// The second is in use: the first is not kept.
	if _, err := takeAll(b, a); !errors.As(err, &inUse) || inUse.PID != os.Getpid() || inUse.What != "take a" {
		t.Errorf("took it twice: %v", err)
	}
	if err := b.taken(); err != nil {
		t.Errorf("kept what it could not use: %v", err)
	}
	release()
	if release, err = takeAll(b, a); err != nil {
		t.Errorf("after release: %v", err)
	} else {
		release()
	}
}

// TestForgottenClaim: the lock of a purged cluster goes, one that is held stays, and a forgotten name can be taken.
func TestForgottenClaim(t *testing.T) {
	c := claim{filepath.Join(t.TempDir(), "claims"), "a", "take a"}
	if err := c.forget(); err != nil {
		t.Errorf("no cluster ever ran: %v", err)
	}
	release, err := c.take()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.forget(); err != nil || c.taken() == nil {
		t.Errorf("forgot a name in use: %v", err)
	}
	release()
	if err := c.forget(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(c.dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if release, err = c.take(); err != nil {
		t.Fatal(err)
	}
	release()
}

// TestClaimDirectory: locks do not go where others could hold them.
func TestClaimDirectory(t *testing.T) {
	for name, set := range map[string]func(dir string) error{
		"open":   func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o755)) },
		"link":   func(dir string) error { return os.Symlink(t.TempDir(), dir) },
		"file":   func(dir string) error { return os.WriteFile(dir, nil, 0o700) },
		"absent": nil,
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "claims")
			if set != nil {
				if err := set(dir); err != nil {
					t.Fatal(err)
				}
			}
			release, err := claim{dir, "a", "take a"}.take()
			if set == nil {
				if err != nil {
					t.Fatal(err)
				}
				release()
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), "take a: make directory for locks: ") ||
				errors.As(err, new(*inUseError)) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// lockAsUser names the lock that the test's other process tries to take.
const lockAsUser = "MULLION_TEST_LOCK"

// TestLockAsUser is the ordinary user of TestClaimOfOrdinaryUser.
func TestLockAsUser(t *testing.T) {
	path := os.Getenv(lockAsUser)
	if path == "" {
		return
	}
	if _, err := durable.TryLock(path, durable.Exclusive); err == nil {
		t.Error("took the lock")
	}
	if f, err := os.Open(path); err == nil {
		t.Errorf("opened %s", f.Name())
	}
}

// TestClaimOfOrdinaryUser: only root can hold a cluster's name.
func TestClaimOfOrdinaryUser(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir := t.TempDir()
	for d := dir; d != "/"; d = filepath.Dir(d) {
		if info, err := os.Stat(d); err == nil && info.Mode().Perm()&1 == 0 && d != "/tmp" {
			if err := os.Chmod(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	c := claim{filepath.Join(dir, "claims"), "cluster-x", "take x"}
	release, err := c.take()
	if err != nil {
		t.Fatal(err)
	}
	release()
	// The other process reads the program from a place that every user can reach.
	program := filepath.Join(dir, "test")
	if err := os.Link("/proc/self/exe", program); err != nil {
		content, rerr := os.ReadFile("/proc/self/exe")
		if err := errors.Join(rerr, os.WriteFile(program, content, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	user := exec.Command(program, "-test.run", "^TestLockAsUser$", "-test.count=1")
	user.Dir, user.Env = "/", append(os.Environ(), lockAsUser+"="+c.file())
	user.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := user.CombinedOutput(); err != nil {
		t.Errorf("an ordinary user: %v\n%s", err, out)
	}
}
