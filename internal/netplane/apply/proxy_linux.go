// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package apply

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/mullion-k8s/mullion/internal/fault/undo"
	"github.com/mullion-k8s/mullion/internal/netplane/compile"
)

// addProxies lets the uplink answer for the plan's proxies.
func (p *Plane) addProxies(old, plan *compile.Plan, trusted bool, back *undo.Stack) error {
	var fresh []netip.Addr
	for _, a := range plan.Proxies {
		if !trusted || !slices.Contains(old.Proxies, a) {
			fresh = append(fresh, a)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	uplink, err := p.space.FindLink(p.cfg.Uplink)
	if err != nil {
		return err
	}
	if uplink == nil {
		return fmt.Errorf("answer for %v: no link %s", fresh, p.cfg.Uplink)
	}
	for _, a := range fresh {
		if err := p.space.AddProxy(uplink, a); err != nil {
			return err
		}
		if trusted {
			back.Add("no longer answer for "+a.String(), func(context.Context) error {
				return p.space.DeleteProxy(uplink, a)
			})
		}
	}
	return nil
}

// removeProxies ends that the uplink answers for others than the plan's proxies.
func (p *Plane) removeProxies(old, plan *compile.Plan, trusted bool) error {
	unwanted := func(a netip.Addr) bool { return !slices.Contains(plan.Proxies, a) }
	if trusted && !slices.ContainsFunc(old.Proxies, unwanted) {
		return nil
	}
	uplink, err := p.space.FindLink(p.cfg.Uplink)
	if err != nil || uplink == nil {
		return err
	}
	have, err := p.space.Proxies(uplink)
	if err != nil {
		return err
	}
	for _, a := range have {
		if unwanted(a) {
			if err := p.space.DeleteProxy(uplink, a); err != nil {
				return err
			}
		}
	}
	return nil
}
