// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// ErrDown is returned if the cluster's supervisor does not run.
var ErrDown = errors.New("the cluster does not run")

// AddHost adds a host to a cluster's configuration: a Windows host of a build or, if that is "", a Linux
// worker. It gets the smallest number that no host has and whose data does not exist. Unset fields of size are
// as for the other hosts. Start makes a running supervisor check for it.
func AddHost(l Layout, build string, size Size) (name string, c Config, err error) {
	err = change(l, func(changed *Config) error {
		kept := func(name string) bool {
			_, err := os.Lstat(l.Node(name))
			return !errors.Is(err, os.ErrNotExist)
		}
		if build == "" {
			name = changed.addLinux(kept)
		} else {
			name = changed.addWindows(build, kept)
		}
		changed.resize(name, size)
		c = *changed
		return nil
	})
	return name, c, err
}

// ReturnHost adds a host that was removed, with its data if that was kept.
func ReturnHost(l Layout, name string) (c Config, err error) {
	err = change(l, func(changed *Config) error {
		if changed.has(name) {
			return fmt.Errorf("%s was not removed from cluster %q", name, l.Name)
		}
		changed.restore(name)
		c = *changed
		return nil
	})
	return c, err
}

// RemoveHost takes a host out of a cluster's configuration and waits until the
// supervisor has ended it.
func RemoveHost(ctx context.Context, l Layout, bin Binaries, name string) error {
	err := change(l, func(changed *Config) error {
		if !IsNode(*changed, name) {
			return fmt.Errorf("cluster %q has no host %q", l.Name, name)
		}
		changed.remove(name)
		return nil
	})
	if err != nil {
		return err
	}
	if _, err := Start(l, bin); err != nil {
		return err
	}
	err = follow(ctx, l, func(st State) (bool, error) {
		gone := !slices.ContainsFunc(st.Components, func(c supervise.Status) bool { return c.Name == name })
		return gone && len(st.Components) > 0, nil
	})
	if err != nil && !errors.Is(err, errEnded) {
		return fmt.Errorf("end host %s: %w", name, err)
	}
	return nil
}

// change changes cluster.json while no other command does.
func change(l Layout, f func(*Config) error) error {
	making, err := lockMaking(l)
	if err != nil {
		return err
	}
	defer making.Unlock()
	c, err := Load(l)
	if err != nil {
		return err
	}
	if err := f(&c); err != nil {
		return err
	}
	if err := c.validate(); err != nil {
		return err
	}
	return c.save(l)
}

// PurgeHost removes the data of a host that was removed.
func PurgeHost(l Layout, name string) error {
	c, err := Load(l)
	if err != nil {
		return err
	}
	if IsNode(c, name) {
		return fmt.Errorf("purge %s: it is a host of cluster %q", name, l.Name)
	}
	pid, err := durable.Holder(hostLock(l, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if pid != 0 {
		return fmt.Errorf("purge %s: it runs (process %d)", name, pid)
	}
	if err := unmountBelow(l.Node(name)); err != nil {
		return err
	}
	for _, path := range []string{l.Node(name), l.nodeConfig(name), l.nodeStatus(name), l.token(name), l.log(name)} {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("purge %s: %w", name, err)
		}
	}
	return nil
}

func hostLock(l Layout, name string) string { return l.Node(name) + "/lock" }

// RebootHost shuts a running host down; the supervisor boots it again. It returns
// when the supervisor has seen its end.
func RebootHost(ctx context.Context, l Layout, name string) error {
	restarts := -1 // before
	err := follow(ctx, l, func(st State) (bool, error) {
		i := slices.IndexFunc(st.Components, func(c supervise.Status) bool { return c.Name == name })
		if i < 0 {
			return false, fmt.Errorf("host %s is not running yet", name)
		}
		if restarts < 0 {
			restarts = st.Components[i].Restarts
			return false, endHost(l, name)
		}
		return st.Components[i].Restarts > restarts, nil
	})
	if errors.Is(err, errEnded) && restarts < 0 {
		return ErrDown
	}
	if err != nil {
		return fmt.Errorf("reboot %s: %w", name, err)
	}
	return nil
}

// endHost sends the signal that shuts a host down.
func endHost(l Layout, name string) error {
	pid, err := durable.Holder(hostLock(l, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if pid == 0 {
		return host.ErrDown
	}
	if err := unix.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal process %d: %w", pid, err)
	}
	return nil
}

// Freezes lists the last restart of a component because it did not respond, and the same of each program of a host.
func Freezes(l Layout, c Config, component supervise.Status) (list []supervise.Freeze) {
	if component.Frozen != nil {
		list = append(list, *component.Frozen)
	}
	if IsNode(c, component.Name) {
		// A host without a status has had no restarts yet.
		s, _ := host.ReadStatus(l.nodeStatus(component.Name))
		list = append(list, s.Freezes()...)
	}
	return list
}

// ExecArgv returns the command line that runs a program on a running host.
func ExecArgv(l Layout, c Config, bin Binaries, name string, args []string) ([]string, error) {
	if _, err := host.RunningInit(l.Node(name), l.nodeStatus(name)); err != nil {
		return nil, fmt.Errorf("run a program on %s: %w", name, err)
	}
	program := bin.winhost()
	if slices.Contains(c.LinuxHosts(), name) {
		program = bin.linuxhost()
	}
	return append([]string{program, "exec", "--config", l.nodeConfig(name), "--"}, args...), nil
}

// WindowsLogs returns a running Windows host's C:\var\log, where each program of the agent has a
// directory, as the machine sees it. It is on the host's disk, which only a running host has.
func WindowsLogs(l Layout, node string) (dir string, err error) {
	pid, err := host.RunningInit(l.Node(node), l.nodeStatus(node))
	if err != nil {
		return "", err
	}
	return filepath.Join("/proc", strconv.Itoa(pid), "root/prefix/drive_c/var/log"), nil
}
