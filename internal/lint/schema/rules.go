// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package schema

import "github.com/mullion-k8s/mullion/internal/policy"

// proven is the test that shows the refusals.
const proven = "test/e2e.TestCannotRun"

// Rules describes what this package finds.
func Rules() []policy.Rule {
	const (
		strict     = "https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation"
		removals   = "https://kubernetes.io/docs/reference/using-api/deprecation-guide/"
		validation = "k8s.io/kubernetes/pkg/apis/*/validation"
	)
	rule := func(code, title, field, why, fix, source string) policy.Rule {
		return policy.Rule{
			Code:     code,
			Title:    title,
			Severity: policy.Error,
			Field:    field,
			Why:      why,
			Fix:      fix,
			Sources:  []string{source},
			Proof:    proven,
		}
	}
	return []policy.Rule{
		rule(codeVersion, "a version or kind that is not served", "apiVersion",
			"No API server of this version of Kubernetes has the kind in this version: it was removed, came later, or "+
				"is mistyped. With --kubernetes-version or --cluster that version counts, else the one that mullion "+
				"is built with. Kinds in other groups than Kubernetes' own may be custom resources: not judged.",
			"use the version that replaces it", removals),
		rule(codeField, "a field that does not exist", "any",
			"kubectl and most tools ask for a strict reading, and the API server refuses unknown fields; others drop "+
				"them silently. Kubernetes' own kinds are compared with the Go types that the API server decodes. For "+
				"clusters with a newer Kubernetes than mullion is built with, it is a warning.",
			"correct the name, or move the field to where it belongs", strict),
		rule(codeType, "a value of the wrong type", "any",
			"The API server decodes each field into a type, and refuses numbers and booleans where it wants text: "+
				"values of env, labels and annotations need quotes. Text with a mark of a template (${X}, {{ x }}, "+
				"__X__ and others) is left alone.",
			"write a value of the type", strict),
		rule(codeMissing, "a field that is needed is missing", "any",
			"The API server refuses an object without it.", "add it", validation),
		rule(codeValue, "a value that is not allowed", "any",
			"The API server allows only certain words, ranges and formats here.", "write an allowed value", validation),
		rule(codeTwice, "a name given twice", "`containers`, `volumes`, `ports`, `volumeMounts`",
			"Names are unique within a pod, mount paths within a container.", "give each its own", validation),
		rule(codeReference, "a volume that the pod does not have", "`volumeMounts[*].name`",
			"Each volumeMount names one of the pod's volumes, or a claim of its StatefulSet.",
			"add the volume, or correct the name", validation),
		rule(codeSelector, "a selector that does not select the template", "`spec.selector`",
			"A workload must select the pods that it makes.", "give the template the labels of the selector",
			validation),
		rule(codeExclusive, "fields that exclude each other", "any",
			"Only one of the fields may be there, or one must not exceed the other.", "remove one", validation),
	}
}
