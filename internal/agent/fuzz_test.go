// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

// answers is an HNS that gives the same answer to every call.
type answers string

func (a answers) Call(context.Context, string, string, string) (string, error) { return string(a), nil }

// FuzzHNSAnswer: whatever HNS answers, the agent makes its network of it or says
// what is wrong.
func FuzzHNSAnswer(f *testing.F) {
	for _, s := range []string{
		`{"Success":true,"Output":[{"ID":"a","Name":"cbr0","Type":"L2Bridge",
			"Subnets":[{"AddressPrefix":"10.244.1.0/24","GatewayAddress":"10.244.1.1"}]}]}`,
		`{"Success":true,"Output":{"ID":"a"}}`, `{"Success":true}`, `{"Success":true,"Output":null}`,
		`{"Success":true,"Output":[{"Subnets":[]}]}`,
		`{"Success":false,"Error":"no "}`, `{`, `null`, ``,
	} {
		f.Add(s)
	}
	c := Config{Network: Network{Name: "cbr0", Adapter: "Ethernet"}}
	f.Fuzz(func(_ *testing.T, answer string) {
		h := hnsClient{answers(answer)}
		_, _ = ensureNetwork(context.Background(), h, c, netip.MustParsePrefix("10.244.1.0/24"))
		_, _ = h.endpoints(context.Background())
	})
}

// roundTrip answers every request.
type roundTrip struct {
	code int
	body string
}

func (r roundTrip) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: r.code, Body: io.NopCloser(strings.NewReader(r.body))}, nil
}

// FuzzNodeAnswer: whatever the API server answers is a node or an error.
func FuzzNodeAnswer(f *testing.F) {
	f.Add(200, `{"spec":{"podCIDR":"10.244.1.0/24"},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
	f.Add(200, `{"spec":{"podCIDR":"x"}}`)
	f.Add(404, `{"message":"nodes not found"}`)
	f.Add(500, `<html>`)
	f.Add(204, ``)
	f.Fuzz(func(t *testing.T, code int, body string) {
		api := &apiServer{url: "https://api", http: &http.Client{Transport: roundTrip{code, body}}}
		n, err := api.node(context.Background(), "win-1")
		if err != nil && n != (node{}) {
			t.Errorf("%+v beside the error %v", n, err)
		}
		if err == nil && n.Ready && code/100 != 2 {
			t.Errorf("a ready node with the status %d", code)
		}
	})
}
