// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"testing"
)

func TestKnown(t *testing.T) {
	none := Known(nil)
	if none.Add("Secret", "a", "s"); none.Lacks("Secret", "a", "s") || none.Clone() != nil {
		t.Error("without a cluster, something is known")
	}
	known := Known{"Secret": {"s": {"a"}}, "PriorityClass": {"high": {""}}}
	more := known.Clone()
	more.Add("Secret", "b", "s")
	more.Add("Secret", "", "t") // whose namespace is left to the command
	more.Add("ConfigMap", "a", "c")
	for _, tt := range []struct {
		known                 Known
		kind, namespace, name string
		lacks                 bool
	}{
		{known, "Secret", "a", "s", false},
		{known, "Secret", "", "s", false},
		{known, "Secret", "b", "s", true},
		{more, "Secret", "b", "s", false},
		{more, "Secret", "b", "t", false},
		{known, "Secret", "a", "t", true},
		{known, "Secret", "a", "", false},
		{known, "PriorityClass", "", "high", false},
		{known, "PriorityClass", "", "low", true},
		{more, "ConfigMap", "a", "d", false}, // the kind is not known
	} {
		if got := tt.known.Lacks(tt.kind, tt.namespace, tt.name); got != tt.lacks {
			t.Errorf("%s %s/%s is missing: %t", tt.kind, tt.namespace, tt.name, got)
		}
	}
}
