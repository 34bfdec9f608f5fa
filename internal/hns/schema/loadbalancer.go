// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package schema

// LoadBalancer is an HCN v2 load balancer. Source: hnslib
// hcn/hcnloadbalancer.go, HostComputeLoadBalancer.
type LoadBalancer struct {
	ID                   string            `json:"ID,omitempty"`
	HostComputeEndpoints []string          `json:",omitempty"`
	SourceVIP            string            `json:",omitempty"`
	FrontendVIPs         []string          `json:",omitempty"` // empty: the node's own addresses
	PortMappings         []LBPortMapping   `json:",omitempty"`
	SchemaVersion        Version           //
	Flags                LoadBalancerFlags `json:",omitempty"`
}

// LBPortMapping is one frontend port of a load balancer. Source: hnslib
// hcn/hcnloadbalancer.go, LoadBalancerPortMapping.
type LBPortMapping struct {
	Protocol         uint32             `json:",omitempty"` // IANA number
	InternalPort     uint16             `json:",omitempty"`
	ExternalPort     uint16             `json:",omitempty"`
	DistributionType uint32             `json:",omitempty"` // 0 5-tuple, 1 source and protocol, 2 source
	Flags            LBPortMappingFlags `json:",omitempty"`
}

// LoadBalancerFlags. Source: hnslib hcn/hcnloadbalancer.go; IPv6 from
// k8s.io/kubernetes v1.36.3 pkg/proxy/winkernel/hns.go.
type LoadBalancerFlags uint32

// The flags of a load balancer.
const (
	DSR    LoadBalancerFlags = 1
	LBIPv6 LoadBalancerFlags = 2
)

// LBPortMappingFlags. Source: hnslib hcn/hcnloadbalancer.go; VIPExternalIP from
// k8s.io/kubernetes v1.36.3 pkg/proxy/winkernel/hns.go.
type LBPortMappingFlags uint32

// The flags of a port mapping of a load balancer.
const (
	LBILB            LBPortMappingFlags = 1
	LBLocalRoutedVIP LBPortMappingFlags = 2
	LBUseMux         LBPortMappingFlags = 4
	LBPreserveDIP    LBPortMappingFlags = 8
	LBVIPExternalIP  LBPortMappingFlags = 16
)

// SDNRoute is a route for a set of endpoints. The Go client calls the array
// "Setting", Microsoft's schema page "Routes". Source: hnslib hcn/hcnroute.go,
// HostComputeRoute.
type SDNRoute struct {
	ID                   string            `json:"ID,omitempty"`
	HostComputeEndpoints []string          `json:",omitempty"`
	Setting              []SDNRouteSetting `json:",omitempty"`
	SchemaVersion        Version
}
