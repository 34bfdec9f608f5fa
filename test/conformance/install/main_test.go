// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package install_test installs mullion onto a plain cluster: upstream's own
// etcd, kube-apiserver and kube-controller-manager, each a process, none of
// ours among them. There is no kubelet; the test does a kubelet's work for the
// manager's pods: it runs their very command line, with the token of their
// ServiceAccount, as their user, so that RBAC counts, each at an address of its
// own.
//
// All of it lives in network, mount and PID namespaces of its own, and ends
// with them. It needs root and `make peers`.
package install_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cli/installcmd"
	"github.com/mullion-k8s/mullion/internal/cli/managercmd"
)

// This variable selects one of the four roles of the test's executable. Unset,
// the executable restarts itself in new namespaces, where it runs the tests; the
// other roles set up the inside of a pod and execute mullion there.
const (
	roleVariable = "MULLION_INSTALL_TEST_ROLE"
	roleTest     = "test"
	rolePod      = "pod"
	roleMullion  = "mullion"
)

// Addresses: not those of 127.0.0.0/8, which no EndpointSlice may hold.
const (
	serverAddress = "10.34.0.1"    // the API server's, on the loopback link
	podRange      = "10.34.1.0/24" // of the managers' pods, each with a link
	serviceRange  = "10.35.0.0/24"
)

func commands() []cli.Command {
	return []cli.Command{
		{Group: cli.Change, New: installcmd.New},
		{Group: cli.Change, New: installcmd.NewUninstall},
		{Group: cli.Internal, New: managercmd.New},
	}
}

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); {
	case role == roleMullion:
		os.Exit(cli.Run(context.Background(), cli.Stdio(), os.Args, commands()))
	case role == rolePod:
		fmt.Fprintln(os.Stderr, "become a pod:", becomePod()) // it returns only with an error
		os.Exit(1)
	case role == roleTest:
		if err := enter(); err != nil {
			fmt.Fprintln(os.Stderr, "set up the namespaces:", err)
			os.Exit(1)
		}
		// client-go reports each connection that a kill cuts.
		klog.SetSlogLogger(slog.New(slog.DiscardHandler))
		os.Exit(m.Run())
	case os.Geteuid() != 0:
		os.Exit(m.Run()) // the tests say what they lack
	default:
		os.Exit(isolated())
	}
}

// isolated runs the tests in namespaces of their own. All processes in them end
// with the first one.
func isolated() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), roleVariable+"="+roleTest)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID,
		Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the tests in namespaces:", err)
		return 1
	}
	return 0
}

// enter lays out the new namespaces.
func enter() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	// Where client-go expects the credentials of a pod.
	run, err := filepath.EvalSymlinks("/var/run")
	if err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", run, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount %s: %w", run, err)
	}
	link, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set up the loopback link: %w", err)
	}
	return addAddress(link, serverAddress+"/32")
}

func addAddress(link netlink.Link, cidr string) error {
	a, err := netlink.ParseAddr(cidr)
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(link, a); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add address %s: %w", cidr, err)
	}
	return nil
}

// hosts is the cluster's DNS.
func hosts(t *testing.T, entries map[string]string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("127.0.0.1 localhost\n")
	for name, address := range entries {
		fmt.Fprintf(&b, "%s %s\n", address, name)
	}
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(file, "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount("/etc/hosts", unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}
