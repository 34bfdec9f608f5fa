// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netlab

import (
	"net/netip"

	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
)

// FabricConfig has the ranges that a real cluster takes; the index, 0 to 73, is the
// cluster's number on the machine.
func FabricConfig(name string, index int) fabric.Config {
	i := byte(index)
	return fabric.Config{
		Name: name, Index: index,
		NodeNet:    netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 89, i, 0}), 24),
		PodNet:     netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244 - i, 0, 0}), 16),
		ServiceNet: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 96 + i, 0, 0}), 16),
		Pool:       netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 90, i, 0}), 24),
		Serves: []fabric.Port{
			{Protocol: "tcp", Number: 6443},
			{Protocol: "tcp", Number: 53},
			{Protocol: "udp", Number: 53},
		},
	}
}

// HostAddress is the address of the n-th host of a fabric, counted from 1:
// 10.89.0.11 for the first.
func HostAddress(p fabric.Plan, n int) netip.Prefix {
	a := p.NodeNet.Addr().As4()
	a[3] = byte(10 + n)
	return netip.PrefixFrom(netip.AddrFrom4(a), p.NodeNet.Bits())
}
