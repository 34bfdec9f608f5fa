// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package manager puts the Windows parts of a cluster together: the admission
// webhooks with their certificates and their registration, the facts that they
// judge by, and the controllers. The control plane has one in its own process;
// `mullion manager` runs one in an existing cluster.
//
// Order of a start, and why:
//
//  1. facts and certificates; without a certificate no request can be answered
//  2. the webhooks listen
//  3. once the webhooks answer at the address by which the API server finds
//     them, they are registered: a registered webhook that does not answer
//     costs every pod its timeout
//  4. controllers, where this manager leads
//
// It stops in the opposite order. The registration stays: webhooks fail open,
// and the next manager answers for the same configurations.
package manager
