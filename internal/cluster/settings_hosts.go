// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// mergeHosts adds the requested hosts that the cluster lacks, and returns the other
// differences.
func (c *Config) mergeHosts(asked Choice) (differences []string) {
	if asked.Windows != nil {
		var have []string
		for _, name := range c.WindowsHosts() {
			have = append(have, c.build(name))
		}
		if !begins(asked.Windows, have) {
			differences = append(differences, fmt.Sprintf("--windows is %s, not %s: hosts are added at the end of the "+
				"list, and 'mullion node remove%s NAME' removes one", orNone(strings.Join(have, ",")),
				orNone(strings.Join(asked.Windows, ",")), nameFlag(c.Name)))
		} else {
			for _, build := range asked.Windows[len(have):] {
				c.addWindows(build, nil)
			}
		}
	}
	if asked.Linux != nil {
		have := len(c.LinuxHosts())
		if *asked.Linux < have {
			differences = append(differences, fmt.Sprintf("--linux is %d, not %d: workers are added, and 'mullion "+
				"node remove%s NAME' removes one", have, *asked.Linux, nameFlag(c.Name)))
		}
		for range *asked.Linux - have {
			c.addLinux(nil)
		}
	}
	return differences
}

// mergeSizes gives hosts the requested sizes, and returns the differences that prevent it: existing hosts keep
// their sizes while the cluster runs.
func (c *Config) mergeSizes(asked Choice, before Config, running bool) (differences []string) {
	hosts := c.inOrder()
	for _, as := range slices.Sorted(maps.Keys(asked.Sizes)) {
		name, want, have := hosts[as], asked.Sizes[as], c.Sizes[hosts[as]]
		switch {
		case name == "":
			differences = append(differences, fmt.Sprintf("sizes names %s: there is no such host", as))
		case want.CPUs == have.CPUs && want.bytes() == have.bytes():
		case running && IsNode(before, name):
			differences = append(differences, fmt.Sprintf("the size of %s is %s, not %s: run 'mullion stop%s' first",
				name, have, want, nameFlag(c.Name)))
		default:
			c.resize(name, want)
		}
	}
	return differences
}

// begins reports whether the requested builds begin with the cluster's builds, in any
// spelling.
func begins(asked, have []string) bool {
	return len(asked) >= len(have) && slices.EqualFunc(asked[:len(have)], have, func(a, b string) bool {
		x, errX := winver.Parse(a)
		y, errY := winver.Parse(b)
		return errX == nil && errY == nil && x.Number == y.Number
	})
}
