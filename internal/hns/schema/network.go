// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package schema

// Network is an HCN v2 network. Source: hnslib hcn/hcnnetwork.go,
// HostComputeNetwork.
type Network struct {
	ID            string       `json:"ID,omitempty"`
	Name          string       `json:",omitempty"`
	Type          NetworkType  `json:",omitempty"`
	Policies      []Policy     `json:",omitempty"`
	MacPool       MacPool      `json:",omitzero"`
	DNS           DNS          `json:"Dns,omitzero"`
	Ipams         []Ipam       `json:",omitempty"`
	Flags         NetworkFlags `json:",omitempty"`
	SchemaVersion Version
}

// NetworkType is spelled as HNS answers it; win-bridge compares it exactly.
type NetworkType string

// The network types. Source: hnslib hcn/hcnnetwork.go.
const (
	NAT         NetworkType = "NAT"
	Transparent NetworkType = "Transparent"
	L2Bridge    NetworkType = "L2Bridge"
	L2Tunnel    NetworkType = "L2Tunnel"
	ICS         NetworkType = "ICS"
	Private     NetworkType = "Private"
	Overlay     NetworkType = "Overlay"
)

// NetworkTypes lists all types.
func NetworkTypes() []NetworkType {
	return []NetworkType{NAT, Transparent, L2Bridge, L2Tunnel, ICS, Private, Overlay}
}

// NetworkFlags. Source: hnslib hcn/hcnnetwork.go and Microsoft's schema page.
type NetworkFlags uint32

// The flags of a network.
const (
	EnableDNSProxy      NetworkFlags = 1
	EnableDHCPServer    NetworkFlags = 2
	EnableMirroring     NetworkFlags = 4
	EnableNonPersistent NetworkFlags = 8 // the network does not survive a reboot
	EnablePersistent    NetworkFlags = 16
	IsolateVSwitch      NetworkFlags = 32
	EnableFlowSteering  NetworkFlags = 64
	DisableSharing      NetworkFlags = 128
	EnableFirewall      NetworkFlags = 256
	DisableHostPort     NetworkFlags = 1024
	EnableIov           NetworkFlags = 8192
)

// Ipam is how addresses are given out. Source: hnslib hcn/hcnnetwork.go.
type Ipam struct {
	Type    string   `json:",omitempty"` // "Static" or "DHCP"
	Subnets []Subnet `json:",omitempty"`
}

// Subnet of a network. IPAddressPrefix is echoed verbatim: flannel compares it.
// Source: hnslib hcn/hcnnetwork.go.
type Subnet struct {
	IPAddressPrefix string   `json:"IpAddressPrefix,omitempty"`
	Policies        []Policy `json:",omitempty"`
	Routes          []Route  `json:",omitempty"`
	Flags           uint32   `json:",omitempty"` // 1: DoNotReserveGatewayAddress
}

// Route of a subnet or of an endpoint. Source: hnslib hcn/hcnnetwork.go.
type Route struct {
	NextHop           string `json:",omitempty"`
	DestinationPrefix string `json:",omitempty"`
	Metric            uint16 `json:",omitempty"`
}

// DNS of a network or of an endpoint. Source: hnslib hcn/hcnnetwork.go.
type DNS struct {
	Domain     string   `json:",omitempty"`
	Search     []string `json:",omitempty"`
	ServerList []string `json:",omitempty"`
	Options    []string `json:",omitempty"`
}

// IsZero reports whether no field is set.
func (d DNS) IsZero() bool {
	return d.Domain == "" && len(d.Search) == 0 && len(d.ServerList) == 0 && len(d.Options) == 0
}

// MacPool is the range of addresses for generated ones. Source: hnslib
// hcn/hcnnetwork.go.
type MacPool struct {
	Ranges []MacRange `json:",omitempty"`
}

// IsZero reports whether the pool is empty.
func (p MacPool) IsZero() bool { return len(p.Ranges) == 0 }

// MacRange is inclusive.
type MacRange struct {
	StartMacAddress string `json:",omitempty"`
	EndMacAddress   string `json:",omitempty"`
}
