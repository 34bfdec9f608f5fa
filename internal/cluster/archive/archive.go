// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package archive writes and reads the file of a cluster's backup: a tar archive
// that begins with a manifest, backup.json, which names every other member with
// its size and SHA-256. The members are
//
//	cluster.json     the user's choices
//	pki/NAME         keys, certificates, the key of encryption at rest
//	etcd.snapshot    all objects: a snapshot as etcd itself writes it
//
// Extract does not trust an archive: the names, sizes, kinds and order of its members
// must match the manifest, and each entry of the manifest must be a member.
package archive

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"time"

	"golang.org/x/mod/semver"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/version"
)

// format is the layout of the archive, as this package writes it.
const format = 1

// The names of members.
const (
	manifestName = "backup.json"
	// Cluster is the cluster's cluster.json.
	Cluster = "cluster.json"
	// PKI is the directory of key material.
	PKI = "pki"
	// Snapshot is etcd's.
	Snapshot = "etcd.snapshot"
)

// Limits of an archive. The key material of a cluster has 25 files of about 2 kB;
// etcd's database is at most a little larger than its quota of 2 GiB.
const (
	maxManifest = 1 << 20
	maxFiles    = 256
	maxKey      = 1 << 20
	maxSnapshot = 4 << 30
)

// Manifest describes an archive; backup.json.
type Manifest struct {
	// Format is 1.
	Format int `json:"format"`
	// Mullion and Kubernetes are the versions of the program that made the backup.
	Mullion    string `json:"mullion"`
	Kubernetes string `json:"kubernetes"`
	// Name of the cluster.
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	// Revision of etcd's data, and the number of its keys.
	Revision int64 `json:"revision"`
	Keys     int   `json:"keys"`
	// Files are the other members, in their order.
	Files []File `json:"files"`
}

// File is one member.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // hexadecimal
}

// keyFile is the name of a file of key material.
var keyFile = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,99}$`)

// check returns an error if f cannot be a member.
func (f File) check() error {
	limit := int64(maxKey)
	switch {
	case f.Name == Snapshot:
		limit = maxSnapshot
	case f.Name == Cluster:
	case path.Dir(f.Name) == PKI && keyFile.MatchString(path.Base(f.Name)):
	default:
		return fmt.Errorf("member %q: a backup has no such file", f.Name)
	}
	if f.Size < 0 || f.Size > limit {
		return fmt.Errorf("member %s: %d bytes, want at most %d", f.Name, f.Size, limit)
	}
	return nil
}

// check returns an error for the first thing that is wrong with a manifest from
// outside.
func (m *Manifest) check() error {
	if len(m.Files) > maxFiles {
		return fmt.Errorf("%d members, want at most %d", len(m.Files), maxFiles)
	}
	seen := map[string]bool{}
	for _, f := range m.Files {
		if err := f.check(); err != nil {
			return err
		}
		if seen[f.Name] {
			return fmt.Errorf("member %s is listed twice", f.Name)
		}
		seen[f.Name] = true
	}
	for _, name := range []string{Cluster, Snapshot} {
		if !seen[name] {
			return fmt.Errorf("member %s is missing", name)
		}
	}
	if !slices.ContainsFunc(m.Files, func(f File) bool { return path.Dir(f.Name) == PKI }) {
		return errors.New("the key material is missing")
	}
	return nil
}

// parse reads a manifest. The version is checked first: the manifest of a newer mullion
// may have fields that are unknown to this one.
func parse(data []byte) (Manifest, error) {
	made, err := durable.ParseStatus[struct {
		Format     int    `json:"format"`
		Mullion    string `json:"mullion"`
		Kubernetes string `json:"kubernetes"`
	}](data)
	if err != nil {
		return Manifest{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if made.Format < 1 {
		return Manifest{}, fmt.Errorf("%w: format %d", ErrDamaged, made.Format)
	}
	if made.Format > format || version.Newer(made.Kubernetes) {
		return Manifest{}, fmt.Errorf("%w: it was made by mullion %s with Kubernetes %s, and this is mullion %s with "+
			"Kubernetes %s", ErrNewer, clean(made.Mullion), clean(made.Kubernetes), version.String(),
			version.Kubernetes)
	}
	m, err := durable.ParseDocument(data, (*Manifest).check)
	if err != nil {
		return Manifest{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return m, nil
}

// clean returns a version of a foreign document for a message.
func clean(v string) string {
	if !semver.IsValid(v) {
		return "(unknown)"
	}
	return v
}

// ErrDamaged is returned, wrapped, for an archive that is not as it was written.
var ErrDamaged = errors.New("the backup is damaged")

// ErrNewer is returned, wrapped, for an archive of a later version of mullion.
var ErrNewer = errors.New("the backup is too new")
