// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
)

// buildRules are about pods that some of the Windows nodes can run.
func buildRules() []Rule {
	return []Rule{
		{
			Code:     "WIN414",
			Title:    "a pod that may land on a node of another build",
			Severity: policy.Warning,
			Field:    "containers[*].image",
			Why: "Some of the Windows nodes that the pod may use cannot run its images, and the scheduler does not " +
				"compare builds: on those nodes the pod fails when its images are pulled or its containers start. " +
				"(mullion's admission webhook adds the selector.)",
			Fix:     "select the build: node.kubernetes.io/windows-build",
			Sources: []string{srcCompat, srcGuide},
			pod:     checkMixedNodes,
		},
	}
}

func checkMixedNodes(p *policy.Pod, r reporter) {
	if !p.Windows() || p.Spec.Find("nodeName").Set() {
		return
	}
	if rc := p.Spec.Find("runtimeClassName"); rc.Set() && !p.Facts().ClassKnown(rc.Str()) {
		return
	}
	nodes := p.Candidates()
	fit := p.Fitting(nodes, policy.HyperV(p))
	// If no node fits, another rule reports it. If the build of the fitting
	// nodes is unknown, there is no build to select.
	builds := policy.BuildsOf(fit)
	if len(fit) == len(nodes) || len(builds) == 0 {
		return
	}
	unfit := slices.DeleteFunc(slices.Clone(nodes), func(n *policy.Node) bool { return slices.Contains(fit, n) })
	for i := range p.Containers {
		c := &p.Containers[i]
		if !slices.ContainsFunc(unfit, func(n *policy.Node) bool { return !p.Runs(c, n, policy.HyperV(p)) }) {
			continue
		}
		var labels []string
		for _, b := range builds {
			labels = append(labels, b.Label())
		}
		f := r.at(c.Get("image"), "container %s: the pod may land on nodes that cannot run %s: %s",
			c.Name, c.Image, nodesText(unfit))
		f.Fix = "add nodeSelector node.kubernetes.io/windows-build: " + labels[0]
		if len(labels) > 1 {
			f.Fix = fmt.Sprintf("require by nodeAffinity node.kubernetes.io/windows-build In [%s]",
				strings.Join(labels, ", "))
		}
		return
	}
}
