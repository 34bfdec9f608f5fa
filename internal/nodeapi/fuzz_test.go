// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package nodeapi

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

// roundTrip answers every request.
type roundTrip struct {
	code int
	body string
}

func (r roundTrip) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: r.code, Body: io.NopCloser(strings.NewReader(r.body))}, nil
}

// FuzzNodeAnswer: whatever the API server answers is a node or an error, and a change or an error.
func FuzzNodeAnswer(f *testing.F) {
	f.Add(200, `{"items":[{"spec":{"podCIDR":"10.244.1.0/24"},
	  "status":{"conditions":[{"type":"Ready","status":"True"}]}}]}`)
	f.Add(200, `{"items":[{"spec":{"podCIDR":"x"}}]}`)
	f.Add(200, `{"type":"ERROR","object":{"message":"too old resource version: 5 (9)"}}`)
	f.Add(404, `{"message":"nodes not found"}`)
	f.Add(500, `<html>`)
	f.Add(204, ``)
	f.Fuzz(func(t *testing.T, code int, body string) {
		api := &Client{url: "https://api", name: "win-1", transport: roundTrip{code, body}}
		n, err := api.Get(context.Background())
		if err != nil && n != (Node{}) {
			t.Errorf("%+v beside the error %v", n, err)
		}
		if err == nil && n.Ready && code/100 != 2 {
			t.Errorf("a ready node with the status %d", code)
		}
		if err := api.Await(context.Background(), "5"); err == nil && code/100 != 2 {
			t.Errorf("the node has changed, with the status %d", code)
		}
	})
}
