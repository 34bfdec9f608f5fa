// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policytest

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"github.com/mullion-k8s/mullion/internal/agent/netpolicy"
)

// ports returns the ports on which each pod serves TCP and UDP, as upstream's pods do.
func ports() []uint16 { return []uint16{80, 81} }

// Place is where a pod is.
type Place struct {
	Node    string
	Address netip.Addr
}

// Pods returns the names of the pods of all tables, with their namespaces: "x/a".
func Pods() []string {
	var all []string
	for _, tt := range Tables() {
		all = append(all, strings.Fields(tt.pods)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Cluster returns the cluster of a table, with its pods in their places.
func (tt Table) Cluster(t testing.TB, places map[string]Place) *netpolicy.Cluster {
	t.Helper()
	c := &netpolicy.Cluster{}
	for name := range strings.FieldsSeq(tt.pods) {
		namespace, pod, _ := strings.Cut(name, "/")
		p := netpolicy.Pod{Namespace: namespace, Name: pod, Node: places[name].Node,
			Labels: map[string]string{"pod": pod}, Addresses: []netip.Addr{places[name].Address}}
		for _, port := range ports() {
			for _, protocol := range []netpolicy.Protocol{netpolicy.TCP, netpolicy.UDP} {
				p.Ports = append(p.Ports, netpolicy.ContainerPort{Name: fmt.Sprintf("serve-%d-%s", port,
					strings.ToLower(string(protocol))), Protocol: protocol, Number: port})
			}
		}
		c.Pods = append(c.Pods, p)
		if !slices.ContainsFunc(c.Namespaces, func(n netpolicy.Namespace) bool { return n.Name == namespace }) {
			c.Namespaces = append(c.Namespaces, netpolicy.Namespace{Name: namespace,
				Labels: map[string]string{"ns": namespace, "kubernetes.io/metadata.name": namespace}})
		}
	}
	for _, r := range tt.relabel {
		who, label, _ := strings.Cut(r, " ")
		key, value, _ := strings.Cut(label, "=")
		for _, p := range c.Pods {
			if p.Namespace+"/"+p.Name == who {
				p.Labels[key] = value
			}
		}
		for _, n := range c.Namespaces {
			if n.Name == who {
				n.Labels[key] = value
			}
		}
	}
	for i, text := range tt.policies {
		namespace, spec, _ := strings.Cut(text, ": ")
		for name, p := range places {
			spec = strings.ReplaceAll(spec, "$"+name, p.Address.String())
		}
		c.Policies = append(c.Policies, Parse(t, namespace, fmt.Sprintf("p%d", i), spec))
	}
	return c
}

// Parse reads the spec of a policy as the API server would: strictly, with upstream's types.
func Parse(t testing.TB, namespace, name, spec string) netpolicy.Policy {
	t.Helper()
	var up networkingv1.NetworkPolicy
	if err := yaml.UnmarshalStrict([]byte(spec), &up.Spec); err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	up.Namespace, up.Name = namespace, name
	doc, err := json.Marshal(&up)
	if err != nil {
		t.Fatal(err)
	}
	var p netpolicy.Policy
	if err := json.Unmarshal(doc, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// Cell is one connection of a table, from pod to pod, and whether it passes.
type Cell struct {
	From, To string
	Protocol netpolicy.Protocol
	Port     uint16
	Passes   bool
}

// Cells returns all connections of a table.
func (tt Table) Cells(t testing.TB) []Cell {
	t.Helper()
	var cells []Cell
	for from := range strings.FieldsSeq(tt.pods) {
		for to := range strings.FieldsSeq(tt.pods) {
			if from == to {
				continue
			}
			c := Cell{From: from, To: to, Protocol: tt.protocol, Port: tt.port, Passes: true}
			if c.Protocol == "" {
				c.Protocol = netpolicy.TCP
			}
			if c.Port == 0 {
				c.Port = 80
			}
			for _, line := range tt.want {
				f := strings.Fields(line)
				if match(t, f[0], from) && match(t, f[1], to) {
					c.Passes = f[2] == "yes"
				}
			}
			cells = append(cells, c)
		}
	}
	return cells
}

func match(t testing.TB, pattern, name string) bool {
	t.Helper()
	if pattern == "*" {
		return true
	}
	ok, err := path.Match(pattern, name)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}
