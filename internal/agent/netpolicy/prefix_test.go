// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netpolicy

import (
	"strings"
	"testing"
)

func TestExcept(t *testing.T) {
	for _, tt := range []struct {
		cidr   string
		except []string
		want   string
	}{
		{"10.0.0.0/30", nil, "10.0.0.0/30"},
		{"10.0.0.1/30", []string{"10.0.0.1/32"}, "10.0.0.0/32 10.0.0.2/31"},
		{"10.0.0.0/30", []string{"10.0.0.0/31", "10.0.0.3/32"}, "10.0.0.2/32"},
		{"10.0.0.0/30", []string{"10.0.0.0/30"}, ""},
		{"10.0.0.0/30", []string{"10.0.0.0/8"}, ""},
		{"10.0.0.0/30", []string{"10.0.1.0/24"}, "10.0.0.0/30"},
		{"0.0.0.0/0", []string{"128.0.0.0/1"}, "0.0.0.0/1"},
		{"fd00::/126", []string{"fd00::1/128"}, "fd00::/128 fd00::2/127"},
		{"10.0.0.0/30", []string{"fd00::/8", "no prefix"}, "10.0.0.0/30"},
		{"no prefix", nil, ""},
	} {
		var got []string
		for _, p := range canonical((&IPBlock{CIDR: tt.cidr, Except: tt.except}).prefixes()) {
			got = append(got, p.String())
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s without %v: %v, want %s", tt.cidr, tt.except, got, tt.want)
		}
	}
}
