// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/agent"
)

func testConfig(dir string) Config {
	return Config{
		Cluster: "c",
		Build:   "10.0.17763",
		Agent: AgentConfig(agent.Node{Name: "win-1", Address: netip.MustParseAddr("10.89.0.11")}, agent.Cluster{
			Server:      "https://10.89.0.1:6443",
			Domain:      "cluster.local",
			DNS:         []netip.Addr{netip.MustParseAddr("10.96.0.10")},
			PodCIDR:     netip.MustParsePrefix("10.244.0.0/16"),
			ServiceCIDR: netip.MustParsePrefix("10.96.0.0/16"),
			NodeCIDRs:   []netip.Prefix{netip.MustParsePrefix("10.89.0.0/24")},
		}, agent.Network{Mode: agent.L2Bridge, EnforcePolicies: true}),
		Gateway:    netip.MustParseAddr("10.89.0.254"),
		Nameserver: netip.MustParseAddr("10.89.0.1"),
		CAFile:     filepath.Join(dir, "ca.crt"),
		Dir:        filepath.Join(dir, "node"),
		Cache:      filepath.Join(dir, "cache"),
		Bin:        filepath.Join(dir, "bin"),
		Fabric:     filepath.Join(dir, "netns", "mullion-c"),
		Status:     filepath.Join(dir, "win-1.json"),
		FirstUID:   0x70000000,
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.json")
	doc, err := json.Marshal(testConfig(dir))
	if err != nil {
		t.Fatal(err)
	}
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(string(doc))
	if _, err := Load(path); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, old, new, want string }{
		{"unknown field", `"cluster":`, `"clutser":`, "clutser"},
		{"a name too long for Windows", `"win-1"`, `"windows-server-1"`, "1 to 15"},
		{"an unknown build", "10.0.17763", "10.0.1", "10.0.1"},
		{"a gateway elsewhere", "10.89.0.254", "10.90.0.254", "gateway 10.90.0.254 does not lie in 10.89.0.0/24"},
		{"half a second family", `"nameserver":`, `"second":{"address":"fd00::2/64"},"nameserver":`,
			"second.podCIDR is missing"},
		{"an address elsewhere", "10.89.0.11", "10.90.0.11", "agent.node.address 10.90.0.11 does not lie in"},
		{"no network", `,"nodeCIDRs":["10.89.0.0/24"]`, "", "agent.cluster.nodeCIDRs is missing"},
		{"no server", "https://10.89.0.1:6443", "", "cluster.server"},
		{"a document of an older build", `"agent":{`, `"name":"win-1","agent":{`, `unknown field "name"`},
		{"a relative directory", `"dir":"/`, `"dir":"`, "not an absolute path"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			write(strings.Replace(string(doc), tt.old, tt.new, 1))
			if _, err := Load(path); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := Load(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}
