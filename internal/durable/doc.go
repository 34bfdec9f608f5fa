// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package durable keeps files that several processes share and that must
// survive a crash: it replaces them atomically, locks them, and reads and
// writes the JSON documents in them.
package durable
