// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netpolicy

import (
	"net/netip"
	"slices"
)

// prefixes returns the remainder of a block without its exceptions; nil if the block is
// not a prefix. An exception that is not a prefix is ignored, as the API server never
// accepts one.
func (b *IPBlock) prefixes() []netip.Prefix {
	block, err := netip.ParsePrefix(b.CIDR)
	if err != nil {
		return nil
	}
	left := []netip.Prefix{block.Masked()}
	for _, text := range b.Except {
		except, err := netip.ParsePrefix(text)
		if err != nil {
			continue
		}
		var next []netip.Prefix
		for _, p := range left {
			next = append(next, without(p, except.Masked())...)
		}
		left = next
	}
	return left
}

// without returns p without q, as few prefixes as possible: at most one for each
// bit in which q is longer.
func without(p, q netip.Prefix) []netip.Prefix {
	if !p.Overlaps(q) {
		return []netip.Prefix{p}
	}
	if q.Bits() <= p.Bits() {
		return nil
	}
	var out []netip.Prefix
	for p.Bits() < q.Bits() {
		low, high := halves(p)
		if low.Contains(q.Addr()) {
			out, p = append(out, high), low
		} else {
			out, p = append(out, low), high
		}
	}
	return out
}

func halves(p netip.Prefix) (low, high netip.Prefix) {
	bits := p.Bits()
	b := p.Addr().AsSlice()
	b[bits/8] |= 0x80 >> (bits % 8)
	second, _ := netip.AddrFromSlice(b)
	return netip.PrefixFrom(p.Addr(), bits+1), netip.PrefixFrom(second, bits+1)
}

// canonical sorts prefixes and drops prefixes within another: sets of nft must not
// overlap.
func canonical(list []netip.Prefix) []netip.Prefix {
	slices.SortFunc(list, netip.Prefix.Compare)
	out := list[:0]
	for _, p := range list {
		if n := len(out); n > 0 && out[n-1].Overlaps(p) {
			continue // a wider prefix comes first
		}
		out = append(out, p)
	}
	return out
}

// single returns the prefix of one address.
func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
