// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/host"
)

// describeRoot lists the mounts of a host's root, in order. Only Config.Dir is
// both of the machine and writable.
func describeRoot(b boot) []host.Mount {
	c := b.Config
	return append(host.Base(b.Cgroups),
		host.Mount{Source: "tmpfs", Target: viewsDir, Type: "tmpfs", Flags: host.Quiet, Data: "mode=700,size=1m"},
		// Where administrators of Docker hosts put the CAs of their registries.
		host.Mount{Source: "/etc/docker/certs.d", Target: certsDir, ReadOnly: true, Optional: true},
		host.Mount{Source: c.Cache, Target: cacheDir, ReadOnly: true},
		host.Mount{Source: c.Bin, Target: binDir, ReadOnly: true},
		// Alone, because the new root itself is mounted below it.
		host.Mount{Source: c.Dir, Target: nodeDir, Alone: true},
		host.Mount{
			Source: "overlay", Target: prefixDir, Type: "overlay", Flags: unix.MS_NODEV,
			Data: fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", filepath.Join(c.Cache, b.Prefix), upperDir(c),
				workDir(c)),
		},
	)
}

func upperDir(c Config) string { return filepath.Join(c.Dir, "prefix", "upper") }
func workDir(c Config) string  { return filepath.Join(c.Dir, "prefix", "work") }

// shareViews lets what is mounted for HostProcess containers later appear in
// the mount namespaces of the host's Windows programs.
func shareViews() error {
	if err := unix.Mount("", viewsDir, "", unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share %s: %w", viewsDir, err)
	}
	return nil
}
