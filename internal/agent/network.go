// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"fmt"
	"net/netip"

	"github.com/mullion-k8s/mullion/internal/agent/hns"
)

// HNS is the Host Networking Service as the agent needs it; hns.Client
// implements it.
type HNS interface {
	Networks() ([]hns.Network, error)
	CreateNetwork(n hns.Network) (hns.Network, error)
	DeleteNetwork(id string) error
	Endpoints() ([]hns.Endpoint, error)
	CreateEndpoint(e hns.Endpoint) (hns.Endpoint, error)
	DeleteEndpoint(id string) error
	AttachToHost(id string) error
}

// ensureNetwork makes sure that the pods' network has the node's pod range and
// that the node has an address in it, and says what it had to do ("" for
// nothing). A network with another range is one of a node that was deleted from
// the cluster and joined again: its pods are gone, so it goes too.
func ensureNetwork(h HNS, c Config, podCIDR netip.Prefix) (did string, err error) {
	a := addressesOf(podCIDR)
	want := hns.Network{
		Name: c.Network.Name, Type: hns.L2Bridge, NetworkAdapterName: c.Network.Adapter,
		Subnets: []hns.Subnet{{AddressPrefix: podCIDR.String(), GatewayAddress: a.gateway.String()}},
	}
	list, err := h.Networks()
	if err != nil {
		return "", fmt.Errorf("list networks: %w", err)
	}
	var have *hns.Network
	for i, n := range list {
		if n.Name != want.Name {
			continue
		}
		if fits(n, want) && have == nil {
			have = &list[i]
			continue
		}
		if err := h.DeleteNetwork(n.ID); err != nil {
			return did, fmt.Errorf("delete network %s of another pod range: %w", n.Name, err)
		}
		did = "replaced"
	}
	if have == nil {
		made, err := h.CreateNetwork(want)
		if err != nil {
			return did, fmt.Errorf("create network %s: %w", want.Name, err)
		}
		have = &made
		if did == "" {
			did = "created"
		}
	}
	joined, err := ensureHostEndpoint(h, *have, a.host)
	if joined && did == "" {
		did = "attached"
	}
	return did, err
}

func fits(have, want hns.Network) bool {
	return have.Type == want.Type && len(have.Subnets) == 1 && have.Subnets[0].AddressPrefix == want.Subnets[0].AddressPrefix
}

// ensureHostEndpoint gives the node its address inside of the pods' network,
// the default gateway of the pods (flannel makes the same endpoint under the
// same name, and kube-proxy's rootHnsEndpointName expects it).
func ensureHostEndpoint(h HNS, n hns.Network, address netip.Addr) (changed bool, err error) {
	name := n.Name + "_ep"
	list, err := h.Endpoints()
	if err != nil {
		return false, fmt.Errorf("list endpoints: %w", err)
	}
	var have *hns.Endpoint
	for i, e := range list {
		if e.Name != name {
			continue
		}
		if e.IPAddress == address.String() {
			have = &list[i]
			continue
		}
		if err := h.DeleteEndpoint(e.ID); err != nil {
			return true, fmt.Errorf("delete endpoint %s of another pod range: %w", name, err)
		}
	}
	if have == nil {
		made, err := h.CreateEndpoint(hns.Endpoint{Name: name, VirtualNetwork: n.ID, IPAddress: address.String()})
		if err != nil {
			return true, fmt.Errorf("create endpoint %s: %w", name, err)
		}
		have = &made
	} else if have.Attached() {
		return false, nil
	}
	if err := h.AttachToHost(have.ID); err != nil {
		return true, fmt.Errorf("attach endpoint %s to the node: %w", name, err)
	}
	return true, nil
}
