// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/agent"
)

// guardEvery is how often the tunnel's rules are compared with flanneld's routes. The
// kernel reports most changes.
const guardEvery = 10 * time.Second

// guardTunnel keeps the tunnel's rules, the peers and the addresses that each may
// send from, in line with flanneld's routes, until the context ends.
func guardTunnel(ctx context.Context, t tools) error {
	done := make(chan struct{})
	defer close(done)
	changes := make(chan netlink.RouteUpdate, 64)
	if err := netlink.RouteSubscribe(changes, done); err != nil {
		return fmt.Errorf("follow the routes of flanneld: %w", err)
	}
	applied := peerRules(nil) // part of the first rules
	for {
		peers, err := readPeers()
		if err != nil {
			return err
		}
		if text := peerRules(peers); text != applied {
			if err := t.nft(ctx, text); err != nil {
				return fmt.Errorf("say who may send through the tunnel: %w", err)
			}
			applied = text
		}
		select {
		case <-ctx.Done():
			return nil
		case _, open := <-changes:
			if !open {
				return errors.New("the kernel no longer tells of changes of routes")
			}
		case <-time.After(guardEvery):
		}
	}
}

// readPeers reads flanneld's entries for its peers: a route via an address, the MAC
// address of that address, and the node to which packets for the MAC address are sent. A
// peer that is half made has no traffic yet.
func readPeers() ([]peer, error) {
	device := fmt.Sprintf("flannel.%d", agent.FlannelVNI)
	link, err := netlink.LinkByName(device)
	if _, missing := errors.AsType[netlink.LinkNotFoundError](err); missing {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", device, err)
	}
	index := link.Attrs().Index
	routes, err := netlink.RouteList(link, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("list routes of %s: %w", device, err)
	}
	neighbours, err := netlink.NeighList(index, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("list neighbours of %s: %w", device, err)
	}
	forwards, err := netlink.NeighList(index, unix.AF_BRIDGE)
	if err != nil {
		return nil, fmt.Errorf("list forwarding entries of %s: %w", device, err)
	}
	macs, nodes := map[netip.Addr]string{}, map[string]netip.Addr{}
	for _, n := range neighbours {
		macs[ipv4(n.IP)] = n.HardwareAddr.String()
	}
	for _, n := range forwards {
		nodes[n.HardwareAddr.String()] = ipv4(n.IP)
	}
	var peers []peer
	for _, r := range routes {
		if r.Dst == nil || r.Gw == nil {
			continue
		}
		bits, _ := r.Dst.Mask.Size()
		if node := nodes[macs[ipv4(r.Gw)]]; node.IsValid() {
			peers = append(peers, peer{pods: netip.PrefixFrom(ipv4(r.Dst.IP), bits), node: node})
		}
	}
	return peers, nil
}

func ipv4(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}
