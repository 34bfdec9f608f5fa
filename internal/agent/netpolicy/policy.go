// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netpolicy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Policy is a NetworkPolicy.
type Policy struct {
	Metadata Metadata `json:"metadata"`
	Spec     Spec     `json:"spec"`
}

// Metadata is the part of ObjectMeta that matters here.
type Metadata struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Labels    map[string]string `json:"labels"`
}

// Spec is NetworkPolicySpec.
type Spec struct {
	PodSelector Selector      `json:"podSelector"`
	Ingress     []IngressRule `json:"ingress"`
	Egress      []EgressRule  `json:"egress"`
	PolicyTypes []string      `json:"policyTypes"`
}

// IngressRule is NetworkPolicyIngressRule. No peers means everyone, no ports every port.
type IngressRule struct {
	Ports []PolicyPort `json:"ports"`
	From  []Peer       `json:"from"`
}

// EgressRule is NetworkPolicyEgressRule.
type EgressRule struct {
	Ports []PolicyPort `json:"ports"`
	To    []Peer       `json:"to"`
}

// Peer is NetworkPolicyPeer.
type Peer struct {
	PodSelector       *Selector `json:"podSelector"`
	NamespaceSelector *Selector `json:"namespaceSelector"`
	IPBlock           *IPBlock  `json:"ipBlock"`
}

// IPBlock is a prefix without some others.
type IPBlock struct {
	CIDR   string   `json:"cidr"`
	Except []string `json:"except"`
}

// PolicyPort is NetworkPolicyPort.
type PolicyPort struct {
	// Protocol is TCP, UDP or SCTP; empty means TCP.
	Protocol Protocol    `json:"protocol"`
	Port     *NumberName `json:"port"`
	EndPort  *int32      `json:"endPort"`
}

// NumberName is a port's number, or the name that a container gives to it.
type NumberName struct {
	Number int32
	Name   string
}

// UnmarshalJSON reads an IntOrString.
func (n *NumberName) UnmarshalJSON(data []byte) error {
	if strings.HasPrefix(string(data), `"`) {
		return json.Unmarshal(data, &n.Name)
	}
	v, err := strconv.ParseInt(string(data), 10, 32)
	if err != nil {
		return fmt.Errorf("port %.20s is neither a number nor a name", data)
	}
	n.Number = int32(v)
	return nil
}

// Directions of PolicyTypes.
const (
	ingress = "Ingress"
	egress  = "Egress"
)

// isolates reports which directions of the selected pods a policy isolates. The API
// server writes policyTypes itself if they are left out, by the same rule
// (k8s.io/api/networking/v1/types.go, NetworkPolicySpec.PolicyTypes).
func (s *Spec) isolates() (in, out bool) {
	if len(s.PolicyTypes) == 0 {
		return true, len(s.Egress) > 0
	}
	return slices.Contains(s.PolicyTypes, ingress), slices.Contains(s.PolicyTypes, egress)
}
