// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package install puts the manager (admission webhooks and controllers) onto a
// cluster that somebody else runs, and takes it away again.
//
// Objects is pure: what a configuration comes to, as the values that the API
// server is asked for. Apply and Remove do it. Both first look at everything
// and then change what differs, so that each may be interrupted at any point
// and be run again.
//
// What is not in Objects, because the manager makes it at run time: the webhook
// configurations, the Secret with their certificates, the Lease of the leader,
// the RuntimeClasses, taints on nodes. Remove knows these too.
//
// The Helm chart in charts/mullion renders the same objects
// (docs/adr/0126-chart-beside-objects.md).
package install
