// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package registration is how the API server comes to know the webhooks: the
// two configurations as pure values, and a keeper that applies them and puts
// back what others change.
//
// The rules of the configurations, and why:
//
//   - Mutating webhooks fail open where nothing is lost by it (placement), and
//     the final state is judged: with placement where nothing else changes pods,
//     and else by a validating webhook, which a label selects.
//   - What decides about rights (GMSA) fails closed, but is only asked about
//     pods that use a GMSA: no other pod ever waits for it.
//   - kube-system, the manager's own namespace and namespaces that opt out are
//     never asked about, so that a cluster whose webhooks are down can start,
//     and can start them.
//   - Match conditions keep objects away that no rule is about.
//
// Sources: Kubernetes' "Admission Webhook Good Practices"
// (https://kubernetes.io/docs/concepts/cluster-administration/admission-webhooks-good-practices/),
// k8s.io/api admissionregistration/v1.
package registration
