// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// hnsOfVersion answers the question for the version, and nothing else.
type hnsOfVersion struct {
	HNS
	output string
}

func (v hnsOfVersion) Call(_ context.Context, method, path, _ string) (string, error) {
	if method != "GET" || path != "/globals/version" {
		return "", fmt.Errorf("unexpected %s %s", method, path)
	}
	return `{"Success": true, "Output": ` + v.output + `}`, nil
}

func TestDirectServerReturn(t *testing.T) {
	for _, tc := range []struct {
		version string // of HNS
		asked   *bool
		want    bool
		fails   string
	}{
		{`{"Major": 7, "Minor": 2}`, nil, false, ""},
		{`{"Major": 7, "Minor": 2}`, new(false), false, ""},
		{`{"Major": 7, "Minor": 2}`, new(true), false, "HNS 7.2 does not have it"},
		{`{"Major": 9, "Minor": 2}`, nil, false, ""},
		{`{"Major": 9, "Minor": 5}`, nil, true, ""},
		{`{"Major": 10, "Minor": 1}`, nil, false, ""},
		{`{"Major": 10, "Minor": 2}`, nil, true, ""},
		{`{"Major": 16, "Minor": 0}`, nil, true, ""},
		{`{"Major": 16, "Minor": 0}`, new(true), true, ""},
		{`{"Major": 16, "Minor": 0}`, new(false), false, ""},
		{`nonsense`, new(false), false, ""},
		{`[]`, nil, false, "ask for the version of HNS"},
	} {
		c := Config{Network: Network{DSR: tc.asked}}
		got, err := directServerReturn(t.Context(), hnsClient{hnsOfVersion{output: tc.version}}, c)
		switch {
		case tc.fails != "" && (err == nil || !strings.Contains(err.Error(), tc.fails)):
			t.Errorf("%s: got %v, want %q", tc.version, err, tc.fails)
		case tc.fails == "" && (err != nil || got != tc.want):
			t.Errorf("%s, asked %v: got %t, %v", tc.version, tc.asked, got, err)
		}
	}
}
