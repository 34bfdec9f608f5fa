// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"fmt"
	"slices"

	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// nodeName of the i-th Windows host, counted from 0.
func nodeName(i int) string { return fmt.Sprintf("win-%d", i+1) }

// linuxName of the i-th Linux worker, counted from 0.
func linuxName(i int) string { return fmt.Sprintf("linux-%d", i+1) }

// has reports whether a host with a number was not removed.
func (c Config) has(name string) bool { return !slices.Contains(c.Removed, name) }

// IsNode reports whether a component is a host of the cluster.
func IsNode(c Config, component string) bool {
	return slices.Contains(c.WindowsHosts(), component) || slices.Contains(c.LinuxHosts(), component)
}

// WindowsHosts returns the names of the emulated Windows hosts.
func (c Config) WindowsHosts() []string {
	var names []string
	for i := range c.Windows {
		if name := nodeName(i); c.has(name) {
			names = append(names, name)
		}
	}
	return names
}

// LinuxHosts returns the names of the Linux workers.
func (c Config) LinuxHosts() []string {
	var names []string
	for i := range c.Linux {
		if name := linuxName(i); c.has(name) {
			names = append(names, name)
		}
	}
	return names
}

// Hosts returns the names of all hosts, Windows hosts first.
func (c Config) Hosts() []string { return slices.Concat(c.WindowsHosts(), c.LinuxHosts()) }

// inOrder maps the hosts' names in a new cluster like this one, which has no gaps from removed hosts, to their
// present names.
func (c Config) inOrder() map[string]string {
	out := map[string]string{}
	for i, name := range c.WindowsHosts() {
		out[nodeName(i)] = name
	}
	for i, name := range c.LinuxHosts() {
		out[linuxName(i)] = name
	}
	return out
}

// Build returns the build of a Windows host.
func (c Config) Build(name string) (winver.Build, error) { return winver.Parse(c.build(name)) }

// build returns the build of a Windows host, as the user spelled it.
func (c Config) build(name string) string {
	for i, b := range c.Windows {
		if nodeName(i) == name {
			return b
		}
	}
	return ""
}

// addWindows adds a Windows host with the smallest number that no host has, and returns
// its name. kept, if not nil, reports whether a name must not be given to another host:
// the name of a removed host whose data still exists.
func (c *Config) addWindows(build string, kept func(name string) bool) string {
	for i := range c.Windows {
		if name := nodeName(i); !c.has(name) && (kept == nil || !kept(name)) {
			c.Windows = slices.Clone(c.Windows)
			c.Windows[i] = build
			c.restore(name)
			c.resize(name, Size{})
			return name
		}
	}
	c.Windows = append(slices.Clone(c.Windows), build)
	return nodeName(len(c.Windows) - 1)
}

// addLinux is addWindows for a Linux worker.
func (c *Config) addLinux(kept func(name string) bool) string {
	for i := range c.Linux {
		if name := linuxName(i); !c.has(name) && (kept == nil || !kept(name)) {
			c.restore(name)
			c.resize(name, Size{})
			return name
		}
	}
	c.Linux++
	return linuxName(c.Linux - 1)
}

// restore makes a removed host one of the cluster again.
func (c *Config) restore(name string) {
	c.Removed = slices.DeleteFunc(slices.Clone(c.Removed), func(r string) bool { return r == name })
	if len(c.Removed) == 0 {
		c.Removed = nil
	}
}

// remove makes a host one that was removed.
func (c *Config) remove(name string) {
	c.Removed = append(slices.Clone(c.Removed), name)
}

// checkRemoved returns an error if a removed host never was one, or is listed twice.
func (c Config) checkRemoved() error {
	all := c
	all.Removed = nil
	for i, name := range c.Removed {
		if !IsNode(all, name) || slices.Contains(c.Removed[:i], name) {
			return fmt.Errorf("removed %q: want each name of a host once", name)
		}
	}
	return nil
}
