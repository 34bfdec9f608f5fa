// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

// Namespace holds the facts about a namespace.
type Namespace struct {
	Labels      map[string]string
	Annotations map[string]string // the annotations that rules read
}

// NewNamespace returns the facts about a namespace with these labels and annotations.
// Annotations can be large, and most concern others.
func NewNamespace(labels, annotations map[string]string) Namespace {
	n := Namespace{Labels: labels}
	for _, key := range []string{LinkerdInject, LinkerdProxy} {
		if v, ok := annotations[key]; ok {
			if n.Annotations == nil {
				n.Annotations = map[string]string{}
			}
			n.Annotations[key] = v
		}
	}
	return n
}

// DefaultOSLabel is the label of a namespace that names the operating system of pods without a signal.
const DefaultOSLabel = "placement.mullion.dev/default-os"

// LinkerdInject is the annotation of a pod or a namespace that requests Linkerd's
// proxy, which exists for Windows since Linkerd 2.18.
const LinkerdInject = "linkerd.io/inject"

// LinkerdProxy is the annotation that names the image of Linkerd's proxy.
const LinkerdProxy = "config.linkerd.io/proxy-image"

// The labels of Pod Security Admission.
const (
	EnforceLevel   = "pod-security.kubernetes.io/enforce"
	EnforceVersion = "pod-security.kubernetes.io/enforce-version"
)

// ExemptFrom is the version of the restricted profile that exempts Windows pods
// from the Linux-only fields.
const ExemptFrom Version = 25
