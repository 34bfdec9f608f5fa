// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"context"
	"net/netip"

	"github.com/mullion-k8s/mullion/internal/cgroup"
)

// Spec describes a host to Run.
type Spec struct {
	// Cluster and Name name the host's cgroup.
	Cluster, Name string
	// Build and Product are shown in the status.
	Build, Product string

	// Address of the host's adapter, with the prefix length of the network between
	// the hosts, and the Gateway there. PodCIDR and ServiceCIDR are the cluster's.
	Address              netip.Prefix
	Gateway              netip.Addr
	PodCIDR, ServiceCIDR netip.Prefix
	// Second has the same in IPv6, if the cluster has two address families.
	Second Second

	// Dir is the host's own directory.
	Dir string
	// Fabric is the file of the network namespace with the switch between the hosts.
	Fabric string
	// Router is the file of the network namespace that learns the way to the host's pods;
	// "" means Fabric.
	Router string
	// Status is where the host's Status is written at each change.
	Status string
	// Limits of everything on the host together, and the size that its programs see. Zero
	// leaves the size to CeilingsOf, and otherwise means none.
	Limits cgroup.Limits
	// Hosts is how many share the machine's memory.
	Hosts int
	// PinCPUs keeps the host's processes on some processors of the machine; otherwise they
	// get as much time of all.
	PinCPUs bool
	// Devices are those that processes of the host may use, see cgroup.Group.Allow;
	// nil means all.
	Devices []string
	// Descriptors are files that process 1 inherits, from descriptor 5 on.
	Descriptors []string

	// Prepare makes what needs no namespace, and returns the document for process 1.
	Prepare func(context.Context, *Parent) (boot any, err error)
	// Connected is called when the host's network is there, before process 1 begins.
	// What it starts ends with the context, which ends with the host. It may be nil.
	Connected func(ctx context.Context, netns string) error
}
