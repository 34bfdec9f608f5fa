// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"bytes"
	"testing"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

func TestDescribe(t *testing.T) {
	c := Config{APIVersion: apiVersion, Name: "demo", Index: 1, Windows: []string{"2019", "2025"}, Linux: 1}
	p, err := Describe(Layout{"/var/lib/mullion", "demo"}, c, "/opt/mullion/bin")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Server.Validate(); err != nil {
		t.Errorf("server: %v", err)
	}
	for _, n := range p.Nodes {
		if err := n.Document.(interface{ Validate() error }).Validate(); err != nil {
			t.Errorf("%s: %v", n.Name, err)
		}
	}
	var b bytes.Buffer
	if _, err := p.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	testenv.Golden(t, "plan.txt", b.Bytes())
}
