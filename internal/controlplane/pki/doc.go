// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package pki makes and keeps the keys and certificates of a control plane.
//
// NewPlan returns the desired files (pure). Ensure makes the directory agree with them:
// missing files are made, leaves that are about to expire or that differ from the plan
// are replaced, temporary files of a killed process are removed.
//
// There are three authorities, because a certificate of one kind must not be
// good for another: the cluster's (clients, nodes, the API server), the front
// proxy's (who may assert a user's name to an extension API server) and
// etcd's (who may read every secret). Keys are P-256.
//
// # After a power cut
//
// Every file is written to a temporary name, synced and renamed. A leaf and its key are
// one file. An authority's key is written before its certificate, so a certificate never
// exists without its key. Ensure writes the file initialised last; before that the keys
// are unused, and broken files are recreated. Afterwards a lost or broken cluster
// authority, service account key or encryption key is an error that names the file,
// because a new one would lock the nodes out or make secrets unreadable; leaves, and the
// authorities that sign only for this control plane, are replaced.
package pki
