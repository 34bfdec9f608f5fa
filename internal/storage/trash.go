// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package storage

import "time"

// Between a PersistentVolume's end and that of its data.
const (
	// MissingFor is the time between the two looks that find no PersistentVolume before
	// the data goes to the trash.
	MissingFor = 5 * time.Minute
	// KeepTrash is how long data stays in the trash: long enough to notice that etcd
	// was restored from a snapshot that does not know the volume yet, and to restore a
	// later one.
	KeepTrash = 24 * time.Hour
)

// Look has all that a node knows about the data of one volume when it looks.
type Look struct {
	// Now is the node's clock. Cluster is the cluster that answered; "" if none did.
	Now     time.Time
	Cluster string
	// Exists reports whether the cluster has the PersistentVolume; Unknown means that
	// it was not possible to ask.
	Exists  bool
	Unknown bool

	// Owner is the cluster that the volume was made in.
	Owner string
	// Published: a pod has the volume.
	Published bool
	// Missing is when a look first found no PersistentVolume; Trashed when the data
	// was moved to the trash. Both are zero if that has not happened.
	Missing, Trashed time.Time
}

// Action names a step of a node with the data of a volume.
type Action int

// The actions. Only Empty loses data.
const (
	Keep    Action = iota
	Mark           // remember that the PersistentVolume is missing
	Unmark         // it is there after all
	Trash          // move the data to the trash
	Restore        // move it back: its PersistentVolume exists again
	Empty          // remove it from the trash
)

func (a Action) String() string {
	return [...]string{"keep", "mark", "unmark", "trash", "restore", "empty"}[a]
}

// Decide says which action follows a look.
func Decide(l Look) Action {
	trashed := !l.Trashed.IsZero()
	switch {
	case l.Unknown || l.Cluster == "" || l.Cluster != l.Owner:
		// Another cluster knows nothing about this volume.
		return Keep
	case l.Exists && trashed:
		return Restore
	case l.Exists && !l.Missing.IsZero():
		return Unmark
	case l.Exists:
		return Keep
	case trashed && l.Now.Sub(l.Trashed) >= KeepTrash:
		return Empty
	case trashed:
		return Keep
	case l.Published && !l.Missing.IsZero():
		return Unmark
	case l.Published:
		return Keep
	case l.Missing.IsZero() || l.Now.Before(l.Missing): // never, or before the clock was set back
		return Mark
	case l.Now.Sub(l.Missing) >= MissingFor:
		return Trash
	}
	return Keep
}
