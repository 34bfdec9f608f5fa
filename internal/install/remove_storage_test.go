// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mullion-k8s/mullion/internal/agent/storage"
)

// TestFinalizers: a PersistentVolume that stays can be deleted without a manager, and nothing else changes.
func TestFinalizers(t *testing.T) {
	volume := func(name, driver string) *unstructured.Unstructured {
		v := object("v1", "PersistentVolume", "", name, nil)
		v.SetFinalizers([]string{"kubernetes.io/pv-protection", provisionerFinalizer})
		if err := unstructured.SetNestedField(v.Object, driver, "spec", "csi", "driver"); err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, dry := range []bool{true, false} {
		c := fake(t, "v1.36.3", volume("ours", storage.Driver), volume("other", "example.test"))
		var said []string
		r := &removal{c: c, opts: RemoveOptions{DryRun: dry, Say: func(s Step) { said = append(said, s.Object) }},
			seen: map[string]bool{}}
		if err := r.storage(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(said, []string{"finalizer of PersistentVolume ours"}) {
			t.Errorf("said %q", said)
		}
		for name, want := range map[string]bool{"ours": dry, "other": true} {
			v, err := c.at(volumes, "").Get(t.Context(), name, metav1.GetOptions{})
			if err != nil || slices.Contains(v.GetFinalizers(), provisionerFinalizer) != want ||
				!slices.Contains(v.GetFinalizers(), "kubernetes.io/pv-protection") {
				t.Errorf("%s: %q, %v", name, v.GetFinalizers(), err)
			}
		}
	}
}
