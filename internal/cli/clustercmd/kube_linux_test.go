// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clustercmd

import (
	"slices"
	"testing"
)

func TestLeadingTarget(t *testing.T) {
	t.Setenv("MULLION_DATA", "/d")
	for _, tc := range []struct {
		args      []string
		name, dir string
		rest      []string
		ok        bool
	}{
		{[]string{"get", "pods", "--name", "x"}, "default", "/d", []string{"get", "pods", "--name", "x"}, true},
		{[]string{"--name", "ci", "get", "pods"}, "ci", "/d", []string{"get", "pods"}, true},
		{[]string{"--name=ci", "--data-dir=/e", "version"}, "ci", "/e", []string{"version"}, true},
		{[]string{"--name"}, "", "", nil, false},
		{nil, "default", "/d", nil, true},
	} {
		got, rest, err := leadingTarget(tc.args)
		if (err == nil) != tc.ok {
			t.Errorf("%v: %v", tc.args, err)
			continue
		}
		if tc.ok && (got.name != tc.name || got.dataDir != tc.dir || !slices.Equal(rest, tc.rest)) {
			t.Errorf("%v: %s %s %v", tc.args, got.name, got.dataDir, rest)
		}
	}
}
