// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package hns is the contract of the Host Networking Service as its clients see
// it through computenetwork.dll (HCN v2) and vmcompute.dll (HNS v1).
//
// Package emul implements it over an object store and a data plane, package wire
// carries it over a socket, and package hnstest tests the requirements of every
// implementation. The implementations differ from Windows' own;
// docs/fidelity/hns.md lists the differences.
package hns

import (
	"cmp"
	"context"

	"github.com/mullion-k8s/mullion/internal/hns/schema"
)

// Kind is a kind of HCN object. The numbers are part of the wire protocol.
type Kind uint8

// The kinds.
const (
	Network      Kind = 1
	Endpoint     Kind = 2
	Namespace    Kind = 3
	LoadBalancer Kind = 4
	SDNRoute     Kind = 5
)

// String returns the kind's name for log lines and errors.
func (k Kind) String() string {
	names := map[Kind]string{Network: "network", Endpoint: "endpoint", Namespace: "namespace",
		LoadBalancer: "load balancer", SDNRoute: "route"}
	return cmp.Or(names[k], "unknown kind")
}

// API is the service. The Hcn…Open and Hcn…Close functions need no more than
// Open here, because a handle is only the name of an object. Failures are
// hresult.Error values with the code that HNS returns.
type API interface {
	// Enumerate returns a JSON array of the GUIDs of the objects that match the
	// query, in the order in which they were made. A filter without a match gives
	// "[]", and so does a filter for the empty string.
	Enumerate(ctx context.Context, kind Kind, query string) (ids string, err error)
	// Create makes an object. A zero id means the ID in settings or, without one, a
	// new one. The network is used for endpoints only; if it is zero, the one in
	// settings is meant.
	Create(ctx context.Context, kind Kind, network, id schema.GUID, settings string) (schema.GUID, error)
	// Open reports whether the object exists.
	Open(ctx context.Context, kind Kind, id schema.GUID) error
	// Modify changes an object: settings is a schema.ModifyRequest, for load
	// balancers the new document.
	Modify(ctx context.Context, kind Kind, id schema.GUID, settings string) error
	// Query returns the object's document. The query's filter is ignored.
	Query(ctx context.Context, kind Kind, id schema.GUID, query string) (properties string, err error)
	// Delete removes an object.
	Delete(ctx context.Context, kind Kind, id schema.GUID) error
	// Call is HNSCall. Failures of the operation are in the response; err is a
	// failure to carry the call out at all.
	Call(ctx context.Context, method, path, request string) (response string, err error)
}

// EndpointStats are the counters of one endpoint, with its name.
type EndpointStats struct {
	Name string
	schema.V1EndpointStats
}
