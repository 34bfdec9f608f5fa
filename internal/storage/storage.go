// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package storage holds what the two halves of the class mullion-local agree on: the
// provisioner in the manager, which makes PersistentVolumes, and the CSI driver on
// each node (package driver), which keeps their data. It also decides, as pure
// functions, which names and contexts of volumes are accepted, and when the data of a
// deleted volume is removed.
package storage

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Names in a cluster.
const (
	// Driver is the CSI driver's name, and that of the provisioner.
	Driver = "local.mullion.dev"
	// Class is the StorageClass.
	Class = "mullion-local"
	// TopologyKey is the label that the kubelet puts onto nodes with the driver. Its
	// value is the node's name.
	TopologyKey = "topology.local.mullion.dev/node"
	// ClusterKey is the only key of a volume's context: the UID of the cluster that the
	// volume belongs to, which is that of its namespace kube-system.
	ClusterKey = "local.mullion.dev/cluster"
	// FreeAnnotation of a Node has the free bytes of the disk with its volumes.
	FreeAnnotation = "local.mullion.dev/free"
)

// maxID is the length of a volume's name. The data is in a directory of this name, and
// a path on Windows has at most 259 characters unless a program asks for more; this
// leaves a hundred for the files in the volume.
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

// CheckContext checks a volume's context and returns the cluster's UID.
func CheckContext(context map[string]string) (cluster string, err error) {
	for key, value := range context {
		if key != ClusterKey {
			return "", fmt.Errorf("volume attribute %.100q: the driver knows only %s", key, ClusterKey)
		}
		if !validUID.MatchString(value) {
			return "", fmt.Errorf("volume attribute %s %.100q is not a UID", ClusterKey, value)
		}
		cluster = value
	}
	if cluster == "" {
		return "", fmt.Errorf("the volume has no attribute %s: volumes of this driver are made by the StorageClass %s",
			ClusterKey, Class)
	}
	return cluster, nil
}

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
