// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package lookup queries registries for the platforms of the images of pods,
// with the credentials that a kubelet would use, and caches the answers.
//
// Registries are untrusted, and pod authors choose them:
// docs/internals/facts.md describes the precautions.
package lookup
