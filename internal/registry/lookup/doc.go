// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package lookup asks registries which platforms the images of pods are for,
// with the credentials that a kubelet would use, and remembers the answers.
//
// Registries are foreign, and pod authors choose them: docs/internals/facts.md
// says what is done about that.
package lookup
