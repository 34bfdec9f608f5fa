// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package nodeapi

import (
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// podServer answers a list of pods in two pages and deletes all pods but those that are gone already.
type podServer struct {
	pages   [2]string
	deleted []string // name, then the body of the request
	events  []string // path and body
}

func (s *podServer) RoundTrip(r *http.Request) (*http.Response, error) {
	code, body := 200, "{}"
	switch {
	case r.Method == http.MethodDelete:
		content, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		s.deleted = append(s.deleted, r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:], string(content))
		if strings.HasSuffix(r.URL.Path, "/gone") {
			code, body = 404, `{"message": "not found"}`
		}
		if r.Header.Get("Content-Type") != "application/json" {
			code = 415
		}
	case r.Method == http.MethodPost:
		content, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		s.events = append(s.events, r.URL.Path+" "+string(content))
		if strings.Contains(r.URL.Path, "/ending/") {
			code, body = 403, `{"message": "the namespace ends"}`
		}
	case r.URL.Query().Get("fieldSelector") != "spec.nodeName=win-1": // the API server refuses others
		code = 403
	case r.URL.Query().Get("continue") == "":
		body = `{"metadata": {"continue": "more"}, "items": [` + s.pages[0] + `]}`
	default:
		body = `{"items": [` + s.pages[1] + `]}`
	}
	return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// TestDeleteStrays: only pods of the pods' network are deleted, and only if an address of theirs leads elsewhere.
func TestDeleteStrays(t *testing.T) {
	pod := func(name, spec, status string) string {
		return `{"metadata": {"namespace": "shop", "name": "` + name + `", "uid": "` + name + `-1"},
		  "spec": {` + spec + `}, "status": {` + status + `}}`
	}
	server := &podServer{pages: [2]string{
		strings.Join([]string{
			pod("here", "", `"phase": "Running", "podIPs": [{"ip": "10.244.9.3"}]`),
			pod("dual", "", `"podIPs": [{"ip": "10.244.9.4"}, {"ip": "fd00:9::4"}]`),
			pod("starting", "", `"phase": "Pending"`),
			pod("node", `"hostNetwork": true`, `"podIPs": [{"ip": "10.89.0.10"}]`),
			pod("done", "", `"phase": "Succeeded", "podIPs": [{"ip": "10.244.3.3"}]`),
			pod("stray", "", `"phase": "Running", "podIPs": [{"ip": "10.244.3.4"}]`),
			`{"metadata": {"name": "static", "annotations": {"kubernetes.io/config.mirror": "x"}},
			  "status": {"podIPs": [{"ip": "10.244.3.5"}]}}`,
			`{"metadata": {"name": "ending", "deletionTimestamp": "2026-01-01T00:00:00Z"},
			  "status": {"podIPs": [{"ip": "10.244.3.6"}]}}`,
		}, ","),
		pod("gone", "", `"podIPs": [{"ip": "10.244.3.7"}]`) + "," +
			pod("half", "", `"podIPs": [{"ip": "10.244.9.8"}, {"ip": "fd00:3::8"}]`),
	}}
	api := &Client{url: "https://api", name: "win-1", transport: server}
	ranges := []netip.Prefix{netip.MustParsePrefix("10.244.9.0/24"), netip.MustParsePrefix("fd00:9::/64")}
	got, err := api.DeleteStrays(t.Context(), ranges)
	if want := []string{"shop/stray", "shop/gone", "shop/half"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("deleted %q, %v, want %q", got, err, want)
	}
	want := []string{
		"stray", `{"preconditions":{"uid":"stray-1"}}`,
		"gone", `{"preconditions":{"uid":"gone-1"}}`,
		"half", `{"preconditions":{"uid":"half-1"}}`,
	}
	if !slices.Equal(server.deleted, want) {
		t.Errorf("requests %q, want %q", server.deleted, want)
	}
	if len(server.events) != 3 {
		t.Fatalf("events %q", server.events)
	}
	for _, part := range []string{"/api/v1/namespaces/shop/events ", `"generateName":"stray."`, `"uid":"stray-1"`,
		`"type":"Warning"`, "node win-1 has joined"} {
		if !strings.Contains(server.events[0], part) {
			t.Errorf("event %s, want %s", server.events[0], part)
		}
	}
}

// TestDeleteStraysWithoutEvent: a pod is deleted all the same if its namespace takes no events any more.
func TestDeleteStraysWithoutEvent(t *testing.T) {
	server := &podServer{pages: [2]string{`{"metadata": {"namespace": "ending", "name": "stray", "uid": "1"},
	  "status": {"podIPs": [{"ip": "10.244.3.4"}]}}`}}
	api := &Client{url: "https://api", name: "win-1", transport: server}
	got, err := api.DeleteStrays(t.Context(), nil)
	if err == nil || err.Error() != "record the deletion of pod ending/stray: the namespace ends (403)" ||
		!slices.Equal(got, []string{"ending/stray"}) || len(server.deleted) != 2 {
		t.Errorf("deleted %q, %q: %v", got, server.deleted, err)
	}
}

func TestDeleteStraysFails(t *testing.T) {
	api := &Client{url: "https://api", name: "win-1", transport: roundTrip{503, `{"message": "etcd is down"}`}}
	_, err := api.DeleteStrays(t.Context(), nil)
	if err == nil || err.Error() != "list the pods of win-1: etcd is down (503)" {
		t.Errorf("error %v", err)
	}
}
