// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// errNoPlatform is containerd's text, which users search for:
// core/images/image.go, "no match for platform in manifest: %w" of ErrNotFound.
func errNoPlatform() error { return fmt.Errorf("no match for platform in manifest: %w", ErrNotFound) }

// choose picks the entry of an index that containerd on the host would: all
// that match, sorted by os.version as a string, newest first. Source:
// github.com/containerd/platforms, windowsMatchComparer.Less.
func choose(index *v1.IndexManifest, host winver.Build) (v1.Descriptor, error) {
	var fit []v1.Descriptor
	for _, d := range index.Manifests {
		if !d.MediaType.IsImage() || !fits(d.Platform, host) {
			continue
		}
		fit = append(fit, d)
	}
	if len(fit) == 0 {
		return v1.Descriptor{}, errNoPlatform()
	}
	slices.SortStableFunc(fit, func(a, b v1.Descriptor) int { return strings.Compare(osVersion(b), osVersion(a)) })
	return fit[0], nil
}

func osVersion(d v1.Descriptor) string {
	if d.Platform == nil {
		return ""
	}
	return d.Platform.OSVersion
}

// fits reports whether the host can run images for the platform. A descriptor
// without a platform fits; its config decides later.
func fits(p *v1.Platform, host winver.Build) bool {
	return p == nil || p.OS == "windows" && (p.Architecture == "amd64" || p.Architecture == "") &&
		winver.CompatibleOSVersion(host, p.OSVersion)
}
