// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Version is the version of a document, of a query, or of the service itself.
// Source: hnslib hcn/hcnglobals.go, Version.
type Version struct {
	Major int
	Minor int
}

// AtLeast reports whether v is major.minor or newer.
func (v Version) AtLeast(major, minor int) bool {
	return v.Major > major || v.Major == major && v.Minor >= minor
}

// TwoFamilies reports whether endpoints can have IPv4 and IPv6 addresses (hnslib v0.1.2, hcn/hcnglobals.go,
// IPv6DualStackVersion; kube-proxy makes the same check). Windows Server 2019 lacks it.
func (v Version) TwoFamilies() bool { return v.AtLeast(11, 10) }

// V2 returns the version of the HCN documents.
func V2() Version { return Version{Major: 2} }

// Query selects objects. Source: hnslib hcn/hcn.go, HostComputeQuery.
type Query struct {
	SchemaVersion Version
	// Flags: 1 requests all properties. No known client sets it.
	Flags uint32 `json:",omitempty"`
	// Filter is a string that holds a JSON object of property names and values.
	Filter string `json:",omitempty"`
}

// ModifyRequest changes a network, an endpoint or a namespace. Source: hnslib
// hcn/hcnnetwork.go, hcnendpoint.go, hcnnamespace.go, Modify…SettingRequest. A
// load balancer is not modified by one: its whole document is sent again.
type ModifyRequest struct {
	ResourceType string          `json:",omitempty"`
	RequestType  RequestType     `json:",omitempty"`
	Settings     json.RawMessage `json:",omitempty"`
}

// RequestType is the action of a ModifyRequest. Source: hnslib hcn/hcn.go.
type RequestType string

// The request types.
const (
	Add     RequestType = "Add"
	Remove  RequestType = "Remove"
	Update  RequestType = "Update"
	Refresh RequestType = "Refresh"
)

// Resource types of a ModifyRequest. Sources as for ModifyRequest.
const (
	ResourcePolicy    = "Policy"    // networks and endpoints
	ResourcePort      = "Port"      // endpoints
	ResourceDNS       = "DNS"       // networks
	ResourceExtension = "Extension" // networks
	ResourceSubnet    = "Subnet"    // networks
	ResourceIPSubnet  = "IPSubnet"  // networks
	ResourceEndpoint  = "Endpoint"  // namespaces
	ResourceContainer = "Container" // namespaces
)

// PolicyRequest is the Settings of a ModifyRequest for ResourcePolicy.
type PolicyRequest struct {
	Policies []Policy
}

// NamespaceEndpointRequest is the Settings of a ModifyRequest for
// ResourceEndpoint. Source: hnslib hcn/hcnnamespace.go, AddNamespaceEndpoint.
type NamespaceEndpointRequest struct {
	EndpointID string `json:"EndpointId"`
}

// NamespaceContainerRequest is the Settings of a ModifyRequest for
// ResourceContainer. Source: github.com/Microsoft/hcsshim v0.13.0,
// internal/hns/namespace.go.
type NamespaceContainerRequest struct {
	ContainerID string `json:"ContainerId"`
}

// ErrorRecord is the string that a failed Hcn function hands out, and the
// answer of HNSCall without its Output. ErrorCode is the HRESULT as an unsigned
// number.
type ErrorRecord struct {
	Success   bool
	Error     string
	ErrorCode uint32
}

// Response is the answer of HNSCall. Source: hnslib internal/hns/hns.go,
// hnsResponse.
type Response struct {
	Success   bool
	Error     string          `json:",omitempty"`
	ErrorCode uint32          `json:",omitempty"`
	Output    json.RawMessage `json:",omitempty"`
}

// ParseResponse returns the output of a response, or the error in it.
func ParseResponse(text string) (json.RawMessage, error) {
	var r Response
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return nil, fmt.Errorf("answer %.100q: %w", text, err)
	}
	if !r.Success {
		return nil, errors.New(strings.TrimSpace(r.Error))
	}
	return r.Output, nil
}
