// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package gmsa is the admission of pods that run as a group managed service
// account: the contents of the credential spec are filled in for its name, and
// the pod's service account must be allowed to `use` it.
//
// It behaves as the webhook of github.com/kubernetes-sigs/windows-gmsa does
// (admission-webhook/webhook.go at 993de21; the messages are the same, because
// runbooks quote them), but for these:
//
//   - init containers and ephemeral containers count too. Upstream checks the
//     pod and its containers only: contents preset on an init container pass
//     unchecked there, and anyone who may create pods can use any account.
//   - the removal of a GMSA by an update is a change too.
//   - preset contents that name a key twice are refused. Upstream compares the
//     last of both values; Windows may take the other.
//   - contents that were not filled in are refused: upstream's Mutate fails closed
//     for every pod of the cluster, Then may fail open.
//   - a name that cannot be one is left to the API server's validation, which
//     reports the error.
package gmsa
