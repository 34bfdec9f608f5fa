// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package place

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/policytest"
	"github.com/mullion-k8s/mullion/internal/policy/rule"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// FuzzPlace: whatever the object, placing it gives a patch that applies, that
// leaves nothing to do, loses nothing, adds only what placement may add, and
// leaves a Pod a Pod.
func FuzzPlace(f *testing.F) {
	seed := uint64(0)
	for _, ar := range testenv.Archives(f, "testdata/*.txtar") {
		for _, file := range ar.Files {
			if file.Name != "objects.yaml" {
				continue
			}
			for _, o := range policytest.Documents(f, file.Data) {
				text, err := json.Marshal(o)
				if err != nil {
					f.Fatal(err)
				}
				f.Add(text, seed)
			}
		}
		seed++
	}
	judge := rule.New(policy.Facts{})
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		var object map[string]any
		if len(data) > 1<<14 || yaml.Unmarshal(data, &object) != nil || object == nil {
			return
		}
		text, err := json.Marshal(object)
		if err != nil {
			return
		}
		facts := dice{rand.New(rand.NewPCG(seed, 1))}.facts()
		after, _ := checkPlacement(t, judge, object, facts)
		Check(judge, policy.Parse(object), facts)
		var pod corev1.Pod
		if object["kind"] != "Pod" || json.Unmarshal(text, &pod) != nil {
			return
		}
		toPod(t, after)
	})
}
