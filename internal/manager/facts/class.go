// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package facts

import (
	nodev1 "k8s.io/api/node/v1"

	"github.com/mullion-k8s/mullion/internal/policy"
)

// describeClass converts a RuntimeClass to the facts of package policy.
func describeClass(c *nodev1.RuntimeClass) policy.RuntimeClass {
	out := policy.RuntimeClass{Handler: c.Handler}
	if c.Scheduling == nil {
		return out
	}
	out.NodeSelector = c.Scheduling.NodeSelector
	for _, t := range c.Scheduling.Tolerations {
		out.Tolerations = append(out.Tolerations, policy.Toleration{
			Key:      t.Key,
			Operator: string(t.Operator),
			Value:    t.Value,
			Effect:   string(t.Effect),
		})
	}
	return out
}
