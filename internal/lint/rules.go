// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
)

// Rules lists the rules of policy and those about files.
func Rules() []policy.Rule { return append(policy.All(), inputRules()...) }

// FindRule returns the rule with a code.
func FindRule(code string) (policy.Rule, bool) {
	for _, r := range Rules() {
		if strings.EqualFold(r.Code, code) {
			return r, true
		}
	}
	return policy.Rule{}, false
}

// inputRules describes the problems of files: this package finds them while it
// reads.
func inputRules() []policy.Rule {
	rule := func(code, title, why, fix string, s policy.Severity, sources ...string) policy.Rule {
		return policy.Rule{Code: code, Title: title, Severity: s, Field: "the file", Why: why, Fix: fix, Sources: sources}
	}
	const yaml12, sigsYAML = "https://yaml.org/spec/1.2.2/", "sigs.k8s.io/yaml"
	return []policy.Rule{
		rule("WIN901", "neither YAML nor JSON", "The text cannot be read. The place named is where the indentation, the quotes or the brackets stop to fit.", "mend it there; render templates first", policy.Error, yaml12),
		rule("WIN902", "a key given twice", "A mapping has the same key twice. Strict readers refuse it, others take the last one in silence.", "remove one", policy.Error, yaml12, sigsYAML),
		rule("WIN903", "larger or deeper than an object can be", "A document of more than 4 MiB, nested deeper than 200 levels, or with aliases that stand for more than 100,000 values, is not read: the API server takes 3 MiB.", "split it, or write aliases out", policy.Error, "k8s.io/apiserver pkg/server: MaxRequestBodyBytes"),
		rule("WIN904", "not UTF-8 text", "Manifests are UTF-8. PowerShell 5 writes UTF-16 with >; a NUL byte means that the file is no text at all.", "save it as UTF-8", policy.Error, "https://learn.microsoft.com/powershell/module/microsoft.powershell.core/about/about_character_encoding"),
		rule("WIN907", "a suppression without a reason", "A comment that suppresses a rule must say why; without a reason it suppresses nothing.", "write the reason behind the code", policy.Warning, "docs/internals/policy.md"),
		rule("WIN908", "no object of Kubernetes", "The document is a list or a single value.", "give manifests only; render charts first (helm template)", policy.Error, "https://kubernetes.io/docs/concepts/overview/working-with-objects/"),
	}
}
