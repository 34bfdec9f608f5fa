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
	"github.com/mullion-k8s/mullion/internal/nodeapi"
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
	if err := host.TakeDisk(b.Config.Dir); err != nil {
		return err
	}
	if err := directories(ctx, b.Config.Dir); err != nil {
		return err
	}
	if err := host.Enter(b.Config.Config, describeRoot(b.Config, b.Cgroups)); err != nil {
		return err
	}
	reap := host.NewReaper()
	if err := errors.Join(host.SplitCgroup(b.Cgroups, podsCgroup), host.ShowSize(ctx, b.Size, b.Cgroups),
		set(ownSettings(b.Config.dual())), settle("/", describeSettled()), installFiles(b),
		writeBaseSpec(ctx, tools{reap.CombinedOutput}),
		applyRules(ctx, b.Config, tools{reap.CombinedOutput})); err != nil {
		return err
	}
	components, err := describeProcesses(b, supervise.NewSpawner(), reap, newFollower(b, reports.PodRanges))
	if err != nil {
		return err
	}
	// From now on this process waits.
	debug.FreeOSMemory()
	connect := func() (*nodeapi.Client, error) {
		return nodeapi.New(b.Config.Server, b.Config.Name, b.CA, kubeletCertificate)
	}
	return host.Supervise(ctx, components, reap, reports, connect, "/var/lib")
}

// directories makes the directories that are mounted.
// Preconditions: the disk is mounted.
func directories(ctx context.Context, dir string) error {
	names := []string{"lib", "podlogs"}
	if err := host.MoveIn(ctx, dir, names...); err != nil {
		return err
	}
	for _, name := range names {
		if err := os.MkdirAll(filepath.Join(host.Disk(dir), name), 0o755); err != nil {
			return fmt.Errorf("make host directory: %w", err)
		}
	}
	return os.MkdirAll(filepath.Join(host.Disk(dir), "claims"), 0o700)
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

// settle changes the mounts below root.
func settle(root string, list []settled) error {
	for _, s := range list {
		path := filepath.Join(root, s.path)
		if _, err := os.Stat(path); s.optional && errors.Is(err, os.ErrNotExist) {
			continue
		}
		if s.bind {
			if err := unix.Mount(path, path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
				return fmt.Errorf("bind %s: %w", path, err)
			}
		}
		if s.flags != 0 {
			if err := unix.Mount("", path, "", s.flags, ""); err != nil {
				return fmt.Errorf("change mount %s: %w", path, err)
			}
		}
	}
	return nil
}

// writeBaseSpec writes the base of containerd's container specifications. It is containerd's
// own, which ctr prints without a connection.
func writeBaseSpec(ctx context.Context, t tools) error {
	spec, err := t.ctr(ctx, "oci", "spec")
	if err == nil {
		spec, err = withHook(spec)
	}
	if err != nil {
		return err
	}
	if err := os.WriteFile(baseSpec, spec, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", baseSpec, err)
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
