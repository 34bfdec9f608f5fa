// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"context"
	"fmt"

	"github.com/mullion-k8s/mullion/internal/cgroup"
)

// Clear removes the remains of hosts of a cluster on the machine if their parents
// were killed: processes that are still dying, and cgroups. Everything else of a
// host goes with its namespaces.
// Preconditions: no host of the cluster runs.
func Clear(ctx context.Context, cluster string) error {
	hs, err := cgroup.Find()
	if err != nil {
		return fmt.Errorf("clear hosts: %w", err)
	}
	return hs.Group(clusterGroup(cluster)).Clear(ctx, clearLimit)
}

// allGroup is the path of the cgroup of all hosts on the machine.
const allGroup = "/mullion"

// clusterGroup returns the path of the cgroup of a cluster's hosts.
func clusterGroup(cluster string) string { return allGroup + "/" + cluster }
