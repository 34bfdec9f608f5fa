// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/mullion-k8s/mullion/internal/hns/schema"
)

// ensureNetwork makes sure that the pods' network has the node's pod range and
// that the node has an address in it. It returns a description of its changes, ""
// for none. A network with another range dates from before the node was deleted
// from the cluster and joined again: its pods are gone, so it is deleted.
func ensureNetwork(ctx context.Context, h hnsClient, c Config, podCIDR netip.Prefix) (did string, err error) {
	a := addressesOf(podCIDR)
	// The endpoints of an L2Bridge share the node's network: the cluster's pod
	// ranges are routed to the nodes.
	want := schema.V1Network{
		Name:               c.Network.Name,
		Type:               string(schema.L2Bridge),
		NetworkAdapterName: c.Network.Adapter,
		Subnets:            []schema.V1Subnet{{AddressPrefix: podCIDR.String(), GatewayAddress: a.gateway.String()}},
	}
	list, err := h.networks(ctx)
	if err != nil {
		return "", fmt.Errorf("list networks: %w", err)
	}
	var have *schema.V1Network
	for i, n := range list {
		if n.Name != want.Name {
			continue
		}
		if fits(n, want) && have == nil {
			have = &list[i]
			continue
		}
		if err := h.deleteNetwork(ctx, n.ID); err != nil {
			return did, fmt.Errorf("delete network %s of another pod range: %w", n.Name, err)
		}
		did = "replaced"
	}
	if have == nil {
		made, err := h.createNetwork(ctx, want)
		if err != nil {
			return did, fmt.Errorf("create network %s: %w", want.Name, err)
		}
		have = &made
		if did == "" {
			did = "created"
		}
	}
	joined, err := ensureHostEndpoint(ctx, h, *have, a.host)
	if joined && did == "" {
		did = "attached"
	}
	return did, err
}

func fits(have, want schema.V1Network) bool {
	return have.Type == want.Type && len(have.Subnets) == 1 &&
		have.Subnets[0].AddressPrefix == want.Subnets[0].AddressPrefix
}

// ensureHostEndpoint gives the node its address inside of the pods' network,
// the default gateway of the pods (flannel makes the same endpoint under the
// same name, and kube-proxy's rootHnsEndpointName expects it). It reports whether
// it changed something.
func ensureHostEndpoint(ctx context.Context, h hnsClient, n schema.V1Network, address netip.Addr) (bool, error) {
	name := n.Name + "_ep"
	list, err := h.endpoints(ctx)
	if err != nil {
		return false, fmt.Errorf("list endpoints: %w", err)
	}
	var have *schema.V1Endpoint
	for i, e := range list {
		if e.Name != name {
			continue
		}
		if e.IPAddress == address.String() {
			have = &list[i]
			continue
		}
		if err := h.deleteEndpoint(ctx, e.ID); err != nil {
			return true, fmt.Errorf("delete endpoint %s of another pod range: %w", name, err)
		}
	}
	if have == nil {
		made, err := h.createEndpoint(ctx, schema.V1Endpoint{Name: name, VirtualNetwork: n.ID,
			IPAddress: address.String()})
		if err != nil {
			return true, fmt.Errorf("create endpoint %s: %w", name, err)
		}
		have = &made
	} else if attached(*have) {
		return false, nil
	}
	if err := h.attachToHost(ctx, have.ID); err != nil {
		return true, fmt.Errorf("attach endpoint %s to the node: %w", name, err)
	}
	return true, nil
}

// attached reports whether an endpoint is connected to something.
func attached(e schema.V1Endpoint) bool {
	return e.State == schema.EndpointAttached || e.State == schema.EndpointShared
}
