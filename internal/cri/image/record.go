// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image

import (
	"errors"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// ErrNotFound is returned, wrapped, for an image that the store does not have
// and, in containerd's wording, for a manifest without a matching platform.
var ErrNotFound = errors.New("not found")

// ErrInvalid is returned, wrapped, for content that breaks a rule: a digest or
// size that does not match, a path that a layer may not hold, a limit exceeded.
var ErrInvalid = errors.New("invalid image content")

// ErrInUse is returned, wrapped, by Open when another process has the store.
var ErrInUse = errors.New("image store is in use by another process")

// Image is one image of the store. It is a copy; changes to it have no effect.
type Image struct {
	ID          string   // digest of the config, "sha256:…": CRI's ID of the image
	RepoTags    []string // "docker.io/microsoft/iis:latest", sorted
	RepoDigests []string // "docker.io/microsoft/iis@sha256:…", sorted
	Size        int64    // bytes: compressed layers, config and manifest, as containerd counts

	Config    v1.Config // entry point, environment, user, …
	OS        string    // "windows"
	Arch      string    // "amd64"
	OSVersion string    // "10.0.17763.7919"; may be empty
	Created   time.Time

	// Layers are absolute directories, lowest first, ready to be overlayfs
	// lowerdirs. The Windows (Wine) layers below them are not among them.
	Layers []string

	// StandIn marks one of mullion's own images, in the place of an image that
	// cannot run here.
	StandIn bool
	// NoBase marks an image without layers that a stand-in replaces, because neither
	// their media type nor the history shows that they are Microsoft's.
	NoBase bool
	// Notes list the parts of the layers that have no effect here ("2 registry
	// hives are not applied"), for the user.
	Notes []string
}

// record is an image as it lies on disk.
type record struct {
	ID        string    `json:"id"`
	Tags      []string  `json:"tags,omitempty"`
	Digests   []string  `json:"digests,omitempty"`
	Manifest  string    `json:"manifest"`
	Size      int64     `json:"size"`
	Config    v1.Config `json:"config"`
	OS        string    `json:"os"`
	Arch      string    `json:"arch"`
	OSVersion string    `json:"osVersion,omitempty"`
	Created   time.Time `json:"created"`
	Layers    []layerID `json:"layers"`
	StandIn   bool      `json:"standIn,omitempty"`
	Notes     []string  `json:"notes,omitempty"`
	// Serial orders records by the time of their last change: if a crash left
	// one name on two images, the later record has it.
	Serial int64 `json:"serial"`
}

// layerID names directories: a layer of this store (Own), or a directory that the
// store never changes or removes: one below Config.ExternalDir (External), or the
// stand-in of Microsoft's layers of a kind (Base), which is looked up at each use,
// so that images outlive a change of the stand-ins.
type layerID struct {
	Own      string   `json:"own,omitempty"`
	External string   `json:"external,omitempty"`
	Base     BaseKind `json:"base,omitempty"`
}

// layerRecord is the proof that a layer is complete.
type layerRecord struct {
	ID      string   `json:"id"`
	Key     string   `json:"key"` // chain of everything below and of this layer's diff ID
	DiffID  string   `json:"diffID"`
	Bytes   int64    `json:"bytes"`
	Entries int64    `json:"entries"`
	Shape   string   `json:"shape"` // "windows" (Files/…) or "plain"
	Notes   []string `json:"notes,omitempty"`
}

// hold keeps layers for an owner.
type hold struct {
	Owner  string   `json:"owner"`
	Image  string   `json:"image"`
	Layers []string `json:"layers"`
}

// FsInfo is the space that the store takes.
type FsInfo struct {
	UsedBytes  uint64
	InodesUsed uint64
}
