// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lint

import (
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/lint/schema"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/rule"
)

// allRules returns the rules of package policy, and the rules about schemas and
// files.
func allRules() []rule.Rule { return slices.Concat(rule.All(), schema.Rules(), inputRules()) }

// FindRule returns the rule with a code.
func FindRule(code string) (rule.Rule, bool) {
	for _, r := range allRules() {
		if strings.EqualFold(r.Code, code) {
			return r, true
		}
	}
	return rule.Rule{}, false
}

// unread reports whether a rule is about inputs that cannot be read, so that lint
// has not seen their content.
func unread(code string) bool {
	return slices.Contains([]string{"WIN901", "WIN903", "WIN904", "WIN908", "WIN909", "WIN910"}, code)
}

// inputRules describes problems of files, which this package finds while it
// reads them.
func inputRules() []rule.Rule {
	const (
		field  = "the file"
		yaml12 = "https://yaml.org/spec/1.2.2/"
	)
	return []rule.Rule{
		{
			Code:     "WIN901",
			Title:    "neither YAML nor JSON",
			Severity: policy.Error,
			Field:    field,
			Why: "The text cannot be parsed. The position shown is where indentation, quotes or brackets stop " +
				"matching. In a folder, settings of other programs and templates are skipped and counted.",
			Fix:     "fix the syntax there; render templates first",
			Sources: []string{yaml12},
		},
		{
			Code:     "WIN902",
			Title:    "a key given twice",
			Severity: policy.Warning,
			Field:    field,
			Why: "A mapping has the same key twice. kubectl and helm silently use the last one. kustomize, and " +
				"tools that use it, refuse the file.",
			Fix:     "remove one",
			Sources: []string{yaml12, "sigs.k8s.io/yaml"},
		},
		{
			Code:     "WIN903",
			Title:    "larger or deeper than an object can be",
			Severity: policy.Error,
			Field:    field,
			Why: "A document of more than 4 MiB (in JSON, an item of a List), nested deeper than 200 levels, or with " +
				"aliases for more than 100,000 values is not read: the API server accepts 3 MiB.",
			Fix:     "split it, or write aliases out",
			Sources: []string{"k8s.io/apiserver pkg/server: MaxRequestBodyBytes"},
		},
		{
			Code:     "WIN904",
			Title:    "not UTF-8 text",
			Severity: policy.Error,
			Field:    field,
			Why: "Manifests are UTF-8. PowerShell 5 writes UTF-16 with >; a NUL byte means that the file is not " +
				"text.",
			Fix: "save it as UTF-8",
			Sources: []string{"https://learn.microsoft.com/powershell/module/microsoft.powershell.core/about/" +
				"about_character_encoding"},
		},
		{
			Code:     "WIN907",
			Title:    "a suppression without a reason",
			Severity: policy.Warning,
			Field:    field,
			Why:      "A comment that suppresses a rule must give the reason. Without one, it has no effect.",
			Fix:      "write the reason after the code",
			Sources:  []string{"docs/internals/policy.md"},
		},
		{
			Code:     "WIN908",
			Title:    "not a Kubernetes object",
			Severity: policy.Error,
			Field:    field,
			Why: "The document is a list, a single value, or a mapping without apiVersion or kind. In a folder such " +
				"documents are skipped and counted.",
			Fix:     "pass manifests only; render charts first (helm template)",
			Sources: []string{"https://kubernetes.io/docs/concepts/overview/working-with-objects/"},
		},
		{
			Code:     "WIN909",
			Title:    "a kustomization or a chart that cannot be built",
			Severity: policy.Error,
			Field:    field,
			Why: "kustomize refuses the kustomization or one of its files, or the installed helm cannot render the " +
				"chart. lint uses kustomize's library.",
			Fix: "kubectl kustomize FOLDER, or helm template FOLDER, shows the same message",
			Sources: []string{"https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/",
				"https://helm.sh/docs/helm/helm_template/"},
		},
		{
			Code:     "WIN910",
			Title:    "a file that cannot be read",
			Severity: policy.Error,
			Field:    field,
			Why:      "The file or folder does not exist, or you may not read it. lint still checks the others.",
			Fix:      "check the path and its permissions",
			Sources:  []string{"https://pkg.go.dev/os#Open"},
		},
	}
}
