// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package storage

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// KeepTrash is the time between the deletion of a volume on its node and the deletion of
// its data: long enough to notice a mistake, and to restore etcd or the PersistentVolume.
const KeepTrash = 24 * time.Hour

// DeletedPrefix begins the annotations of a Node with the volumes that were deleted.
const DeletedPrefix = "deleted.local.mullion.dev/"

// DeletedAnnotation returns the key of the annotation by which the manager notifies a
// node of the deletion of a volume. The value is the time, as in RFC 3339. A handle that
// is too long for a key is replaced by its hash.
func DeletedAnnotation(handle string) string {
	if len(handle) > 63 {
		sum := sha256.Sum256([]byte(handle))
		handle = "sha256-" + hex.EncodeToString(sum[:20])
	}
	return DeletedPrefix + handle
}

// Look is the state of one volume's data as the node sees it.
type Look struct {
	// Now is the node's clock. Cluster is the cluster that responded, or "".
	Now     time.Time
	Cluster string
	// Deleted is the time of the deletion of the volume, by the manager's clock. It is
	// zero if the manager does not report a deletion.
	Deleted time.Time

	// Owner is the cluster that the volume was made in.
	Owner string
	// Published: a pod has the volume. Used is when one last got it.
	Published bool
	Used      time.Time
	// Trashed is when the data was moved to the trash, or zero.
	Trashed time.Time
}

// Action names a step of a node with the data of a volume.
type Action int

// The actions. Only Empty loses data.
const (
	Keep    Action = iota
	Trash          // move the data to the trash
	Restore        // move it back: the volume is not deleted any more
	Empty          // remove it from the trash
)

func (a Action) String() string {
	return [...]string{"keep", "trash", "restore", "empty"}[a]
}

// Decide returns the action for the state of a volume. Data moves towards its deletion
// only if the cluster in which the volume was made reports that it was deleted.
func Decide(l Look) Action {
	// A pod that came later had a PersistentVolume of the same data: a new one, which
	// the manager has not seen yet.
	deleted := !l.Deleted.IsZero() && !l.Used.After(l.Deleted)
	trashed := !l.Trashed.IsZero()
	switch {
	case l.Cluster == "" || l.Cluster != l.Owner:
		// Another cluster has no information about this volume.
		return Keep
	case trashed && !deleted:
		return Restore
	case trashed && l.Now.Sub(l.Trashed) >= KeepTrash:
		return Empty
	case deleted && !trashed && !l.Published:
		return Trash
	}
	return Keep
}
