// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package emul

import (
	"encoding/json"
	"strings"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// decode reads a document of a client.
func decode(text string, v any) error {
	if err := json.Unmarshal([]byte(text), v); err != nil {
		return hresult.Errorf(hresult.InvalidJSON, "decode document: %w", err)
	}
	return nil
}

// isV1 reports whether a document has the v1 schema: it has a key of v1 only and
// does not claim to be version 2. Clients pass v1 documents to Hcn functions
// (hnslib hcn/hcnv1schema_test.go).
func isV1(text string, keys ...string) bool {
	var doc map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &doc) != nil {
		return false
	}
	found := false
	for have, value := range doc {
		if strings.EqualFold(have, "SchemaVersion") {
			var v schema.Version
			if json.Unmarshal(value, &v) == nil && v.Major >= 2 {
				return false
			}
		}
		for _, k := range keys {
			found = found || strings.EqualFold(have, k)
		}
	}
	return found
}

func decodeNetwork(text string) (schema.Network, error) {
	if isV1(text, "Subnets", "MacPools", "NetworkAdapterName", "SourceMac", "DNSServerList", "DNSSuffix",
		"ManagementIP") {
		var v1 schema.V1Network
		if err := decode(text, &v1); err != nil {
			return schema.Network{}, err
		}
		return networkFromV1(v1)
	}
	var doc schema.Network
	err := decode(text, &doc)
	return doc, err
}

func decodeEndpoint(text string) (schema.Endpoint, error) {
	if isV1(text, "VirtualNetwork", "IPAddress", "GatewayAddress", "DNSServerList", "DNSSuffix", "PrefixLength",
		"IsRemoteEndpoint") {
		var v1 schema.V1Endpoint
		if err := decode(text, &v1); err != nil {
			return schema.Endpoint{}, err
		}
		return endpointFromV1(v1)
	}
	var doc schema.Endpoint
	err := decode(text, &doc)
	return doc, err
}

// chooseID returns the GUID of a new object: the one given with the call, else the
// one in the document, else a new one.
func chooseID(given schema.GUID, inDocument string) (schema.GUID, error) {
	if !given.IsZero() {
		return given, nil
	}
	if inDocument != "" {
		id, err := schema.ParseGUID(inDocument)
		if err != nil {
			return id, hresult.Errorf(hresult.InvalidArgument, "%w", err)
		}
		if !id.IsZero() {
			return id, nil
		}
	}
	return schema.NewGUID(), nil
}

// notFound returns the error of an object that does not exist: networks and endpoints
// have codes of their own, the others ERROR_NOT_FOUND, which hnslib tests for.
func notFound(kind hns.Kind, id string) error {
	code := hresult.NotFound
	switch kind {
	case hns.Network:
		code = hresult.NetworkNotFound
	case hns.Endpoint:
		code = hresult.EndpointNotFound
	}
	return &hresult.Error{Code: code, Op: "find " + kind.String() + " " + id}
}
