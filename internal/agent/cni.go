// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"net/netip"

	"github.com/mullion-k8s/mullion/internal/hns/schema"
)

// cniConfiguration is the network configuration of win-bridge
// (github.com/containernetworking/plugins v1.9.1, pkg/hns/netconf_windows.go)
// with host-local. mullion-bridge has the same.
type cniConfiguration struct {
	CNIVersion string `json:"cniVersion"`
	Name       string `json:"name"` // of the HNS network
	Type       string `json:"type"`
	// APIVersion 2 selects the HCN interface. Version 1 expects a container that
	// Docker made.
	APIVersion   int             `json:"apiVersion,omitempty"`
	Capabilities map[string]bool `json:"capabilities,omitempty"`
	IPAM         cniIPAM         `json:"ipam"`
	Policies     []cniPolicy     `json:"policies,omitempty"`
}

type cniIPAM struct {
	Type string `json:"type"`
	// DataDir is where addresses that are given out are remembered. The plugin's
	// default, /var/lib/cni/networks, has no drive.
	DataDir string       `json:"dataDir"`
	Ranges  [][]cniRange `json:"ranges"`
}

type cniRange struct {
	Subnet     netip.Prefix `json:"subnet"`
	RangeStart netip.Addr   `json:"rangeStart,omitzero"`
	Gateway    netip.Addr   `json:"gateway,omitzero"`
}

type cniPolicy struct {
	Name  string   `json:"name"`
	Value hnPolicy `json:"value"`
}

// hnPolicy is a policy in HCN's form.
type hnPolicy struct {
	Type     string `json:"Type"`
	Settings any    `json:"Settings"`
}

// cniPolicies returns the policies of each pod's endpoint, as in Kubernetes' Windows
// documentation and flannel's manifests. Pods connect to pods and services with their own
// address and to the rest of the world with the node's. On an L2Bridge they connect to
// nodes with their own address, too; an overlay's addresses are unknown to the nodes'
// network. Service and node addresses are routed by the virtual switch.
//
// With two families, the policies for IPv6 come after the policies for IPv4. Windows' OutBoundNAT is
// for IPv6 with a flag (hnslib v0.1.2 hcn/hcnpolicy.go, NatFlagsIPv6).
func cniPolicies(c Config, dual bool) []cniPolicy {
	exceptions := []string{c.Cluster.PodCIDR.String(), c.Cluster.ServiceCIDR.String()}
	if c.Network.Mode != VXLAN {
		for _, n := range c.Cluster.NodeCIDRs {
			exceptions = append(exceptions, n.String())
		}
	}
	route := func(destination string) cniPolicy {
		return cniPolicy{"EndpointPolicy",
			hnPolicy{"SDNRoute", map[string]any{"DestinationPrefix": destination, "NeedEncap": true}}}
	}
	list := []cniPolicy{
		{"EndpointPolicy", hnPolicy{"OutBoundNAT", map[string]any{"Exceptions": exceptions}}},
		route(c.Cluster.ServiceCIDR.String()),
	}
	if c.Network.Mode != VXLAN {
		list = append(list, route(netip.PrefixFrom(c.Node.Address, c.Node.Address.BitLen()).String()))
	}
	if plan := c.Cluster.IPv6; dual {
		exceptions6 := []string{plan.PodCIDR.String(), plan.ServiceCIDR.String(), plan.NodeCIDR.String()}
		own := netip.PrefixFrom(c.Node.IPv6Address, c.Node.IPv6Address.BitLen())
		list = append(list, cniPolicy{"EndpointPolicy",
			hnPolicy{"OutBoundNAT", map[string]any{"Exceptions": exceptions6, "Flags": schema.NatIPv6}}},
			route(plan.ServiceCIDR.String()), route(own.String()))
	}
	return list
}

// Types of CNI plugins for an L2Bridge. Upstream's gives a pod the first address of the IPAM plugin's result, ours all
// of them.
const (
	oneAddress   = "win-bridge"
	allAddresses = "mullion-bridge"
)

// describeCNI returns the configuration for a node with the pod ranges. Each pod has an
// address of each range.
func describeCNI(c Config, podCIDRs []netip.Prefix) cniConfiguration {
	plugin := oneAddress
	if len(podCIDRs) > 1 {
		plugin = allAddresses
	}
	var ranges [][]cniRange
	for _, p := range podCIDRs {
		a := addressesOf(p)
		ranges = append(ranges, []cniRange{{Subnet: p, RangeStart: a.firstPod, Gateway: a.host}})
	}
	return cniConfiguration{
		CNIVersion: "1.0.0", Name: c.Network.Name, Type: plugin, APIVersion: 2,
		Capabilities: map[string]bool{"portMappings": true, "dns": true},
		IPAM:         cniIPAM{Type: "host-local", DataDir: ipamDir, Ranges: ranges},
		Policies:     cniPolicies(c, len(podCIDRs) > 1),
	}
}

// addresses of a node's pod range that are not pods'.
type addresses struct {
	// gateway is the network's own address in HNS.
	gateway netip.Addr
	// host is the node's address inside of the pods' network; win-bridge makes it every
	// pod's default gateway (network address + 2, regardless of the IPAM: plugins v1.9.1
	// plugins/main/windows/win-bridge/win-bridge_windows.go).
	host netip.Addr
	// firstPod keeps the IPAM from giving host to a pod.
	firstPod netip.Addr
}

func addressesOf(podCIDR netip.Prefix) addresses {
	first := podCIDR.Masked().Addr().Next()
	return addresses{gateway: first, host: first.Next(), firstPod: first.Next().Next()}
}
