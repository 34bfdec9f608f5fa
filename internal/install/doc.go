// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package install installs the manager (admission webhooks and controllers) on
// an existing cluster, and removes it again.
//
// Objects is a pure function from a configuration to the objects to send to the
// API server. Apply and Remove carry it out. Both first inspect everything and
// then change the differences, so each may be interrupted at any point and run
// again.
//
// Objects does not include the manager's own objects, created at run time: the
// webhook configurations, the Secret with their certificates, the Lease of the
// leader, the RuntimeClasses, taints on nodes. Remove handles these too.
//
// The Helm chart in charts/mullion renders the same objects
// (docs/internals/install.md).
package install
