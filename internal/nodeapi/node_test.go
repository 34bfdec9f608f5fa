// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package nodeapi

import (
	"fmt"
	"testing"
)

func TestPodCIDRs(t *testing.T) {
	for body, want := range map[string]string{
		`{"spec":{"podCIDR":"10.244.1.0/24"}}`:                                        "[10.244.1.0/24]",
		`{"spec":{"podCIDR":"10.244.1.0/24","podCIDRs":["10.244.1.0/24"]}}`:           "[10.244.1.0/24]",
		`{"spec":{"podCIDR":"10.1.1.0/24","podCIDRs":["10.1.1.0/24","fd00:1::/64"]}}`: "[10.1.1.0/24 fd00:1::/64]",
	} {
		list := `{"metadata":{"resourceVersion":"7"},"items":[` + body + `]}`
		api := &Client{url: "https://api", name: "win-1", transport: roundTrip{200, list}}
		n, err := api.Get(t.Context())
		if got := fmt.Sprint(n.PodCIDRs()); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", body, got, err, want)
		}
	}
}

func TestNoNode(t *testing.T) {
	list := `{"metadata":{"resourceVersion":"7"},"items":[]}`
	api := &Client{url: "https://api", name: "win-1", transport: roundTrip{200, list}}
	if n, err := api.Get(t.Context()); err != nil || n != (Node{Version: "7"}) {
		t.Errorf("%+v, %v; want the version that the node can be awaited from", n, err)
	}
}

// TestAwait: what is not a change of the node is an error, after which the programs wait before they ask again.
func TestAwait(t *testing.T) {
	for _, tt := range []struct {
		code       int
		body, want string
	}{
		{200, `{"type":"MODIFIED","object":{"kind":"Node"}}`, ""},
		{200, `{"type":"DELETED","object":{"kind":"Node"}}`, ""},
		{200, `{"type":"ERROR","object":{"kind":"Status","message":"too old resource version: 5 (9)"}}`,
			"watch node win-1: too old resource version: 5 (9)"},
		{200, ``, "watch node win-1: EOF"},
		{410, `{"message":"gone"}`, "watch node win-1: gone (410)"},
	} {
		api := &Client{url: "https://api", name: "win-1", transport: roundTrip{tt.code, tt.body}}
		got := ""
		if err := api.Await(t.Context(), "5"); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%d %s: %q, want %q", tt.code, tt.body, got, tt.want)
		}
	}
}
