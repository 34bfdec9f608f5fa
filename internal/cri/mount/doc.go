// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package mount opens files of an emulated host to mount them, and takes mounts
// down. Containers write to the host's files while the runtime looks at them, so
// files are opened once, without following links, and mounted by that handle.
package mount
