// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// ErrDown is returned if the cluster's supervisor does not run.
var ErrDown = errors.New("the cluster does not run")

// AddHost adds a host to a cluster's configuration: a Windows host of a build or, if
// that is "", a Linux worker. It gets the smallest number that no host has and whose
// data does not exist. What size does not say is as for the other hosts. Start makes a running supervisor look.
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
	for {
		st, running, err := ReadState(l)
		if err != nil {
			return err
		}
		gone := !slices.ContainsFunc(st.Components, func(c supervise.Status) bool { return c.Name == name })
		if !running || gone && len(st.Components) > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("end host %s: %w", name, context.Cause(ctx))
		case <-time.After(lookEvery):
		}
	}
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
	before, err := component(l, name)
	if err != nil {
		return err
	}
	pid, err := durable.Holder(hostLock(l, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if pid == 0 {
		return fmt.Errorf("reboot %s: %w", name, host.ErrDown)
	}
	if err := unix.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("reboot %s: %w", name, err)
	}
	for {
		now, err := component(l, name)
		if err != nil {
			return err
		}
		if now.Restarts > before.Restarts {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("reboot %s: %w", name, context.Cause(ctx))
		case <-time.After(lookEvery):
		}
	}
}

// component returns the state of a host.
func component(l Layout, name string) (supervise.Status, error) {
	st, running, err := ReadState(l)
	if err != nil {
		return supervise.Status{}, err
	}
	if !running {
		return supervise.Status{}, ErrDown
	}
	for _, c := range st.Components {
		if c.Name == name {
			return c, nil
		}
	}
	return supervise.Status{}, fmt.Errorf("host %s is not running yet", name)
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
