// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import "context"

// Spec describes a host to Run.
type Spec struct {
	Config
	// Build and Product are shown in the status.
	Build, Product string
	// Router is the file of the network namespace that learns the way to the host's pods;
	// "" means Fabric.
	Router string
	// Services is set if the host's kube-proxy forwards connections of others to Services. The machine then reaches
	// them by the host.
	Services bool
	// RootPods is set if pods may run as root, and may not have root's share of the disk.
	RootPods bool
	// PinCPUs keeps the host's processes on some processors of the machine; otherwise they
	// get as much time of all.
	PinCPUs bool
	// Devices are the devices that processes of the host may use, see
	// cgroup.Group.Allow; nil means all.
	Devices []string
	// Descriptors are files that process 1 inherits, from descriptor 7 on.
	Descriptors []string

	// Prepare does the work that needs no namespace, and returns the document for
	// process 1.
	Prepare func(context.Context, *Parent) (boot any, err error)
	// Connected is called when the host's network is there, before process 1 begins.
	// Its goroutines end with the context, which ends with the host. It may be nil.
	Connected func(ctx context.Context, netns string) error
}
