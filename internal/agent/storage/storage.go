// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package storage holds the agreements between the two halves of the class mullion-local:
// the provisioner in the manager, which makes PersistentVolumes, and the CSI driver on
// each node (package driver), which keeps their data. It also decides, as pure functions,
// which names and contexts of volumes are accepted, and when the data of a deleted volume
// is removed.
package storage

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Directories of a node's state directory. They hold users' data, so they outlive the node's identity in a cluster and
// its installation.
const (
	VolumesDir = "volumes"
	TrashDir   = "volume-trash"
	RecordsDir = "volume-records"
)

// Dirs returns the names of these directories.
func Dirs() []string { return []string{VolumesDir, TrashDir, RecordsDir} }

// Names in a cluster.
const (
	// Driver is the name of the CSI driver and of the provisioner.
	Driver = "local.mullion.dev"
	// Class is the StorageClass.
	Class = "mullion-local"
	// TopologyKey is the label that the kubelet puts onto nodes with the driver. Its
	// value is the node's name.
	TopologyKey = "topology.local.mullion.dev/node"
	// ClusterKey and BytesKey are the keys of a volume's context: the UID of the volume's cluster,
	// which is the UID of its namespace kube-system, and the volume's size. Earlier versions made
	// volumes without a size.
	ClusterKey = "local.mullion.dev/cluster"
	BytesKey   = "local.mullion.dev/bytes"
	// FreeAnnotation of a Node has the free bytes of the disk with its volumes.
	FreeAnnotation = "local.mullion.dev/free"
)

// maxID is the length of a volume's name. The data is in a directory of this name, and a
// path on Windows has at most 259 characters unless a program requests more; this leaves
// a hundred for the files in the volume.
const maxID = 128

var (
	// validID is a DNS subdomain, as names of PersistentVolumes are.
	validID = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	// device is a name that Windows takes for a device in every directory, with any
	// extension (learn.microsoft.com/windows/win32/fileio/naming-a-file).
	device   = regexp.MustCompile(`^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)`)
	validUID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
)

// CheckID checks a volume's name, from which the name of its directory is made.
func CheckID(id string) error {
	switch {
	case id == "":
		return errors.New("the volume has no name")
	case len(id) > maxID:
		return fmt.Errorf("volume name of %d characters: at most %d leave room for its files in a path", len(id), maxID)
	case !validID.MatchString(id):
		return fmt.Errorf("volume name %q: want lower-case letters, digits, '-' and '.', as in the name of a "+
			"PersistentVolume", id)
	case device.MatchString(id):
		return fmt.Errorf("volume name %q is a device on Windows", id)
	}
	return nil
}

// CheckContext checks a volume's context and returns the cluster's UID and the size, or 0.
func CheckContext(context map[string]string) (cluster string, bytes int64, err error) {
	for key, value := range context {
		switch key {
		case ClusterKey:
			if !validUID.MatchString(value) {
				return "", 0, fmt.Errorf("volume attribute %s %.100q is not a UID", ClusterKey, value)
			}
			cluster = value
		case BytesKey:
			if bytes, err = ParseBytes(value); err != nil {
				return "", 0, fmt.Errorf("volume attribute %s: %w", BytesKey, err)
			}
		default:
			return "", 0, fmt.Errorf("volume attribute %.100q: the driver supports only %s and %s", key, ClusterKey,
				BytesKey)
		}
	}
	if cluster == "" {
		return "", 0, fmt.Errorf("the volume has no attribute %s: volumes of this driver are made by the "+
			"StorageClass %s", ClusterKey, Class)
	}
	return cluster, bytes, nil
}

// ParseBytes reads the size of a volume.
func ParseBytes(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 || n > mostBytes {
		return 0, fmt.Errorf("size %.100q: want a number of bytes up to 2^50", s)
	}
	return n, nil
}

// mostBytes is more than any disk has: sums of sizes do not overflow.
const mostBytes = 1 << 50

// Room returns how much of a disk volumes may still reserve. A fifth of it is not for volumes: a full disk of claims
// must not bring a kubelet to its default thresholds, 15 % for images and 10 % for pods.
func Room(total, free int64) int64 { return max(free-total/5, 0) }

// CheckTarget checks where a volume is to appear: below the kubelet's directory, in the
// notation of the node's operating system.
func CheckTarget(kubeletDir, target string) error {
	refuse := func(why string) error { return fmt.Errorf("target path %.300q: %s", target, why) }
	if strings.ContainsRune(target, 0) {
		return refuse("it has a character that no path has")
	}
	clean := strings.ReplaceAll(target, `\`, "/")
	below, ok := strings.CutPrefix(clean, strings.TrimRight(strings.ReplaceAll(kubeletDir, `\`, "/"), "/")+"/")
	if !ok {
		return refuse("it is not below " + kubeletDir)
	}
	for name := range strings.SplitSeq(below, "/") {
		switch {
		case name == "", name == ".", name == "..":
			return refuse("it is not in its shortest form")
		case strings.Contains(name, ":"):
			return refuse("it names a drive or a stream")
		case strings.HasSuffix(name, ".") || strings.HasSuffix(name, " "):
			return refuse("Windows takes dots and spaces off the end of a name")
		case device.MatchString(strings.ToLower(name)):
			return refuse("it names a device")
		}
	}
	return nil
}
