// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package intent models the desired network of one emulated Windows host. The Host
// Networking Service (the Windows side) passes it to the data plane (the Linux
// side).
//
// It is plain data without behaviour beyond a few predicates. One Host value is
// the complete desired state: the data plane itself determines the changes. The
// producer fills every field with resolved values (addresses instead of object
// references, prefix lengths filled in); order matters only where a comment
// requires it. Zero values mean "absent".
//
// The names follow Microsoft's HNS schema
// (https://learn.microsoft.com/virtualization/api/hcn/hns_schema, read 2026-11)
// where it has a word for the thing, and the Go client github.com/Microsoft/hnslib
// v0.1.2, package hcn, for numbers.
package intent

import "net/netip"

// Host is the whole network state of one emulated host.
type Host struct {
	// Uplink is the adapter that joins the host to the other nodes.
	Uplink Uplink
	// Networks, Endpoints and LoadBalancers are identified by their ID, which is
	// unique in its list. Endpoints of one namespace become eth0, eth1, … in the
	// order in which they are listed.
	Networks      []Network
	Endpoints     []Endpoint
	LoadBalancers []LoadBalancer
	// Routes are the routes that programs of the host added to its routing table,
	// each combination of destination, next hop and link once.
	Routes []HostRoute
	// NoLocalBackends means that programs of the host itself do not reach a load
	// balancer where the backend that is chosen is an endpoint of this host.
	NoLocalBackends bool
}

// HostRoute is one route of the host's own table. It never takes traffic from
// the host's endpoints, nor from the routes that its adapter came with.
type HostRoute struct {
	Destination netip.Prefix
	NextHop     netip.Addr // absent: on the link
	// Link is the adapter: the uplink's name, or compile.LinkName of an endpoint
	// that is attached to the host. The route is idle while there is no such link.
	Link string
	// Metric is the sum of the route's and the adapter's. Of several routes to one
	// destination the lowest wins.
	Metric int
}

// Adapter is an adapter of the host itself as it is now. The data plane reports it;
// it is not a part of an intent.
type Adapter struct {
	Link      string // Linux name
	Index     int    // the number by which programs refer to it
	MTU       int
	Loopback  bool
	Addresses []netip.Prefix // IPv4
}

// Uplink is the host's own adapter. Its address is HNS's ManagementIP.
type Uplink struct {
	Name    string       // Linux name, "eth0"
	Address netip.Prefix // the node IP with its prefix length
	// Address6 is the node IP of IPv6. Without it, everything of IPv6 in the intent
	// is left out.
	Address6 netip.Prefix
	MAC      string // "02:…", in any spelling that net.ParseMAC takes
}

// NetworkType is the Type of an HNS network, spelled as HNS spells it.
type NetworkType string

// The network types of hnslib hcn/hcnnetwork.go.
const (
	NAT         NetworkType = "NAT"
	Transparent NetworkType = "Transparent"
	L2Bridge    NetworkType = "L2Bridge"
	L2Tunnel    NetworkType = "L2Tunnel"
	ICS         NetworkType = "ICS"
	Private     NetworkType = "Private"
	Overlay     NetworkType = "Overlay"
)

// Network is one HNS network: a virtual switch with its subnets.
type Network struct {
	ID   string
	Name string
	Type NetworkType

	Subnets []Subnet
	// MTU of the network's links; 0 means the uplink's.
	MTU int

	// The rest is used by Overlay networks only.

	// DRMAC is the distributed router MAC (policy DrMacAddress).
	DRMAC string
	// VXLANPort is the UDP port of the tunnel (policy VxlanPort); 0 means 4789.
	VXLANPort uint16
	// RemoteSubnets are the RemoteSubnetRoute policies.
	RemoteSubnets []RemoteSubnet
}

// Subnet is one address range of a network.
type Subnet struct {
	Prefix  netip.Prefix
	Gateway netip.Addr // next hop of the subnet's default route; may be absent
	VSID    uint32     // VXLAN network identifier of an Overlay subnet
	VLAN    uint16     // 0 = untagged
}

// RemoteSubnet is a RemoteSubnetRoute policy: a pod range behind another node.
type RemoteSubnet struct {
	Prefix          netip.Prefix
	VSID            uint32
	ProviderAddress netip.Addr // the other node's address
	DRMAC           string     // the other node's distributed router MAC
}

// Endpoint is one HNS endpoint.
type Endpoint struct {
	ID        string
	Name      string
	NetworkID string
	// NamespaceID is the HCN namespace the endpoint is attached to. Empty: not
	// attached, so it has no device.
	NamespaceID string
	// Addresses carry the prefix length of their subnet, e.g. 10.244.1.5/24.
	Addresses []netip.Prefix
	// MAC in any spelling that net.ParseMAC takes (HNS: "00-15-5D-…").
	MAC string
	// Gateway is the next hop of the endpoint's default route; absent without a
	// default route. It need not lie inside the endpoint's prefix.
	Gateway  netip.Addr
	Gateway6 netip.Addr // the same in IPv6
	// Routes are further routes inside the namespace (SDNRoute policies that
	// have a next hop, and Routes other than the default).
	Routes []Route
	// MTU of the endpoint's link; 0 means the network's. EncapOverhead is
	// subtracted by the producer.
	MTU int
	// MaxRate bounds the endpoint's sending rate, in bytes per second; 0 means no
	// bound.
	MaxRate uint64

	// Remote endpoints (flag 1) stand for addresses on other nodes: backends of
	// load balancers, no device.
	Remote bool
	// HostAttached endpoints (v1 attach with SystemType "Host", compartment 1)
	// put their addresses on an adapter of the host itself.
	HostAttached bool

	OutboundNAT  []OutboundNAT
	PortMappings []PortMapping
	Redirects    []Redirect
	// ACLs are evaluated by rising Tier, then by rising Priority, ties in the order of the list. A tier without a
	// rule that matches leaves the packet to the next one.
	ACLs []ACL
}

// Attached reports whether the endpoint has a device in a namespace.
func (e *Endpoint) Attached() bool { return !e.Remote && !e.HostAttached && e.NamespaceID != "" }

// Route is one route inside an endpoint's namespace.
type Route struct {
	Destination netip.Prefix
	NextHop     netip.Addr // absent: on the link
}

// OutboundNAT is the OutBoundNAT policy: TCP and UDP from the endpoint to
// anywhere else get the host's address (or VirtualIP) as their source.
type OutboundNAT struct {
	VirtualIP netip.Addr // absent: the uplink's address
	// Exceptions are left alone.
	Exceptions []netip.Prefix
	// Destinations, if any, limit the policy to them.
	Destinations []netip.Prefix
	IPv6         bool // flag 2: it rewrites connections of IPv6, not of IPv4
}

// Protocol numbers of IANA as HNS and the kernel use them.
const (
	TCP  uint8 = 6
	UDP  uint8 = 17
	SCTP uint8 = 132
)

// PortMapping is the PortMapping policy: a host port that leads to the endpoint
// (a pod's hostPort).
type PortMapping struct {
	Protocol     uint8
	InternalPort uint16
	ExternalPort uint16
	VIP          netip.Addr // absent: every address of the host except loopback
	// LocalRouted (flag 1, LocalRoutedVip): also from the host itself and from
	// its endpoints.
	LocalRouted bool
	IPv6        bool // flag 2: a port of IPv6, not of IPv4
}

// Direction of an ACL, seen from the endpoint.
type Direction string

// Directions as HNS spells them.
const (
	In  Direction = "In"  // to the endpoint
	Out Direction = "Out" // from the endpoint
)

// Action of an ACL.
type Action string

// Actions as HNS spells them. Pass means "the next tier decides"; in the last tier
// that is the default, Allow.
const (
	Allow Action = "Allow"
	Block Action = "Block"
	Pass  Action = "Pass"
)

// ACL is one ACL policy of an endpoint. Empty lists match everything. Matching
// is by connection: replies to an allowed packet pass.
type ACL struct {
	Direction       Direction
	Action          Action
	Protocols       []uint8
	LocalAddresses  []netip.Prefix // the endpoint's side
	RemoteAddresses []netip.Prefix
	LocalPorts      []PortRange
	RemotePorts     []PortRange
	Tier            int    // 0: of an ACL policy; 1, 2, …: of the endpoint's TierAcl policies by their Order
	Priority        uint16 // low first
}

// Redirect leads connections of TCP to a proxy in the endpoint's own namespace.
type Redirect struct {
	// Match selects connections that the endpoint makes (Out) or accepts (In). Its action and its order are not used,
	// and no protocol means TCP.
	Match ACL
	Port  uint16 // the proxy's
	// Connections to these addresses or ports are left alone.
	ExceptAddresses []netip.Prefix
	ExceptPorts     []PortRange
	// ExceptGroups are the Unix groups of programs whose connections are left alone: the proxy's own.
	ExceptGroups []uint32
}

// PortRange is inclusive; a single port has First == Last.
type PortRange struct{ First, Last uint16 }

// Distribution is the way in which a load balancer chooses a backend for a
// connection. The numbers are HNS's LoadBalancerDistribution (hnslib
// hcn/hcnloadbalancer.go).
type Distribution uint32

// The distributions.
const (
	FiveTuple        Distribution = 0 // per connection
	SourceIPProtocol Distribution = 1 // client address and protocol
	SourceIP         Distribution = 2 // client address only: Kubernetes' ClientIP affinity
)

// LoadBalancer is one HNS load balancer with exactly one port mapping, which is all
// that Kubernetes' clients make. The producer lists one with several port mappings
// as several values with generated IDs.
type LoadBalancer struct {
	ID string
	// VIPs are the front-end addresses. Empty means every address of the host
	// except loopback (a NodePort).
	VIPs []netip.Addr
	// SourceVIP replaces the client's address where a reply would otherwise not
	// come back through this node; absent: the uplink's address.
	SourceVIP    netip.Addr
	Protocol     uint8
	ExternalPort uint16
	InternalPort uint16
	// Backends in a stable order; at least one. Duplicates are allowed and count
	// twice.
	Backends     []Backend
	Distribution Distribution

	// HostComputeLoadBalancer.Flags
	DSR  bool // 1: the client's address is always kept
	IPv6 bool // 2: distinguishes a NodePort of IPv6 from one of IPv4

	// PortMapping.Flags
	ILB            bool // 1
	LocalRoutedVIP bool // 2: also from the host itself and from its endpoints
	UseMux         bool // 4
	PreserveDIP    bool // 8: deliver with the VIP as destination
	VIPExternalIP  bool // 16: a hint; connections keep their backend anyway
}

// Backend is one endpoint behind a load balancer.
type Backend struct {
	Address netip.Addr
	Local   bool // an endpoint on this host
}

// Stats are the counters of one endpoint, seen from the endpoint: HNS's
// EndpointStats (hnslib internal/hns/hnsendpoint.go).
type Stats struct {
	BytesReceived          uint64
	BytesSent              uint64
	PacketsReceived        uint64
	PacketsSent            uint64
	DroppedPacketsIncoming uint64
	DroppedPacketsOutgoing uint64
}
