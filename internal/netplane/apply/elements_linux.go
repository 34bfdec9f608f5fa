// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package apply

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/mullion-k8s/mullion/internal/netplane/compile"
	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

// maxElements is how many elements one transaction by netlink changes at most. They take less than 100 bytes each, so
// that they fit into the attribute of a message (64 KiB). nft is started for more: then its start is a small part.
const maxElements = 256

// elementChange adds or deletes elements of one set.
type elementChange struct {
	remove   bool
	set      *nftables.Set
	elements []nftables.SetElement
}

// elementChanges translates operations for netlink. It reports false if one of them is not on an element, or if it does
// not support the kernel's form of an element: nft does.
func elementChanges(table *nftables.Table, plan *compile.Plan, ops []compile.Op) ([]elementChange, bool) {
	if len(ops) > maxElements {
		return nil, false
	}
	var list []elementChange
	for _, op := range ops {
		if op.Element == nil {
			return nil, false
		}
		s := plan.Table.Set(op.Element.Set)
		if s == nil {
			return nil, false
		}
		element, err := encodeElement(s, op.Element)
		if err != nil {
			return nil, false
		}
		remove, last := op.Removes(), len(list)-1
		if last < 0 || list[last].remove != remove || list[last].set.Name != s.Name {
			list = append(list, elementChange{remove: remove, set: &nftables.Set{Table: table, Name: s.Name}})
			last++
		}
		list[last].elements = append(list[last].elements, element)
	}
	return list, true
}

// changeElements carries out the changes in one transaction. The kernel's answers to a failed one may still be in the
// socket, so the next call opens another.
func (p *Plane) changeElements(changes []elementChange) (err error) {
	if p.elements == nil {
		err := p.space.Do(func() (err error) {
			p.elements, err = nftables.New(nftables.AsLasting())
			return err
		})
		if err != nil {
			return fmt.Errorf("open netlink: %w", err)
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.closeElements())
		}
	}()
	for _, c := range changes {
		change := p.elements.SetAddElements
		if c.remove {
			change = p.elements.SetDeleteElements
		}
		if err := change(c.set, c.elements); err != nil {
			return fmt.Errorf("set %s: %w", c.set.Name, err)
		}
	}
	return p.elements.Flush()
}

// closeElements closes the socket of changeElements.
func (p *Plane) closeElements() error {
	c := p.elements
	p.elements = nil
	if c == nil {
		return nil
	}
	return c.CloseLasting()
}

// encodeElement returns an element as the kernel stores it.
func encodeElement(s *compile.Set, e *compile.Element) (out nftables.SetElement, err error) {
	if out.Key, err = encodeParts(s.Type, e.Key); err != nil {
		return out, fmt.Errorf("key of %s: %w", s.Name, err)
	}
	switch s.Value {
	case "":
	case "verdict":
		out.VerdictData, err = encodeVerdict(e.Value)
	default:
		out.Val, err = encodeParts(s.Value, e.Value)
	}
	if err != nil {
		return out, fmt.Errorf("value of %s: %w", s.Name, err)
	}
	return out, nil
}

func encodeVerdict(text string) (*expr.Verdict, error) {
	word, chain, _ := strings.Cut(text, " ")
	kinds := map[string]expr.VerdictKind{"goto": expr.VerdictGoto, "jump": expr.VerdictJump}
	kind, known := kinds[word]
	if !known || chain == "" {
		return nil, fmt.Errorf("verdict %q", text)
	}
	return &expr.Verdict{Kind: kind, Chain: chain}, nil
}

// register is the size of the registers of nftables: each part of a concatenation begins in a new one
// (Linux, include/uapi/linux/netfilter/nf_tables.h, NFT_REG32_SIZE).
const register = 4

// encodeParts returns the parts of a concatenation, or the one part.
func encodeParts(types, text string) ([]byte, error) {
	kinds, words := strings.Split(types, " . "), strings.Split(text, " . ")
	if len(kinds) != len(words) {
		return nil, fmt.Errorf("%q is not of type %s", text, types)
	}
	var out []byte
	for i, kind := range kinds {
		part, err := encodePart(kind, words[i])
		if err != nil {
			return nil, fmt.Errorf("%q is not of type %s: %w", words[i], kind, err)
		}
		out = append(out, part...)
		if len(kinds) > 1 {
			out = append(out, make([]byte, (register-len(out)%register)%register)...)
		}
	}
	return out, nil
}

func encodePart(kind, word string) ([]byte, error) {
	switch kind {
	case "ipv4_addr", "ipv6_addr":
		a, err := netip.ParseAddr(word)
		if err == nil && a.Is4() != (kind == "ipv4_addr") {
			err = errors.New("other family")
		}
		return a.AsSlice(), err
	case "inet_service":
		port, err := strconv.ParseUint(word, 10, 16)
		return binary.BigEndian.AppendUint16(nil, uint16(port)), err
	case "inet_proto":
		return encodeProtocol(word)
	case "mark":
		mark, err := strconv.ParseUint(word, 0, 32)
		return binary.NativeEndian.AppendUint32(nil, uint32(mark)), err
	case "ether_addr":
		return net.ParseMAC(word)
	case "ifname":
		name, err := strconv.Unquote(word)
		if err != nil || len(name) > compile.MaxLinkName {
			return nil, errors.New("not the name of a link")
		}
		return append([]byte(name), make([]byte, compile.MaxLinkName+1-len(name))...), nil
	}
	return nil, errors.New("unknown type")
}

func encodeProtocol(word string) ([]byte, error) {
	switch word {
	case "tcp":
		return []byte{intent.TCP}, nil
	case "udp":
		return []byte{intent.UDP}, nil
	case "sctp":
		return []byte{intent.SCTP}, nil
	}
	n, err := strconv.ParseUint(word, 10, 8)
	return []byte{byte(n)}, err
}
