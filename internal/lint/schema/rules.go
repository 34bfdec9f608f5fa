// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package schema

import (
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/rule"
)

// proven is the test that shows the refusals.
const proven = "test/e2e.TestCannotRun"

// Rules returns the rules of this package.
func Rules() []rule.Rule {
	const (
		strict     = "https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation"
		removals   = "https://kubernetes.io/docs/reference/using-api/deprecation-guide/"
		validation = "k8s.io/kubernetes/pkg/apis/*/validation"
	)
	refused := func(code, title, field, why, fix, source string) rule.Rule {
		return rule.Rule{
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
	return []rule.Rule{
		refused(codeVersion, "a version or kind that is not served", "apiVersion",
			"No API server of this version of Kubernetes has the kind in this version: it was removed, came later, or "+
				"is mistyped. --kubernetes-version or --cluster sets the version; the default is mullion's. Kinds in "+
				"other groups than Kubernetes' own are not checked, because they may be custom resources.",
			"use the version that replaces it", removals),
		refused(codeField, "a field that does not exist", "any",
			"With kubectl and most tools, the API server refuses unknown fields. With others, it drops them silently. "+
				"Kubernetes' own kinds are compared with the API server's Go types. For clusters with a newer "+
				"Kubernetes than mullion's, the finding is a warning.",
			"correct the name, or move the field to where it belongs", strict),
		refused(codeType, "a value of the wrong type", "any",
			"The API server decodes each field into a type, and refuses numbers and booleans where it expects text: "+
				"values of env, labels and annotations need quotes. Text with a mark of a template (${X}, {{ x }}, "+
				"__X__ and others) is not checked.",
			"write a value of the type", strict),
		refused(codeMissing, "a required field is missing", "any",
			"The API server refuses an object without it.", "add it", validation),
		refused(codeValue, "a value that is not allowed", "any",
			"The API server allows only certain words, ranges and formats here.", "write an allowed value", validation),
		refused(codeTwice, "a name given twice", "`containers`, `volumes`, `ports`, `volumeMounts`",
			"Names are unique within a pod, mount paths within a container.", "give each a different name", validation),
		refused(codeReference, "a volume that the pod does not have", "`volumeMounts[*].name`",
			"Each volumeMount names one of the pod's volumes, or a claim of its StatefulSet.",
			"add the volume, or correct the name", validation),
		refused(codeSelector, "a selector that does not select the template", "`spec.selector`",
			"A workload must select the pods that it makes.", "give the template the labels of the selector",
			validation),
		refused(codeExclusive, "fields that do not fit together", "any",
			"The API server refuses fields that exclude each other, a field without the field that it needs, and a "+
				"value above its limit.",
			"remove one of the fields, or correct the value", validation),
	}
}
