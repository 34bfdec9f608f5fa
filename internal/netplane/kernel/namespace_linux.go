// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// nsfsMagic is NSFS_MAGIC of linux/magic.h: the file system of namespace files.
const nsfsMagic = 0x6e736673

// ownNamespace is the calling thread's network namespace. /proc/self would be
// the main thread's.
const ownNamespace = "/proc/thread-self/ns/net"

// CreateNamespace creates a network namespace that exists as long as the file at
// path is mounted, runs setup inside it before other processes can see it, and
// brings its loopback device up. It is a no-op if path is already such a file.
func CreateNamespace(path string, setup func() error) (err error) {
	if IsNamespace(path) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("create network namespace: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY|unix.O_NOFOLLOW, 0o400)
	if err != nil {
		return fmt.Errorf("create network namespace: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("create network namespace: %w", err)
	}
	err = onOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare: %w", err)
		}
		if err := loopbackUp(); err != nil {
			return err
		}
		if setup != nil {
			if err := setup(); err != nil {
				return err
			}
		}
		return unix.Mount(ownNamespace, path, "", unix.MS_BIND, "")
	})
	if err != nil {
		_ = os.Remove(path) // only an empty file
		return fmt.Errorf("create network namespace %s: %w", path, err)
	}
	return nil
}

func loopbackUp() error {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer h.Close()
	lo, err := h.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find loopback: %w", err)
	}
	return h.LinkSetUp(lo)
}

// DeleteNamespace unmounts and removes the file. The kernel ends the namespace
// with its last process. It is a no-op if there is no such file.
func DeleteNamespace(path string) error {
	for IsNamespace(path) { // twice if two makers raced
		if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("delete network namespace %s: unmount: %w", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete network namespace: %w", err)
	}
	return nil
}

// IsNamespace reports whether a namespace is mounted at path. After a reboot of
// the machine the file is still there, but empty.
func IsNamespace(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && int64(st.Type) == nsfsMagic
}

// onOwnThread runs fn on a thread that no other code will ever use.
//
// The process's first thread is not such a thread: the runtime cannot end it but
// parks it forever in its namespace (runtime.mexit), and /proc/PID, where others
// look up this process's namespaces, shows the namespaces of the first thread.
func onOwnThread(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if unix.Gettid() != unix.Getpid() {
			done <- fn()
			return
		}
		done <- onOwnThread(fn) // cannot get this thread again while we hold it
		runtime.UnlockOSThread()
	}()
	return <-done
}

// Space is a network namespace to work in. Close it after use.
type Space struct {
	// Netlink is a route-netlink handle inside the namespace.
	Netlink *netlink.Handle
	file    *os.File // nil: the process's own
}

// Open opens the namespace at path, or the process's own if path is empty. A
// path may be any namespace file, such as /proc/PID/ns/net.
func Open(path string) (*Space, error) {
	if path == "" {
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE, unix.NETLINK_NETFILTER)
		if err != nil {
			return nil, fmt.Errorf("open netlink: %w", err)
		}
		return &Space{Netlink: h}, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open network namespace: %w", err)
	}
	s := &Space{file: f}
	err = s.Do(func() (err error) {
		s.Netlink, err = netlink.NewHandle(unix.NETLINK_ROUTE, unix.NETLINK_NETFILTER)
		return err
	})
	if err != nil {
		_ = f.Close() // read-only
		return nil, fmt.Errorf("open network namespace %s: %w", path, err)
	}
	return s, nil
}

// Close releases the handles; the namespace stays.
func (s *Space) Close() {
	s.Netlink.Close()
	if s.file != nil {
		_ = s.file.Close() // read-only
	}
}

// Handle returns the open namespace file for netlink requests that name another
// namespace.
// Preconditions: the space was opened by path.
func (s *Space) Handle() netns.NsHandle { return netns.NsHandle(s.file.Fd()) }

// Do runs fn inside the namespace: on a separate thread, or directly if the space
// is the process's own namespace. Processes that fn starts are in the namespace
// too; goroutines that it starts are not.
func (s *Space) Do(fn func() error) error {
	if s.file == nil {
		return fn()
	}
	return doIn(s.file, fn)
}

// Do runs fn inside the namespace at path, like Space.Do, for callers that need the
// namespace only once. A socket that fn opens stays in the namespace wherever it is
// used afterwards.
func Do(path string, fn func() error) error {
	if path == "" {
		return fn()
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open network namespace: %w", err)
	}
	defer func() { _ = f.Close() }() // read-only
	return doIn(f, fn)
}

// Dial connects to a literal address from inside the namespace at path. The socket stays there wherever it is used.
func Dial(ctx context.Context, path, network, address string, timeout time.Duration) (conn net.Conn, err error) {
	err = Do(path, func() (err error) {
		// A negative FallbackDelay keeps net from dialing on another goroutine.
		d := net.Dialer{Timeout: timeout, FallbackDelay: -1}
		conn, err = d.DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

func doIn(namespace *os.File, fn func() error) error {
	return onOwnThread(func() error {
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace %s: %w", namespace.Name(), err)
		}
		return fn()
	})
}

// Sysctl writes one setting of the namespace, for example "net/ipv4/ip_forward".
func (s *Space) Sysctl(path, value string) error {
	return s.Do(func() error { return WriteSysctl(path, value) })
}

// WriteSysctl writes a setting of the calling thread's namespace.
func WriteSysctl(path, value string) error {
	if err := os.WriteFile("/proc/sys/"+path, []byte(value), 0o644); err != nil {
		return fmt.Errorf("set sysctl: %w", err)
	}
	return nil
}

// Nft applies a script of nft commands: all of it or, on error, no part of it.
func (s *Space) Nft(ctx context.Context, script string) error {
	return s.Do(func() error {
		cmd := exec.CommandContext(ctx, nftProgram(), "-f", "-")
		cmd.Stdin = strings.NewReader(script)
		// If this process is killed, nft would read the end of half a script, and might apply
		// it over the next process's rules.
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("nft: %w: %s", err, firstLines(string(out), 3))
		}
		return nil
	})
}

// nftProgram finds nft also where PATH has no sbin, as in the environment of a
// service or a Wine program.
func nftProgram() string {
	if path, err := exec.LookPath("nft"); err == nil {
		return path
	}
	return "/usr/sbin/nft"
}

func firstLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[:min(n, len(lines))], "; ")
}
