// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package fabric

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
)

// Balancer makes the router spread connections to addresses of a pool over the nodes.
type Balancer struct {
	namespace string
	router    netip.Addr
	pools     []netip.Prefix

	mu   sync.Mutex
	last string // the kernel's rules, "" if unknown; guarded by mu
}

// OpenBalancer names the router by the namespace of its fabric and the network of the hosts in IPv4. There is one pool
// of each family at most.
func OpenBalancer(namespace string, nodeNet netip.Prefix, pools ...netip.Prefix) *Balancer {
	return &Balancer{namespace: namespace, router: routerOf(nodeNet), pools: pools}
}

// Set makes the router serve exactly these fronts. Connections that it remembers stay with
// their nodes, as long as the nodes are listed.
func (b *Balancer) Set(ctx context.Context, fronts []Front) error {
	script, err := balance(b.router, b.pools, fronts)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if script == b.last {
		return nil
	}
	b.last = ""
	inside, err := kernel.Open(b.namespace)
	if err != nil {
		return fmt.Errorf("spread connections: %w", err)
	}
	defer inside.Close()
	if err := inside.Nft(ctx, script); err != nil {
		return fmt.Errorf("spread connections: %w", err)
	}
	b.last = script
	return nil
}
