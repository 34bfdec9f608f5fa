// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winver

// stableABI lists, newest first, the LTSC builds from which on Windows keeps
// the container ABI stable: a newer host also runs images of the builds since
// the last of these that is older than itself. Source: compatLTSCReleases in
// github.com/microsoft/hcsshim/osversion/platform_compat_windows.go and the
// same list in github.com/containerd/platforms v1.0.0-rc.2
// platform_windows_compat.go (commit 4549974, 2025-05-12; containerd >= 2.2).
func stableABI() []int { return []int{26100, 20348} }

// Compatible reports whether a host can run an image with process isolation. The
// rule is CheckHostAndContainerCompat of hcsshim's osversion package, which
// containerd uses in the same form: up to Windows Server 2022 the builds must
// be equal; from there on an image may be as old as the LTSC release before
// the host's. The revision does not count. (Microsoft's documentation requires
// equal revisions on Windows Server 2016; no runtime has enforced that since Docker
// 17, and neither does this.)
func Compatible(host, image Build) bool { return compatible(host.Number, image.Number) }

// CompatibleOSVersion is Compatible for an image's os.version as it stands in
// a manifest or config. An empty one fits every host: that is how base images
// of HostProcess containers work. An invalid one does not fit any host.
func CompatibleOSVersion(host Build, osVersion string) bool {
	if osVersion == "" {
		return true
	}
	v, err := ParseOSVersion(osVersion)
	return err == nil && v.Major == 10 && v.Minor == 0 && compatible(host.Number, v.Build)
}

func compatible(host, image int) bool {
	releases := stableABI()
	oldest := releases[len(releases)-1]
	if host < oldest {
		return host == image
	}
	lower := oldest
	for _, r := range releases {
		if host > r {
			lower = r
			break
		}
	}
	return lower <= image && image <= host
}
