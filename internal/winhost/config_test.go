// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

func testConfig(dir string) Config {
	return Config{
		Config: host.Config{
			Cluster:     "c",
			Name:        "win-1",
			Address:     netip.MustParsePrefix("10.89.0.11/24"),
			Gateway:     netip.MustParseAddr("10.89.0.254"),
			Nameserver:  netip.MustParseAddr("10.89.0.1"),
			Server:      "https://10.89.0.1:6443",
			Domain:      "cluster.local",
			DNS:         netip.MustParseAddr("10.96.0.10"),
			PodCIDR:     netip.MustParsePrefix("10.244.0.0/16"),
			ServiceCIDR: netip.MustParsePrefix("10.96.0.0/16"),
			Network:     agent.L2Bridge,
			CAFile:      filepath.Join(dir, "ca.crt"),
			Dir:         filepath.Join(dir, "node"),
			Bin:         filepath.Join(dir, "bin"),
			Fabric:      filepath.Join(dir, "netns", "mullion-c"),
			Status:      filepath.Join(dir, "win-1.json"),

			EnforcePolicies: true,
		},
		Build:    "10.0.17763",
		Cache:    filepath.Join(dir, "cache"),
		FirstUID: 0x70000000,
	}
}

func TestParse(t *testing.T) {
	doc, err := json.Marshal(testConfig("/x"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, old, new, want string }{
		{"a name too long for Windows", `"win-1"`, `"windows-server-1"`, "1 to 15"},
		{"an unknown build", "10.0.17763", "10.0.1", "10.0.1"},
		{"a fault of every host", "10.89.0.254", "10.90.0.254", "gateway 10.90.0.254 does not lie in 10.89.0.0/24"},
		{"a taint that the agent refuses", `"cache":`, `"taints":["os"],"cache":`, "agent: node.taints"},
		{"a relative cache", `"cache":"/`, `"cache":"`, "cache \"x/cache\" is not an absolute path"},
		{"another host's users", `"firstUID":1879048192`, `"firstUID":1879048193`, "firstUID"},
		{"an agent in part", `"cache":`, `"agent":{"apiVersion":"mullion/v1alpha1"},"cache":`, "agent: want"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			changed := strings.Replace(string(doc), tt.old, tt.new, 1)
			if _, err := durable.ParseDocument([]byte(changed), (*Config).complete); err == nil ||
				!strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// TestFormerDocument reads the document of a version that had the settings of the node in the form of agent.json: the
// agent gets the same.
func TestFormerDocument(t *testing.T) {
	const file = "testdata/former.json"
	c, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := durable.EncodeDocument(c)
	if err != nil {
		t.Fatal(err)
	}
	testenv.Golden(t, "config.json", doc)
	former, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want struct{ Agent agent.Config }
	if err := json.Unmarshal(former, &want); err != nil {
		t.Fatal(err)
	}
	node, cluster := &want.Agent.Node, &want.Agent.Cluster
	node.IPv6Address, node.SecondAddress = node.SecondAddress, netip.Addr{}
	cluster.IPv6, cluster.Second = cluster.Second, ipv6.Plan{}
	want.Agent.Volumes.Endpoint = "tcp://" + volumesAddress // newer than the document
	if got := c.agentConfig(""); !reflect.DeepEqual(got, want.Agent) {
		t.Errorf("agent.json is %+v, want %+v", got, want.Agent)
	}
}
