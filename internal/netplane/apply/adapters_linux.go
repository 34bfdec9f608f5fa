// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package apply

import (
	"context"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/mullion-k8s/mullion/internal/netplane/compile"
	"github.com/mullion-k8s/mullion/internal/netplane/intent"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
)

// Adapters lists the adapters that belong to the host itself, by their index:
// loopback, the uplink, and the adapters of endpoints that are attached to the
// host. The other links carry the traffic of pods, whose adapters a Windows host
// does not show.
func (p *Plane) Adapters(ctx context.Context) ([]intent.Adapter, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list adapters: %w", err)
	}
	links, err := kernel.List(p.space.Netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list adapters: %w", err)
	}
	var list []intent.Adapter
	for _, l := range links {
		a := l.Attrs()
		own := l.Type() == string(compile.Bridge) && strings.HasPrefix(a.Name, compile.LinkPrefix) &&
			compile.IsEndpoint(a.Alias)
		if a.Name != loopback && a.Name != p.cfg.Uplink && !own {
			continue
		}
		addresses, err := kernel.List(func() ([]netlink.Addr, error) {
			return p.space.Netlink.AddrList(l, netlink.FAMILY_V4)
		})
		if err != nil {
			return nil, fmt.Errorf("list addresses of %s: %w", a.Name, err)
		}
		adapter := intent.Adapter{Link: a.Name, Index: a.Index, MTU: a.MTU, Loopback: a.Name == loopback}
		for _, address := range addresses {
			adapter.Addresses = append(adapter.Addresses, kernel.Prefix(address.IPNet))
		}
		list = append(list, adapter)
	}
	return list, nil
}

// loopback is Linux' name of the device.
const loopback = "lo"
