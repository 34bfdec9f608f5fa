// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package inventory

// The names of a manager's objects in a cluster.
const (
	Namespace    = "mullion-system"  // of all below, unless an installation chose another
	Service      = "mullion-webhook" // where the API server finds the webhooks
	Secret       = "mullion-webhook" // certificates of the webhooks
	Lease        = "mullion-manager" // which manager runs the controllers
	LoadedImages = "loaded-images"   // ConfigMap of images that `mullion load` put on nodes

	// CredentialSpecs is the CustomResourceDefinition of GMSACredentialSpec.
	CredentialSpecs = "gmsacredentialspecs.windows.k8s.io"
)

// The label ManagedBy with the value Owner is on all that mullion makes in a
// cluster, at installation and at run time.
const (
	ManagedBy = "app.kubernetes.io/managed-by"
	Owner     = "mullion"
)

// Labels returns that label.
func Labels() map[string]string { return map[string]string{ManagedBy: Owner} }
