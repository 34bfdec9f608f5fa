// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package registration registers the webhooks at the API server: the two
// configurations as pure values, and a keeper that applies them and reverts
// others' changes.
//
// The rules of the configurations, and why:
//
//   - Mutating webhooks fail open where that is harmless (placement), and
//     the final state is judged: with placement if no other webhook changes pods,
//     and else by a validating webhook, which a label selects.
//   - Webhooks that decide about rights (GMSA) fail closed, but only review
//     pods that use a GMSA: no other pod ever waits for them.
//   - kube-system, the manager's own namespace and namespaces that opt out are
//     never reviewed, so that a cluster whose webhooks are down can start,
//     and can start them.
//   - Match conditions keep objects away that no rule is about.
//
// Sources: Kubernetes' "Admission Webhook Good Practices"
// (https://kubernetes.io/docs/concepts/cluster-administration/admission-webhooks-good-practices/),
// k8s.io/api admissionregistration/v1.
package registration
