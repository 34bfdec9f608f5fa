// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netpolicy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Protocol is one of Kubernetes' names of transport protocols.
type Protocol string

// The protocols that a policy can name.
const (
	TCP  Protocol = "TCP"
	UDP  Protocol = "UDP"
	SCTP Protocol = "SCTP"
)

func (p Protocol) orTCP() Protocol {
	if p == "" {
		return TCP
	}
	return p
}

// Ports is a range of ports of one protocol.
type Ports struct {
	Protocol    Protocol
	First, Last uint16
}

// lastPort makes a range of all ports of a protocol.
const lastPort = 65535

// ports resolves a policy's port for a pod; nil if the pod has no port of this name.
func (p *PolicyPort) ports(pod *Pod) []Ports {
	protocol := p.Protocol.orTCP()
	switch {
	case p.Port == nil:
		return []Ports{{protocol, 0, lastPort}}
	case p.Port.Name != "":
		if pod == nil {
			return nil
		}
		for _, c := range pod.Ports {
			if c.Name == p.Port.Name && c.Protocol.orTCP() == protocol {
				return []Ports{{protocol, c.Number, c.Number}}
			}
		}
		return nil
	}
	last := p.Port.Number
	if p.EndPort != nil {
		last = *p.EndPort
	}
	if p.Port.Number < 0 || last > lastPort || last < p.Port.Number {
		return nil
	}
	return []Ports{{protocol, uint16(p.Port.Number), uint16(last)}}
}

// canonicalPorts sorts ranges and joins adjacent ones.
func canonicalPorts(list []Ports) []Ports {
	slices.SortFunc(list, func(a, b Ports) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last))
	})
	out := list[:0]
	for _, r := range list {
		if n := len(out); n > 0 && out[n-1].Protocol == r.Protocol && int(r.First) <= int(out[n-1].Last)+1 {
			out[n-1].Last = max(out[n-1].Last, r.Last)
			continue
		}
		out = append(out, r)
	}
	return out
}

func portsKey(list []Ports) string {
	var b strings.Builder
	for _, p := range list {
		fmt.Fprintf(&b, "%s %d-%d,", p.Protocol, p.First, p.Last)
	}
	return b.String()
}
