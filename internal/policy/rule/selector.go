// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

func selectorRules() []Rule {
	return []Rule{{
		Code:     "WIN425",
		Title:    "a selector that fits no Windows node",
		Severity: policy.Warning,
		Field:    "nodeSelector",
		Why: "No Windows node of the cluster has the labels that the pod selects: it stays pending until one joins, " +
			"or until the cluster's autoscaler adds one.",
		Fix:     "select labels that Windows nodes have, or label the nodes",
		Sources: []string{"https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/"},
		pod:     checkSelectorFits,
	}}
}

// checkSelectorFits reports the selectors that keep a Windows pod from every Windows
// node with known labels. Operating systems, architectures and builds have their own
// rules.
func checkSelectorFits(p *policy.Pod, r reporter) {
	nodes := p.Facts().WindowsNodes()
	unknown := func(n *policy.Node) bool { return n.Labels == nil }
	if !p.Windows() || p.Spec.Find("nodeName").Set() || len(nodes) == 0 || slices.ContainsFunc(nodes, unknown) ||
		len(p.Candidates()) > 0 {
		return
	}
	selector, alone := p.Spec.Get("nodeSelector"), false
	for _, key := range selector.Keys() {
		want := selector.Get(key)
		if policy.IsOSLabel(key) || key == "kubernetes.io/arch" || key == policy.BuildLabel || !isText(want) {
			alone = alone || !slices.ContainsFunc(nodes,
				func(n *policy.Node) bool { return n.MayHave(key, want.Str()) })
			continue
		}
		if slices.ContainsFunc(nodes, func(n *policy.Node) bool { return n.MayHave(key, want.Str()) }) {
			continue
		}
		alone = true
		r.at(want, "no Windows node has the label %s: %s; %s", key, want.Str(), labelsText(nodes, key))
	}
	if alone || p.SelectsBuild() {
		return
	}
	if terms := policy.AffinityTerms(p); len(terms) > 0 && !policy.AnyMatches(nodes, terms) {
		r.at(terms[0], "no Windows node matches the required node affinity; %s", labelsText(nodes, ""))
	} else if selector.Len() > 0 {
		r.at(selector, "no Windows node has all the labels that the pod selects; %s", labelsText(nodes, ""))
	}
}

func isText(v tree.Value) bool {
	_, ok := v.Raw().(string)
	return ok
}

// maxLabels is how many labels a message names.
const maxLabels = 8

// labelsText lists the values of a label on nodes or, if no node has the label,
// the labels that they have. Labels that identify single nodes are left out.
func labelsText(nodes []*policy.Node, key string) string {
	var values, all []string
	for _, n := range nodes {
		for k, v := range n.Labels {
			switch text := fmt.Sprintf("%s=%s", k, v); {
			case k == key && !slices.Contains(values, v):
				values = append(values, v)
			case k != "kubernetes.io/hostname" && !strings.HasPrefix(k, "beta.kubernetes.io/") &&
				!slices.Contains(all, text):
				all = append(all, text)
			}
		}
	}
	if len(values) > 0 {
		slices.Sort(values)
		return "on Windows nodes it is " + strings.Join(values, ", ")
	}
	slices.Sort(all)
	if more := len(all) - maxLabels; more > 0 {
		all = append(all[:maxLabels], fmt.Sprintf("and %d more", more))
	}
	return "they have " + strings.Join(all, ", ")
}
