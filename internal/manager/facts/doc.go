// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package facts tells package policy what a live cluster is like: its
// nodes, RuntimeClasses, namespaces and version, and what is known of the
// images that a pod names.
//
// What a cluster holds is watched, and kept in the form in which policy wants
// it: an answer about one pod costs microseconds whatever the size of the
// cluster. What an image is for is taken, the best first, from
//
//  1. the ConfigMap of LoadedImages, which `mullion load` writes;
//  2. the image's registry, asked only where neither the pod nor the image's
//     name tells (policy.Unclear);
//  3. the nodes that report to have the image.
//
// Every fact may stay unknown. Whoever asks is told in words why, and goes on.
//
// Registries are foreign, and pod authors choose them: docs/internals/facts.md
// says what is done about that.
package facts
