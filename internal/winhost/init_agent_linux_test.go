// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/agent"
)

// TestTheAgentTakesItsConfiguration loads what we write as the agent does.
func TestTheAgentTakesItsConfiguration(t *testing.T) {
	doc, err := json.Marshal(testConfig("/x").agentConfig("sha256:" + strings.Repeat("0", 64)))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "agent.json")
	if err := os.WriteFile(path, doc, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := agent.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if c.Runtime.Endpoint != "tcp://127.0.0.1:10271" || c.Node.Name != "win-1" ||
		c.Cluster.NodeCIDRs[0].String() != "10.89.0.0/24" {
		t.Errorf("%+v", c)
	}
}

func TestOnDisk(t *testing.T) {
	if got := onDisk(`C:\Program Files\mullion\mullion.exe`); got != "/prefix/drive_c/Program "+
		"Files/mullion/mullion.exe" {
		t.Error(got)
	}
}

// TestEveryFactReachesTheAgent: a field of agent.json that an emulated host
// leaves out must be one of those that it means to leave out.
func TestEveryFactReachesTheAgent(t *testing.T) {
	c := testConfig("/x").agentConfig("sha256:0")
	for _, part := range []struct {
		doc     any
		without []string
	}{
		{c.Node, []string{"Labels", "Taints", "IPv6Address", "SecondAddress"}}, // the first two are the user's choice
		{c.Cluster, []string{"IPv6", "Second"}},
		{c.Runtime, nil},
		{c.Network, []string{"Name", "Adapter", "DSR"}}, // the agent's defaults
	} {
		v := reflect.ValueOf(part.doc)
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if v.Field(i).IsZero() != slices.Contains(part.without, name) {
				t.Errorf("%s.%s is %v", v.Type(), name, v.Field(i))
			}
		}
	}
}
