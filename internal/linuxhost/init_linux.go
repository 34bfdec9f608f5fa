// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// Init is process 1 of a host.
func Init(ctx context.Context, args []string) error { return host.Init(ctx, args, narrow, runInit) }

// narrow gives up the rights that no process of the host has.
func narrow() error {
	for _, c := range forbidden() {
		// EINVAL: this kernel is older than the right.
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c.number, 0, 0, 0)
		if err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("give up %s: %w", c.name, err)
		}
	}
	return nil
}

func runInit(ctx context.Context, b boot, reports *host.Reporter) error {
	root := host.RootDir(b.Config.Dir)
	if err := host.BuildRoot(describeRoot(b.Config, b.Cgroups), host.Links(), root); err != nil {
		return err
	}
	if err := host.Pivot(root); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(b.Config.Name)); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	reap := host.NewReaper()
	if err := errors.Join(host.SplitCgroup(b.Cgroups, podsCgroup), host.ShowSize(ctx, b.Size, b.Cgroups),
		set(ownSettings(b.Config.dual())), settle(), installFiles(b),
		applyRules(ctx, b.Config, tools{reap.CombinedOutput})); err != nil {
		return err
	}
	components, err := describeProcesses(b, supervise.NewSpawner(), reap, newFollower(b, reports.PodRanges))
	if err != nil {
		return err
	}
	// From now on this process waits.
	debug.FreeOSMemory()
	return host.Supervise(ctx, components, reap, reports, "")
}

// set writes kernel settings.
func set(settings []kernelSetting) error {
	for _, s := range settings {
		err := os.WriteFile(filepath.Join("/proc/sys", s.name), []byte(s.value), 0)
		if errors.Is(err, os.ErrNotExist) && strings.Contains(s.name, "/ipv6/") {
			continue // a kernel without IPv6
		}
		if err != nil {
			return fmt.Errorf("set kernel parameter: %w", err)
		}
	}
	return nil
}

// settle performs describeSettled.
func settle() error {
	for _, s := range describeSettled() {
		if _, err := os.Stat(s.path); s.optional && errors.Is(err, os.ErrNotExist) {
			continue
		}
		if s.bind {
			if err := unix.Mount(s.path, s.path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
				return fmt.Errorf("bind %s: %w", s.path, err)
			}
		}
		if s.flags != 0 {
			if err := unix.Mount("", s.path, "", s.flags, ""); err != nil {
				return fmt.Errorf("change mount %s: %w", s.path, err)
			}
		}
	}
	return nil
}

// applyRules makes the host's tables.
func applyRules(ctx context.Context, c Config, t tools) error {
	text := rules(c)
	if c.EnforcePolicies {
		text += firstPolicyRules(c)
	}
	if err := t.nft(ctx, text); err != nil {
		return fmt.Errorf("make the host's rules: %w", err)
	}
	return nil
}
