// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package schema

import "encoding/json"

// Endpoint is an HCN v2 endpoint. Source: hnslib hcn/hcnendpoint.go,
// HostComputeEndpoint.
type Endpoint struct {
	ID                   string        `json:"ID,omitempty"`
	Name                 string        `json:",omitempty"`
	HostComputeNetwork   string        `json:",omitempty"`
	HostComputeNamespace string        `json:",omitempty"` // absent until attached
	Policies             []Policy      `json:",omitempty"`
	IPConfigurations     []IPConfig    `json:"IpConfigurations,omitempty"`
	DNS                  DNS           `json:"Dns,omitzero"`
	Routes               []Route       `json:",omitempty"`
	MacAddress           string        `json:",omitempty"`
	Flags                EndpointFlags `json:",omitempty"`
	SchemaVersion        Version
}

// IPConfig is one address of an endpoint. Source: hnslib hcn/hcnendpoint.go.
type IPConfig struct {
	IPAddress    string `json:"IpAddress,omitempty"`
	PrefixLength uint8  `json:",omitempty"`
}

// EndpointFlags. Source: hnslib hcn/hcnendpoint.go and Microsoft's schema page.
type EndpointFlags uint32

// The flags of an endpoint.
const (
	RemoteEndpoint                   EndpointFlags = 1 // an address on another node
	DisableInterComputeCommunication EndpointFlags = 2
	EndpointEnableMirroring          EndpointFlags = 4
	EnableLowInterfaceMetric         EndpointFlags = 8
	OverrideDNSServerOrder           EndpointFlags = 16
	EnableDHCP                       EndpointFlags = 32
)

// Namespace is an HCN v2 namespace: a network compartment. Source: hnslib
// hcn/hcnnamespace.go, HostComputeNamespace.
type Namespace struct {
	ID            string              `json:"ID,omitempty"`
	NamespaceID   uint32              `json:"NamespaceId,omitempty"` // compartment number
	Type          NamespaceType       `json:",omitempty"`
	Resources     []NamespaceResource `json:",omitempty"`
	SchemaVersion Version
}

// NamespaceType. Source: hnslib hcn/hcnnamespace.go.
type NamespaceType string

// The namespace types.
const (
	Host         NamespaceType = "Host"
	HostDefault  NamespaceType = "HostDefault"
	Guest        NamespaceType = "Guest"
	GuestDefault NamespaceType = "GuestDefault"
)

// NamespaceTypes lists all types.
func NamespaceTypes() []NamespaceType {
	return []NamespaceType{Host, HostDefault, Guest, GuestDefault}
}

// NamespaceResource is something in a namespace: Type is ResourceEndpoint or
// ResourceContainer, Data a NamespaceResourceData.
type NamespaceResource struct {
	Type string
	Data json.RawMessage
}

// NamespaceResourceData names the endpoint or container. hnslib reads the key
// as "ID", HNS writes "Id"; JSON keys match without regard to case.
type NamespaceResourceData struct {
	ID string `json:"Id"`
}
