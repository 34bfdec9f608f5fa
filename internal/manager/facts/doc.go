// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package facts provides package policy with facts about a live cluster: its
// nodes, RuntimeClasses, namespaces and version, and the images that a pod
// names.
//
// It watches the cluster and keeps the objects in the form that policy needs,
// so an answer about one pod takes microseconds for a cluster of any size. The
// platforms of an image come from, best first,
//
//  1. the ConfigMap of LoadedImages, which `mullion load` writes;
//  2. the image's registry, queried only where neither the pod nor the image's
//     name reveals the platform (policy.Unclear);
//  3. the nodes that report to have the image.
//
// Every fact may stay unknown. Callers get a warning with the reason and
// continue without it.
//
// Registries are untrusted, and pod authors choose them:
// docs/internals/facts.md describes the precautions.
package facts
