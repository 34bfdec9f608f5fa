// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"context"
	"fmt"
	"os"
)

// Clear removes what hosts of a cluster leave on the machine if their parents
// were killed: processes that are still dying, and cgroups. Everything else of
// a host goes with its namespaces.
// Preconditions: no host of the cluster runs.
func Clear(ctx context.Context, cluster string) error {
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("clear hosts: %w", err)
	}
	hs, err := parseHierarchies(string(mountinfo))
	if err != nil {
		return fmt.Errorf("clear hosts: %w", err)
	}
	g := newCgroup(Config{Cluster: cluster}, hs)
	return g.Clear(ctx, clearLimit)
}
