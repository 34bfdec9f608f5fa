// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

func testConfig(dir string) Config {
	return Config{
		Config: host.Config{
			Cluster:     "c",
			Name:        "linux-1",
			Address:     netip.MustParsePrefix("10.89.0.110/24"),
			Gateway:     netip.MustParseAddr("10.89.0.254"),
			Nameserver:  netip.MustParseAddr("10.89.0.1"),
			Server:      "https://10.89.0.1:6443",
			Domain:      "cluster.local",
			DNS:         netip.MustParseAddr("10.96.0.10"),
			PodCIDR:     netip.MustParsePrefix("10.244.0.0/16"),
			ServiceCIDR: netip.MustParsePrefix("10.96.0.0/16"),
			CAFile:      filepath.Join(dir, "ca.crt"),
			Dir:         filepath.Join(dir, "node"),
			Bin:         filepath.Join(dir, "bin"),
			Fabric:      filepath.Join(dir, "netns", "mullion-c"),
			Status:      filepath.Join(dir, "linux-1.json"),
		},
	}
}

func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"gateway 10.90.0.254 does not lie in": func(c *Config) { c.Gateway = netip.MustParseAddr("10.90.0.254") },
		"podGateway is for the network vxlan": func(c *Config) { c.Network = agent.HostGateway },
		"podGateway needs the machine's":      func(c *Config) { c.Server = "https://server:6443" },
	} {
		c := testConfig("/x")
		c.Network, c.PodGateway = agent.VXLAN, true
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestFormerDocument reads the document of an earlier version.
func TestFormerDocument(t *testing.T) {
	c, err := Load("testdata/former.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := durable.EncodeDocument(c)
	if err != nil {
		t.Fatal(err)
	}
	testenv.Golden(t, "config.json", doc)
}
