// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package bench measures what a user waits for and pays: whole clusters, with a
// named peer in the same run where there is one. The peer for starting a
// control plane is kwokctl's binary runtime with the same Kubernetes build
// (test/bench/peers). Figures are printed as Go benchmarks with units of their
// own; nothing is asserted.
package bench
