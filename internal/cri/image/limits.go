// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image

import (
	"cmp"
	"fmt"
)

// Limits bound the resources that one image may use. Zero values mean the defaults.
type Limits struct {
	// MetadataBytes bounds a manifest, an index or a config. 8 MiB is
	// containerd's bound for manifests (remotes/docker, MaxManifestSize) plus
	// room; the largest known configs are some 100 KiB.
	MetadataBytes int64
	// Layers bounds the number of layers: 127 as in Docker (layer/layer_store.go,
	// maxLayerDepth = 125 plus the base); overlayfs itself ends at 500.
	Layers int
	// LayerBytes bounds one unpacked layer. The largest layer that Microsoft
	// publishes (windows/server) unpacks to about 11 GB; 64 GiB is far above.
	LayerBytes int64
	// LayerEntries bounds the entries of one layer; windows/server has 180,000.
	// Directories that only the paths of others name count too.
	LayerEntries int64
	// NameBytes bounds the paths of one layer's entries together, which are
	// remembered while it is unpacked; the paths of windows/server have some 20 MB.
	NameBytes int64
	// Ratio bounds unpacked to compressed bytes once more than RatioFrom bytes
	// were unpacked. Real layers stay below 10; gzip of zeros reaches 1,032.
	Ratio     int64
	RatioFrom int64
	// ArchiveBytes bounds the bytes that Load reads from one archive.
	ArchiveBytes int64
}

func (l Limits) withDefaults() Limits {
	l.MetadataBytes = cmp.Or(l.MetadataBytes, 8<<20)
	l.LayerBytes = cmp.Or(l.LayerBytes, 64<<30)
	l.LayerEntries = cmp.Or(l.LayerEntries, 1_000_000)
	l.NameBytes = cmp.Or(l.NameBytes, 256<<20)
	l.Ratio = cmp.Or(l.Ratio, 200)
	l.RatioFrom = cmp.Or(l.RatioFrom, 64<<20)
	l.ArchiveBytes = cmp.Or(l.ArchiveBytes, 128<<30)
	l.Layers = cmp.Or(l.Layers, 127)
	return l
}

// meter counts the cost of unpacking a layer and stops it at the limits.
type meter struct {
	limits     Limits
	compressed int64 // size of the blob
	entries    int64
	names      int64
	bytes      int64
	read       int64 // bytes of the tar stream, headers included
}

func (m *meter) entry() error {
	m.entries++
	if m.entries > m.limits.LayerEntries {
		return fmt.Errorf("%w: more than %d entries", ErrInvalid, m.limits.LayerEntries)
	}
	return nil
}

// name counts the path of an entry.
func (m *meter) name(n int) error {
	m.names += int64(n)
	if m.names > m.limits.NameBytes {
		return fmt.Errorf("%w: paths of more than %d bytes", ErrInvalid, m.limits.NameBytes)
	}
	return nil
}

// declare checks the size that a header claims before anything is written.
func (m *meter) declare(n int64) error {
	if n < 0 || n > m.limits.LayerBytes-m.bytes {
		return fmt.Errorf("%w: unpacks to more than %d bytes", ErrInvalid, m.limits.LayerBytes)
	}
	return nil
}

func (m *meter) add(n int64) error {
	m.bytes += n
	if m.bytes > m.limits.LayerBytes {
		return fmt.Errorf("%w: unpacks to more than %d bytes", ErrInvalid, m.limits.LayerBytes)
	}
	return nil
}

// stream counts decompressed bytes, so that a bomb is stopped even if it hides
// in headers or in padding that never becomes a file.
func (m *meter) stream(n int64) error {
	m.read += n
	if m.read > m.limits.RatioFrom && m.read/m.limits.Ratio > max(m.compressed, 1) {
		return fmt.Errorf("%w: decompresses to more than %d times its size", ErrInvalid, m.limits.Ratio)
	}
	// Headers take space too: the stream may be twice the limit of the files.
	if m.read > 2*m.limits.LayerBytes {
		return fmt.Errorf("%w: decompresses to more than %d bytes", ErrInvalid, 2*m.limits.LayerBytes)
	}
	return nil
}
