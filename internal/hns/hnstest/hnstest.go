// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package hnstest is the conformance suite of hns.API: the behaviour on which
// unmodified Windows clients rely. It runs against the emulator through Go, against
// the emulator through the wire, against the emulator through computenetwork.dll
// and vmcompute.dll under Wine, and it can run against HNS on a real Windows.
//
// The suite touches only objects that it made, names them after itself and
// removes them again. Where the emulator differs from Windows on purpose, the test
// sets diverges, and is skipped on Windows.
//
// Plane is the data plane of the emulator in tests without a network.
package hnstest

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// Service is the interface that the suite tests.
type Service = hns.API

// real is implemented by a Service that is Windows' own.
type real interface{ Real() bool }

// Run runs the suite. open returns a service that stays until the test ends; it
// is called once for each test and may return the same service every time.
func Run(t *testing.T, open func(t *testing.T) Service) {
	for _, tc := range cases() {
		t.Run(tc.name, func(t *testing.T) {
			c := &client{T: t, api: open(t)}
			if r, ok := c.api.(real); ok && r.Real() && tc.diverges != "" {
				t.Skip("differs from Windows on purpose: " + tc.diverges)
			}
			tc.run(c)
		})
	}
}

// testCase is one property of the service.
type testCase struct {
	name string
	run  func(c *client)
	// diverges is the reason why Windows answers otherwise (docs/fidelity/hns.md).
	diverges string
}

func cases() []testCase {
	var all []testCase
	all = append(all, rules()...)
	all = append(all, networkCases()...)
	all = append(all, endpointCases()...)
	all = append(all, namespaceCases()...)
	all = append(all, balancerCases()...)
	return append(all, v1Cases()...)
}

// prefix of the names of all objects that the suite makes.
const prefix = "hnstest-"

// client calls the service and fails the test where it must not fail.
type client struct {
	*testing.T
	api Service
}

func (c *client) ctx() context.Context { return c.Context() }

// cleanupContext outlives the test's own, which is cancelled before cleanups.
func (c *client) cleanupContext() context.Context { return context.WithoutCancel(c.Context()) }

func (c *client) json(v any) string {
	c.Helper()
	if s, ok := v.(string); ok {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		c.Fatal(err)
	}
	return string(b)
}

// create makes an object that is removed when the test ends.
func (c *client) create(kind hns.Kind, network schema.GUID, settings any) schema.GUID {
	c.Helper()
	id, err := c.api.Create(c.ctx(), kind, network, schema.GUID{}, c.json(settings))
	if err != nil {
		c.Fatalf("create %s %s: %v", kind, c.json(settings), err)
	}
	c.removeLater(kind, id)
	return id
}

func (c *client) removeLater(kind hns.Kind, id schema.GUID) {
	c.Cleanup(func() {
		if err := c.api.Delete(c.cleanupContext(), kind, id); err != nil && !isNotFound(err) {
			c.Errorf("remove %s %s: %v", kind, id, err)
		}
	})
}

func isNotFound(err error) bool {
	switch hresult.Of(err) {
	case hresult.NotFound, hresult.NetworkNotFound, hresult.EndpointNotFound:
		return true
	}
	return false
}

// fails checks the code of a failure.
func (c *client) fails(err error, want hresult.Code, what string) {
	c.Helper()
	if hresult.Of(err) != want {
		c.Errorf("%s: %v, want %s", what, err, want)
	}
}

func (c *client) enumerate(kind hns.Kind, query string) []string {
	c.Helper()
	text, err := c.api.Enumerate(c.ctx(), kind, query)
	if err != nil {
		c.Fatalf("enumerate %s %s: %v", kind, query, err)
	}
	var ids []string
	if err := json.Unmarshal([]byte(text), &ids); err != nil || ids == nil {
		c.Fatalf("enumerate %s %s: %q is not a JSON array of strings: %v", kind, query, text, err)
	}
	return ids
}

// filter returns a query as hnslib writes one: the filter is JSON in a string.
func (c *client) filter(pairs ...string) string {
	c.Helper()
	m := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return c.json(schema.Query{SchemaVersion: schema.V2(), Filter: c.json(m)})
}

func (c *client) query(kind hns.Kind, id schema.GUID, v any) string {
	c.Helper()
	text, err := c.api.Query(c.ctx(), kind, id, c.json(schema.Query{SchemaVersion: schema.V2()}))
	if err != nil {
		c.Fatalf("query %s %s: %v", kind, id, err)
	}
	if v != nil {
		if err := json.Unmarshal([]byte(text), v); err != nil {
			c.Fatalf("query %s %s: decode %s: %v", kind, id, text, err)
		}
	}
	return text
}

func (c *client) modify(kind hns.Kind, id schema.GUID, resource string, request schema.RequestType,
	settings any) error {
	c.Helper()
	return c.api.Modify(c.ctx(), kind, id,
		c.json(schema.ModifyRequest{ResourceType: resource, RequestType: request,
			Settings: json.RawMessage(c.json(settings))}))
}

// call is HNSCall; the answer must be a success.
func (c *client) call(method, path string, body, out any) {
	c.Helper()
	r := c.response(method, path, body)
	if !r.Success || r.Error != "" {
		c.Fatalf("%s %s: %q (0x%08x)", method, path, r.Error, r.ErrorCode)
	}
	if out != nil {
		if err := json.Unmarshal(r.Output, out); err != nil {
			c.Fatalf("%s %s: decode %s: %v", method, path, r.Output, err)
		}
	}
}

func (c *client) response(method, path string, body any) schema.Response {
	c.Helper()
	text := ""
	if body != nil {
		text = c.json(body)
	}
	answer, err := c.api.Call(c.ctx(), method, path, text)
	if err != nil {
		c.Fatalf("%s %s: %v", method, path, err)
	}
	var r schema.Response
	if err := json.Unmarshal([]byte(answer), &r); err != nil {
		c.Fatalf("%s %s: decode %q: %v", method, path, answer, err)
	}
	return r
}

func (c *client) parse(id string) schema.GUID {
	c.Helper()
	g, err := schema.ParseGUID(id)
	if err != nil {
		c.Fatal(err)
	}
	return g
}

// bridge makes an L2Bridge network. The subnet is of the block for benchmarks
// (RFC 2544), which no cluster uses.
func (c *client) bridge() schema.GUID {
	c.Helper()
	return c.create(hns.Network, schema.GUID{}, schema.Network{
		Name: prefix + "bridge", Type: schema.L2Bridge, SchemaVersion: schema.V2(),
		Ipams: []schema.Ipam{{Type: "Static", Subnets: []schema.Subnet{{
			IPAddressPrefix: "198.18.1.0/24",
			Routes:          []schema.Route{{NextHop: "198.18.1.1", DestinationPrefix: "0.0.0.0/0"}},
		}}}},
	})
}

// endpoint makes one with an address, "" for any.
func (c *client) endpoint(network schema.GUID, address string, flags schema.EndpointFlags,
	policies ...schema.Policy) schema.GUID {
	c.Helper()
	return c.create(hns.Endpoint, network, endpointDoc(network, address, flags, policies...))
}

func endpointDoc(network schema.GUID, address string, flags schema.EndpointFlags,
	policies ...schema.Policy) schema.Endpoint {
	e := schema.Endpoint{
		Name:               prefix + "endpoint",
		HostComputeNetwork: network.String(),
		Flags:              flags,
		Policies:           policies,
		SchemaVersion:      schema.V2(),
	}
	if address != "" {
		e.IPConfigurations = []schema.IPConfig{{IPAddress: address}}
	}
	return e
}

func (c *client) namespace() schema.GUID {
	c.Helper()
	// As containerd writes it: with only a zero version.
	return c.create(hns.Namespace, schema.GUID{}, `{"SchemaVersion":{"Major":0,"Minor":0}}`)
}

func (c *client) attach(namespace, endpoint schema.GUID, request schema.RequestType) error {
	c.Helper()
	return c.modify(hns.Namespace, namespace, schema.ResourceEndpoint, request,
		schema.NamespaceEndpointRequest{EndpointID: endpoint.String()})
}

func policy(name, settings string) schema.Policy {
	return schema.Policy{Type: name, Settings: json.RawMessage(settings)}
}

func balancerDoc(vip string, port uint16, endpoints ...schema.GUID) schema.LoadBalancer {
	lb := schema.LoadBalancer{
		SchemaVersion: schema.V2(),
		PortMappings:  []schema.LBPortMapping{{Protocol: 6, InternalPort: 8080, ExternalPort: port}},
	}
	if vip != "" {
		lb.FrontendVIPs = []string{vip}
	}
	for _, e := range endpoints {
		lb.HostComputeEndpoints = append(lb.HostComputeEndpoints, e.String())
	}
	return lb
}

// isLowerGUID reports whether s is a GUID in the form that the service must use.
func isLowerGUID(s string) bool {
	g, err := schema.ParseGUID(s)
	return err == nil && g.String() == s && s == strings.ToLower(s)
}
