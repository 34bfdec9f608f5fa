// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package mount

import (
	"fmt"
	"slices"
	"strings"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/winsys/winpath"
)

// InOrder returns mounts with the higher ones first, as containerd sorts them
// (internal/cri/opts/spec_windows_opts.go, WithWindowsMounts): none hides another one,
// whatever their order in the pod.
//
// Two mounts at one place are an error, as for Windows' bind filter ("if another link exists
// for the virtual path": learn.microsoft.com, "Overview of the Bindlink API", read 2026-11).
func InOrder(mounts []*runtime.Mount) ([]*runtime.Mount, error) {
	out := slices.Clone(mounts)
	slices.SortStableFunc(out, func(a, b *runtime.Mount) int {
		return len(elements(a.GetContainerPath())) - len(elements(b.GetContainerPath()))
	})
	for i, m := range out {
		for _, other := range out[:i] {
			if below, ok := Beneath(other.GetContainerPath(), m.GetContainerPath()); ok && below == "" {
				return nil, Invalid{fmt.Errorf("mount at %q: another volume is mounted at %q", m.GetContainerPath(),
					other.GetContainerPath())}
			}
		}
	}
	return out, nil
}

// Beneath reports whether a Windows path is that of a directory, or leads to something in it,
// however both are written. It returns the remaining path.
func Beneath(dir, p string) (rest string, ok bool) {
	above, all := elements(dir), elements(p)
	if len(all) < len(above) || !slices.EqualFunc(above, all[:len(above)], strings.EqualFold) {
		return "", false
	}
	return strings.Join(all[len(above):], `\`), true
}

func elements(p string) []string {
	clean := strings.TrimPrefix(winpath.Clean(p), winpath.SystemDrive)
	return strings.FieldsFunc(clean, func(r rune) bool { return r == '\\' })
}
