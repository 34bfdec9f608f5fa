// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/mullion-k8s/mullion/internal/hns/schema"
)

// ensureNetwork makes sure that the pods' network has the node's pod ranges and that the
// node has an address in each. It returns a description of its changes, or "" without
// changes. A network with another range dates from before the node was deleted from the
// cluster and joined again: its pods are gone, so it is deleted.
func ensureNetwork(ctx context.Context, h hnsClient, c Config, podCIDRs []netip.Prefix) (did string, err error) {
	// The endpoints of an L2Bridge share the node's network: the cluster's pod
	// ranges are routed to the nodes.
	want := schema.V1Network{
		Name:               c.Network.Name,
		Type:               string(schema.L2Bridge),
		NetworkAdapterName: c.Network.Adapter,
	}
	var hosts []string
	for _, p := range podCIDRs {
		a := addressesOf(p)
		want.Subnets = append(want.Subnets,
			schema.V1Subnet{AddressPrefix: p.String(), GatewayAddress: a.gateway.String()})
		hosts = append(hosts, a.host.String())
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
		did = cmp.Or(did, "created")
	}
	joined, err := ensureHostEndpoint(ctx, h, *have, hosts)
	if joined && did == "" {
		did = "attached"
	}
	return did, err
}

func fits(have, want schema.V1Network) bool {
	return have.Type == want.Type && slices.EqualFunc(have.Subnets, want.Subnets, func(a, b schema.V1Subnet) bool {
		return a.AddressPrefix == b.AddressPrefix
	})
}

// ensureHostEndpoint gives the node its addresses inside of the pods' network, one for
// each family: the default gateways of the pods (flannel makes the same endpoint under the
// same name, and kube-proxy's rootHnsEndpointName expects it). It reports whether
// it changed something.
func ensureHostEndpoint(ctx context.Context, h hnsClient, n schema.V1Network, addresses []string) (bool, error) {
	want := schema.V1Endpoint{Name: n.Name + "_ep", VirtualNetwork: n.ID, IPAddress: addresses[0]}
	if len(addresses) > 1 {
		want.IPv6Address = addresses[1]
	}
	list, err := h.endpoints(ctx)
	if err != nil {
		return false, fmt.Errorf("list endpoints: %w", err)
	}
	var have *schema.V1Endpoint
	for i, e := range list {
		if e.Name != want.Name {
			continue
		}
		if e.IPAddress == want.IPAddress && e.IPv6Address == want.IPv6Address {
			have = &list[i]
			continue
		}
		if err := h.deleteEndpoint(ctx, e.ID); err != nil {
			return true, fmt.Errorf("delete endpoint %s of another pod range: %w", want.Name, err)
		}
	}
	if have == nil {
		made, err := h.createEndpoint(ctx, want)
		if err != nil {
			return true, fmt.Errorf("create endpoint %s: %w", want.Name, err)
		}
		have = &made
	} else if attached(*have) {
		return false, nil
	}
	if err := h.attachToHost(ctx, have.ID); err != nil {
		return true, fmt.Errorf("attach endpoint %s to the node: %w", want.Name, err)
	}
	return true, nil
}

// attached reports whether an endpoint is connected to something.
func attached(e schema.V1Endpoint) bool {
	return e.State == schema.EndpointAttached || e.State == schema.EndpointShared
}
