// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package schema

import "encoding/json"

// Policy is a policy of a network, of a subnet or of an endpoint. Settings are
// kept and echoed as they came.
type Policy struct {
	Type     string
	Settings json.RawMessage `json:",omitempty"`
}

// Policy types. HNS compares them without regard to case, and so must every
// user of these names. Source: hnslib hcn/hcnpolicy.go; VLAN, Encryption and
// InterfaceParameters of endpoints from Microsoft's schema page.
const (
	// Endpoints.
	PortMappingPolicy         = "PortMapping"
	ACLPolicy                 = "ACL"
	QOSPolicy                 = "QOS"
	L2DriverPolicy            = "L2Driver"
	OutBoundNATPolicy         = "OutBoundNAT"
	SDNRoutePolicy            = "SDNRoute"
	L4ProxyPolicy             = "L4Proxy"
	L4WFPProxyPolicy          = "L4WFPPROXY"
	PortNamePolicy            = "PortName"
	EncapOverheadPolicy       = "EncapOverhead"
	IovPolicy                 = "Iov"
	ProviderAddressPolicy     = "ProviderAddress"
	InterfaceConstraintPolicy = "InterfaceConstraint"
	TierACLPolicy             = "TierAcl"
	VLANPolicy                = "VLAN"
	EncryptionPolicy          = "Encryption"
	InterfaceParameters       = "InterfaceParameters"
	// Networks.
	SourceMacAddressPolicy  = "SourceMacAddress"
	NetAdapterNamePolicy    = "NetAdapterName"
	VSwitchExtensionPolicy  = "VSwitchExtension"
	DrMacAddressPolicy      = "DrMacAddress"
	AutomaticDNSPolicy      = "AutomaticDNS"
	RemoteSubnetRoutePolicy = "RemoteSubnetRoute"
	VxlanPortPolicy         = "VxlanPort"
	HostRoutePolicy         = "HostRoute"
	SetPolicyPolicy         = "SetPolicy"
	LayerConstraintPolicy   = "LayerConstraint"
	NetworkACLPolicy        = "NetworkACL"
	// Subnets, beside VLAN.
	VSIDPolicy = "VSID"
)

// EndpointPolicies lists the policy types that an endpoint takes.
func EndpointPolicies() []string {
	return []string{
		PortMappingPolicy, ACLPolicy, QOSPolicy, L2DriverPolicy, OutBoundNATPolicy, SDNRoutePolicy, L4ProxyPolicy,
		L4WFPProxyPolicy, PortNamePolicy, EncapOverheadPolicy, IovPolicy, ProviderAddressPolicy,
		InterfaceConstraintPolicy, TierACLPolicy, VLANPolicy, EncryptionPolicy, InterfaceParameters,
	}
}

// NetworkPolicies lists the policy types that a network takes.
func NetworkPolicies() []string {
	return []string{
		SourceMacAddressPolicy, NetAdapterNamePolicy, VSwitchExtensionPolicy, DrMacAddressPolicy, AutomaticDNSPolicy,
		InterfaceConstraintPolicy, ProviderAddressPolicy, RemoteSubnetRoutePolicy, VxlanPortPolicy, HostRoutePolicy,
		SetPolicyPolicy, L4ProxyPolicy, LayerConstraintPolicy, NetworkACLPolicy,
	}
}

// SubnetPolicies lists the policy types that a subnet takes.
func SubnetPolicies() []string { return []string{VLANPolicy, VSIDPolicy} }

// Settings of the policies that the emulator looks into. Source: hnslib
// hcn/hcnpolicy.go, the types of the same names.

// PortMappingSetting is the setting of PortMapping.
type PortMappingSetting struct {
	Protocol     uint32 `json:",omitempty"`
	InternalPort uint16 `json:",omitempty"`
	ExternalPort uint16 `json:",omitempty"`
	VIP          string `json:",omitempty"`
	Flags        uint32 `json:",omitempty"` // NatFlags
}

// NatFlags of PortMapping and OutBoundNAT.
const (
	NatLocalRoutedVIP uint32 = 1
	NatIPv6           uint32 = 2
)

// ACLSetting is the setting of ACL and of NetworkACL. Lists are separated by
// commas.
type ACLSetting struct {
	ID              string `json:"Id,omitempty"`
	Protocols       string `json:",omitempty"`
	Action          string `json:",omitempty"`
	Direction       string `json:",omitempty"`
	LocalAddresses  string `json:",omitempty"`
	RemoteAddresses string `json:",omitempty"`
	LocalPorts      string `json:",omitempty"`
	RemotePorts     string `json:",omitempty"`
	RuleType        string `json:",omitempty"`
	Priority        uint16 `json:",omitempty"`
}

// TierACLSetting is the setting of TierAcl: the rules of one tier. The keys are from hnslib v0.1.2,
// hcn/hcnpolicy.go, TierAclPolicySetting.
type TierACLSetting struct {
	Name         string        `json:",omitempty"`
	Direction    string        `json:",omitempty"`
	Order        uint16        // low first
	TierAclRules []TierACLRule `json:",omitempty"` //nolint:revive // the key
}

// TierACLRule is one rule of a tier.
type TierACLRule struct {
	ID                string `json:"Id,omitempty"`
	Protocols         string `json:",omitempty"`
	TierAclRuleAction string `json:",omitempty"` //nolint:revive // the key
	LocalAddresses    string `json:",omitempty"`
	RemoteAddresses   string `json:",omitempty"`
	LocalPorts        string `json:",omitempty"`
	RemotePorts       string `json:",omitempty"`
	Priority          uint16 `json:",omitempty"`
}

// ACLs returns the rules as if they were policies of their own.
func (s TierACLSetting) ACLs() []ACLSetting {
	out := make([]ACLSetting, 0, len(s.TierAclRules))
	for _, r := range s.TierAclRules {
		out = append(out, ACLSetting{ID: r.ID, Protocols: r.Protocols, Action: r.TierAclRuleAction,
			Direction: s.Direction, LocalAddresses: r.LocalAddresses, RemoteAddresses: r.RemoteAddresses,
			LocalPorts: r.LocalPorts, RemotePorts: r.RemotePorts, Priority: r.Priority})
	}
	return out
}

// QOSSetting is the setting of QOS.
type QOSSetting struct {
	MaximumOutgoingBandwidthInBytes uint64 // per second
}

// L4WFPProxySetting is the setting of L4WFPPROXY.
type L4WFPProxySetting struct {
	InboundProxyPort   string          `json:",omitempty"`
	OutboundProxyPort  string          `json:",omitempty"`
	FilterTuple        FiveTuple       `json:",omitzero"`
	UserSID            string          `json:",omitempty"` // the prefix of exempt SIDs
	InboundExceptions  ProxyExceptions `json:",omitzero"`
	OutboundExceptions ProxyExceptions `json:",omitzero"`
}

// FiveTuple selects the connections of L4WFPPROXY. Lists are separated by commas.
type FiveTuple struct {
	Protocols       string `json:",omitempty"`
	LocalAddresses  string `json:",omitempty"`
	RemoteAddresses string `json:",omitempty"`
	LocalPorts      string `json:",omitempty"`
	RemotePorts     string `json:",omitempty"`
	Priority        uint16 `json:",omitempty"`
}

// ProxyExceptions lists where connections go that L4WFPPROXY leaves alone.
type ProxyExceptions struct {
	IPAddressExceptions []string `json:"IpAddressExceptions,omitempty"`
	PortExceptions      []string `json:",omitempty"`
}

// OutBoundNATSetting is the setting of OutBoundNAT.
type OutBoundNATSetting struct {
	VirtualIP        string   `json:",omitempty"`
	Exceptions       []string `json:",omitempty"`
	Destinations     []string `json:",omitempty"`
	Flags            uint32   `json:",omitempty"`
	MaxPortPoolUsage uint16   `json:",omitempty"`
}

// SDNRouteSetting is the setting of SDNRoute.
type SDNRouteSetting struct {
	DestinationPrefix string `json:",omitempty"`
	NextHop           string `json:",omitempty"`
	NeedEncap         bool   `json:",omitempty"`
}

// ProviderAddressSetting is the setting of ProviderAddress.
type ProviderAddressSetting struct {
	ProviderAddress string `json:",omitempty"`
}

// EncapOverheadSetting is the setting of EncapOverhead.
type EncapOverheadSetting struct {
	Overhead uint16 `json:",omitempty"`
}

// NetAdapterNameSetting is the setting of NetAdapterName.
type NetAdapterNameSetting struct {
	NetworkAdapterName string `json:",omitempty"`
}

// DrMacAddressSetting is the setting of DrMacAddress.
type DrMacAddressSetting struct {
	Address string `json:",omitempty"`
}

// SourceMacAddressSetting is the setting of SourceMacAddress.
type SourceMacAddressSetting struct {
	SourceMacAddress string `json:",omitempty"`
}

// AutomaticDNSSetting is the setting of AutomaticDNS.
type AutomaticDNSSetting struct {
	Enable bool `json:",omitempty"`
}

// RemoteSubnetRouteSetting is the setting of RemoteSubnetRoute. The Go client
// holds IsolationId in 16 bits; VXLAN identifiers have 24.
type RemoteSubnetRouteSetting struct {
	DestinationPrefix           string
	IsolationID                 uint32 `json:"IsolationId"`
	ProviderAddress             string
	DistributedRouterMacAddress string
}

// IsolationSetting is the setting of VLAN and of VSID.
type IsolationSetting struct {
	IsolationID uint32 `json:"IsolationId"`
}

// VxlanPortSetting is the setting of VxlanPort.
type VxlanPortSetting struct {
	Port uint16
}

// SetPolicySetting is the setting of SetPolicy: a named set of addresses to
// which ACLs refer.
type SetPolicySetting struct {
	ID         string `json:"Id"`
	Name       string
	PolicyType string // "IPSET" or "NESTEDIPSET"
	Values     string // separated by commas
}
