// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// FuzzPlace: whatever the object, placing it gives a patch that applies, that
// leaves nothing to do, loses nothing, adds only what placement may add, and
// leaves a Pod a Pod.
func FuzzPlace(f *testing.F) {
	files, err := filepath.Glob("testdata/place/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for i, name := range files {
		ar, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range ar.Files {
			if file.Name != "objects.yaml" {
				continue
			}
			for _, o := range documents(f, file.Data) {
				text, err := json.Marshal(o)
				if err != nil {
					f.Fatal(err)
				}
				f.Add(text, uint64(i))
			}
		}
	}
	judge := New(Facts{})
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
		judge.Judge(object, facts)
		var pod corev1.Pod
		if object["kind"] != "Pod" || json.Unmarshal(text, &pod) != nil {
			return
		}
		toPod(t, after)
	})
}
