// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package image is the image store of an emulated Windows host: it pulls and
// loads OCI and Docker images, verifies them, unpacks their Windows layers into
// directories that overlayfs can stack, and records them.
//
// # Limits
//
// It does not mount file systems or run programs. It does not hold the Windows base
// layers: they are never fetched. A layer that is recognised as Microsoft's base
// (baseLayers) is replaced by a directory of the stand-in images, which are outside
// the store and shared by all hosts.
//
// # On disk
//
//	blobs/sha256/<hex>   manifests and configs, and layers until they are unpacked
//	l/<id>/              one unpacked layer; the short name keeps mount options short
//	m/<id>.json          the layer's record; a layer without one does not exist
//	images/<hex>.json    one image, named by its config's digest
//	holds/<owner>.json   the layers that a container needs, even if the image is removed
//	ingest/              incomplete files and directories; emptied by Open
//	lock                 flock of the process that has the store open
//
// Every file is synced and then renamed into place, in an order that makes each
// prefix of the sequence valid: blob, layer directory, layer record, image
// record. Open removes files that no later step refers to, so that after a kill
// or a power cut at any moment an image is either complete or absent.
//
// # Concurrency
//
// A Store is safe for concurrent use. Pulls of the same reference are
// coalesced; unpacking of the same layer happens once. One process at a time
// may have a store open.
//
// # Fidelity
//
// docs/fidelity/images.md lists the differences from containerd on Windows.
package image
