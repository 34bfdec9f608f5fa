// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package schema

import "encoding/json"

// V1Network is an HNS v1 network. Source: hnslib internal/hns/hnsnetwork.go,
// HNSNetwork.
type V1Network struct {
	ID                   string            `json:"ID,omitempty"`
	Name                 string            `json:",omitempty"`
	Type                 string            `json:",omitempty"`
	NetworkAdapterName   string            `json:",omitempty"`
	SourceMac            string            `json:",omitempty"`
	Policies             []json.RawMessage `json:",omitempty"` // flat: {"Type":…, settings…}
	MacPools             []MacRange        `json:",omitempty"`
	Subnets              []V1Subnet        `json:",omitempty"`
	DNSSuffix            string            `json:",omitempty"`
	DNSServerList        string            `json:",omitempty"` // separated by commas
	DNSServerCompartment uint32            `json:",omitempty"`
	ManagementIP         string            `json:",omitempty"`
	AutomaticDNS         bool              `json:",omitempty"`
	Flags                NetworkFlags      `json:",omitempty"`
}

// V1Subnet of a V1Network.
type V1Subnet struct {
	AddressPrefix  string            `json:",omitempty"`
	GatewayAddress string            `json:",omitempty"`
	Policies       []json.RawMessage `json:",omitempty"`
}

// V1Endpoint is an HNS v1 endpoint. Source: hnslib internal/hns/hnsendpoint.go,
// HNSEndpoint.
type V1Endpoint struct {
	ID                 string            `json:"ID,omitempty"`
	Name               string            `json:",omitempty"`
	VirtualNetwork     string            `json:",omitempty"`
	VirtualNetworkName string            `json:",omitempty"`
	Policies           []json.RawMessage `json:",omitempty"`
	MacAddress         string            `json:",omitempty"`
	IPAddress          string            `json:",omitempty"` // read as net.IP: an address or absent
	IPv6Address        string            `json:",omitempty"`
	DNSSuffix          string            `json:",omitempty"`
	DNSServerList      string            `json:",omitempty"`
	DNSDomain          string            `json:",omitempty"`
	GatewayAddress     string            `json:",omitempty"`
	GatewayAddressV6   string            `json:",omitempty"`
	EnableInternalDNS  bool              `json:",omitempty"`
	DisableICC         bool              `json:",omitempty"`
	PrefixLength       uint8             `json:",omitempty"`
	IPv6PrefixLength   uint8             `json:",omitempty"`
	IsRemoteEndpoint   bool              `json:",omitempty"`
	EnableLowMetric    bool              `json:",omitempty"`
	Namespace          *V1Namespace      `json:",omitempty"`
	EncapOverhead      uint16            `json:",omitempty"`
	SharedContainers   []string          `json:",omitempty"`
	State              EndpointState     `json:",omitempty"`
}

// EndpointState is the state of a V1Endpoint. Source: hnslib
// internal/hns/hnsendpoint.go.
type EndpointState uint16

// The states.
const (
	EndpointCreated  EndpointState = 1
	EndpointAttached EndpointState = 2
	EndpointShared   EndpointState = 3 // attached, by several containers
	EndpointDetached EndpointState = 4
)

// V1Namespace is an HNS v1 namespace. Source: hnslib internal/hns/namespace.go.
type V1Namespace struct {
	ID            string
	IsDefault     bool                `json:",omitempty"`
	ResourceList  []NamespaceResource `json:",omitempty"`
	CompartmentID uint32              `json:"CompartmentId,omitempty"`
}

// V1AttachRequest attaches an endpoint. Source: hnslib
// internal/hns/hnsendpoint.go, EndpointAttachDetachRequest.
type V1AttachRequest struct {
	ContainerID    string `json:"ContainerId,omitempty"`
	SystemType     string
	CompartmentID  uint16 `json:"CompartmentId,omitempty"`
	VirtualNICName string `json:"VirtualNicName,omitempty"`
}

// System types of a V1AttachRequest.
const (
	SystemHost           = "Host"
	SystemContainer      = "Container"
	SystemVirtualMachine = "VirtualMachine"
)

// V1EndpointStats are the counters of an endpoint. Source: hnslib
// internal/hns/hnsendpoint.go, EndpointStats.
type V1EndpointStats struct {
	BytesReceived          uint64
	BytesSent              uint64
	DroppedPacketsIncoming uint64
	DroppedPacketsOutgoing uint64
	EndpointID             string `json:"EndpointId"`
	InstanceID             string `json:"InstanceId"`
	PacketsReceived        uint64
	PacketsSent            uint64
}

// V1PolicyList is a load balancer (policy type ELB) or a set of routes (policy
// type ROUTE). Source: hnslib internal/hns/hnspolicylist.go, PolicyList.
type V1PolicyList struct {
	ID         string            `json:"ID,omitempty"`
	References []string          `json:",omitempty"` // "/endpoints/<id>"
	Policies   []json.RawMessage `json:",omitempty"`
}

// V1ELB is the policy ELB of a V1PolicyList. Source: hnslib
// internal/hns/hnspolicylist.go, ELBPolicy.
type V1ELB struct {
	Type         string
	Protocol     uint16   `json:",omitempty"`
	InternalPort uint16   //
	ExternalPort uint16   //
	SourceVIP    string   `json:",omitempty"`
	VIPs         []string `json:",omitempty"`
	ILB          bool     `json:",omitempty"`
	DSR          bool     `json:"IsDSR,omitempty"`
}

// V1Route is the policy ROUTE of a V1PolicyList. Source: hnslib
// internal/hns/hnspolicylist.go, RoutePolicy.
type V1Route struct {
	Type              string
	DestinationPrefix string `json:",omitempty"`
	NextHop           string `json:",omitempty"`
	NeedEncap         bool   `json:",omitempty"`
}

// V1MacList is the body of /accelnet/. Source: hnslib
// internal/hns/hnsaccelnet.go.
type V1MacList struct {
	MacAddressList []V1Mac `json:",omitempty"`
}

// V1Mac is one address of a V1MacList.
type V1Mac struct {
	MacAddress string `json:",omitempty"`
}
