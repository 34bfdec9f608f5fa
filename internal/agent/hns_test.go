// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/emul"
	"github.com/mullion-k8s/mullion/internal/hns/hnstest"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// recordedHNS is our emulator of HNS, on a data plane without a network, with a
// record of the calls that changed something.
type recordedHNS struct {
	*emul.Service
	plane *hnstest.Plane

	mu   sync.Mutex
	fail error    // guarded by mu; of every call, if set
	log  []string // guarded by mu
}

var _ HNS = hns.API(nil)

func newHNS(t *testing.T) *recordedHNS { return newHNSOf(t, emul.VersionOf(17763)) }

func newHNSOf(t *testing.T, v schema.Version) *recordedHNS {
	t.Helper()
	plane := &hnstest.Plane{}
	s, err := emul.Open(t.Context(), emul.Config{
		Dir:       filepath.Join(t.TempDir(), "hns"),
		DataPlane: plane,
		Version:   v,
		Log:       slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &recordedHNS{Service: s, plane: plane}
}

// Call implements HNS.
func (r *recordedHNS) Call(ctx context.Context, method, path, request string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return "", r.fail
	}
	if method != "GET" {
		parts := strings.Split(strings.Trim(path, "/"), "/")
		line := method + " " + parts[0]
		if len(parts) > 2 {
			line += " " + parts[2]
		}
		var named struct{ Name string }
		if json.Unmarshal([]byte(request), &named) == nil && named.Name != "" {
			line += " " + named.Name
		}
		r.log = append(r.log, line)
	}
	return r.Service.Call(ctx, method, path, request)
}

// setFail makes all calls fail; nil lets them through again.
func (r *recordedHNS) setFail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = err
}

// changes lists the changing calls so far, one per line, and forgets them.
func (r *recordedHNS) changes() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := strings.Join(r.log, "\n")
	r.log = nil
	return out
}

// networkOf returns the network in the data plane of a node with the pod range NET.0/24.
func networkOf(net string) string {
	return strings.ReplaceAll(`network cbr0 L2Bridge [{NET.0/24 NET.1 0 0}]
endpoint cbr0_ep [NET.2/24] namespace "" host true
`, "NET", net)
}

const (
	createsNetwork = "POST networks cbr0\nPOST endpoints cbr0_ep\nPOST endpoints attach"
	deletesNetwork = "DELETE networks\n"
)

func TestHNSFailures(t *testing.T) {
	for _, tt := range []struct {
		name     string
		response string
		err      error
		want     string
	}{
		{"refused", `{"Success":false,"Error":"The network was not found. ","ErrorCode":2151350273}`, nil,
			"HNS GET /networks/: The network was not found."},
		{"no answer in JSON", `nonsense`, nil, `HNS GET /networks/: answer "nonsense"`},
		{"output of another type", `{"Success":true,"Output":{}}`, nil, "HNS GET /networks/: output"},
		{"down", "", &hresult.Error{Code: hresult.ServerUnavailable, Op: "HNSCall"}, "The RPC server is unavailable"},
		{"not installed", "", &hresult.Error{Code: hresult.NotImplemented, Op: "find HNSCall"}, "Containers feature"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := hnsClient{fixedHNS{tt.response, tt.err}}
			if _, err := c.networks(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if tt.err != nil {
				if _, err := c.networks(t.Context()); !errors.Is(err, tt.err) {
					t.Errorf("error %v does not wrap its cause", err)
				}
			}
		})
	}
	empty := hnsClient{fixedHNS{`{"Success":true}`, nil}}
	if list, err := empty.networks(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("success without output: %v, %v", list, err)
	}
}

// fixedHNS is an HNS that always says the same.
type fixedHNS struct {
	response string
	err      error
}

func (f fixedHNS) Query(context.Context, hns.Kind, schema.GUID, string) (string, error) {
	return f.response, f.err
}

func (f fixedHNS) Modify(context.Context, hns.Kind, schema.GUID, string) error { return f.err }

func (a fixedHNS) Call(context.Context, string, string, string) (string, error) {
	return a.response, a.err
}

// TestForeignObjectsStay: networks and endpoints of other names are left alone,
// also those of another pod range.
func TestForeignObjectsStay(t *testing.T) {
	h := newHNS(t)
	c := hnsClient{h}
	other, err := c.createNetwork(t.Context(), schema.V1Network{
		Name:    "other",
		Type:    string(schema.L2Bridge),
		Subnets: []schema.V1Subnet{{AddressPrefix: "10.99.0.0/24", GatewayAddress: "10.99.0.1"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	pod := schema.V1Endpoint{Name: "pod", VirtualNetwork: other.ID, IPAddress: "10.99.0.7"}
	if _, err := c.createEndpoint(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	h.changes()
	for _, tt := range []struct{ podCIDR, did, changes string }{
		{"10.244.3.0/24", "created", createsNetwork},
		{"10.244.3.0/24", "", ""},
		{"10.244.9.0/24", "replaced", deletesNetwork + createsNetwork},
	} {
		did, err := ensureNetwork(t.Context(), c, testConfig(), prefixes(tt.podCIDR))
		if err != nil || did != tt.did {
			t.Errorf("%s: did %q, %v; want %q", tt.podCIDR, did, err, tt.did)
		}
		if got := h.changes(); got != tt.changes {
			t.Errorf("%s: calls\n%s\nwant\n%s", tt.podCIDR, got, tt.changes)
		}
	}
	endpoints, err := c.endpoints(t.Context())
	if err != nil || len(endpoints) != 2 || endpoints[0].Name != "pod" {
		t.Errorf("endpoints %+v, %v", endpoints, err)
	}
}

// TestHostEndpoint: an endpoint that was made but not attached, as after a
// crash, is attached; one with another address is replaced.
func TestHostEndpoint(t *testing.T) {
	h := newHNS(t)
	c := hnsClient{h}
	ensure := func(want, changes string) {
		t.Helper()
		did, err := ensureNetwork(t.Context(), c, testConfig(), prefixes("10.244.3.0/24"))
		if got := h.changes(); err != nil || did != want || got != changes {
			t.Errorf("did %q, %v, want %q; calls\n%s\nwant\n%s", did, err, want, got, changes)
		}
	}
	ensure("created", createsNetwork)
	replace := func(address string) {
		t.Helper()
		list, err := c.endpoints(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatalf("endpoints %v, %v", list, err)
		}
		if err := c.deleteEndpoint(t.Context(), list[0].ID); err != nil {
			t.Fatal(err)
		}
		if _, err := c.createEndpoint(t.Context(), schema.V1Endpoint{
			Name: "cbr0_ep", VirtualNetwork: list[0].VirtualNetwork, IPAddress: address,
		}); err != nil {
			t.Fatal(err)
		}
		h.changes()
	}
	replace("10.244.3.2")
	ensure("attached", "POST endpoints attach")
	replace("10.244.3.77")
	ensure("attached", "DELETE endpoints\nPOST endpoints cbr0_ep\nPOST endpoints attach")
	if got := h.plane.Dump(); got != networkOf("10.244.3") {
		t.Errorf("data plane:\n%s", got)
	}
}
