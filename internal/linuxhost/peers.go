// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/agent"
)

// peer is a range of pods and the node to which flanneld sends its packets.
type peer struct {
	pods netip.Prefix
	node netip.Addr
}

// peerRules returns the transaction for nft(8) that lets each peer, and no other sender,
// send through the tunnel, with inner sources from its range. flanneld's device takes
// packets from every sender, with any addresses inside, and behind the device the sender
// is forgotten; so the outer packet is judged. nft has no words for the inner one before
// version 1.0.8: the fields are named by their offset from the UDP header, in bits. 64 of
// UDP, 64 of VXLAN (RFC 7348, section 5), 112 of Ethernet, then IPv4.
func peerRules(peers []peer) string {
	var b strings.Builder
	b.WriteString("add chain ip mullion tunnel\nflush chain ip mullion tunnel\n")
	list := slices.Clone(peers)
	slices.SortFunc(list, func(a, b peer) int {
		return cmp.Or(a.node.Compare(b.node), a.pods.Addr().Compare(b.pods.Addr()))
	})
	for _, p := range slices.Compact(list) {
		if !p.node.Is4() || !p.pods.Addr().Is4() || p.pods.Bits() == 0 {
			continue
		}
		a := p.pods.Masked().Addr().As4()
		source := uint32(a[0])<<24 | uint32(a[1])<<16 | uint32(a[2])<<8 | uint32(a[3])
		fmt.Fprintf(&b, "add rule ip mullion tunnel ip saddr %s @th,96,24 0x%x @th,224,16 0x800 "+
			"@th,336,32 & 0x%x == 0x%x accept\n", p.node, agent.FlannelVNI, ^uint32(0)<<(32-p.pods.Bits()), source)
	}
	b.WriteString("add rule ip mullion tunnel counter drop\n")
	return b.String()
}
