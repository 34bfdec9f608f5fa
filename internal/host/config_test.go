// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func testConfig() Config {
	return Config{
		Cluster:     "c",
		Name:        "node-1",
		Address:     netip.MustParsePrefix("10.89.0.11/24"),
		Gateway:     netip.MustParseAddr("10.89.0.254"),
		Nameserver:  netip.MustParseAddr("10.89.0.1"),
		Server:      "https://10.89.0.1:6443",
		Domain:      "cluster.local",
		DNS:         netip.MustParseAddr("10.96.0.10"),
		PodCIDR:     netip.MustParsePrefix("10.244.0.0/16"),
		ServiceCIDR: netip.MustParsePrefix("10.96.0.0/16"),
		CAFile:      "/x/ca.crt",
		Dir:         "/x/node",
		Bin:         "/x/bin",
		Fabric:      "/x/netns/mullion-c",
		Status:      "/x/node-1.json",
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json")
	doc, err := json.Marshal(testConfig())
	if err != nil {
		t.Fatal(err)
	}
	load := func(text string) error {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path, func(c *Config) error { return c.Validate() })
		return err
	}
	if err := load(string(doc)); err != nil {
		t.Fatal(err)
	}
	const plan = `{"nodeCIDR":"fd00::/64","podCIDR":"fd01::/48","serviceCIDR":"fd02::/112"}`
	for _, tt := range []struct{ name, old, new, want string }{
		{"unknown field", `"cluster":`, `"clutser":`, "clutser"},
		{"no cluster", `"cluster":"c"`, `"cluster":""`, "cluster is missing"},
		{"a name that no host can have", `"node-1"`, `"Node_1"`, "lower-case"},
		{"a gateway elsewhere", "10.89.0.254", "10.90.0.254", "gateway 10.90.0.254 does not lie in 10.89.0.0/24"},
		{"a network for an address", "10.89.0.11/24", "10.89.0.0/24", "address 10.89.0.0/24"},
		{"an IPv6 address", "10.89.0.11/24", "fd00::11/64", "address fd00::11/64 is not an IPv4 address"},
		{"half of IPv6", `"serviceCIDR":`, `"ipv6":{"nodeCIDR":"fd00::/64"},"serviceCIDR":`, "ipv6.podCIDR is missing"},
		{"no IPv6 address", `"serviceCIDR":`, `"ipv6":` + plan + `,"serviceCIDR":`,
			"ipv6Address invalid Prefix is not"},
		{"a network for an IPv6 address", `"serviceCIDR":`,
			`"ipv6":` + plan + `,"ipv6Address":"fd00::/64","serviceCIDR":`, "ipv6Address fd00::/64 is not"},
		{"an IPv6 address alone", `"serviceCIDR":`, `"ipv6Address":"fd00::2/64","serviceCIDR":`, "fd00::2/64 is not"},
		{"two families of flannel", `"serviceCIDR":`, `"network":"vxlan","ipv6":` + plan + `,"serviceCIDR":`,
			"one address family"},
		{"an unknown network", `"serviceCIDR":`, `"network":"ipip","serviceCIDR":`, `network "ipip"`},
		{"no server", "https://10.89.0.1:6443", "", "server"},
		{"no domain", "cluster.local", "", "domain is missing"},
		{"no DNS", `"dns":"10.96.0.10"`, `"dns":""`, "dns is missing"},
		{"no room for pods", "10.244.0.0/16", "10.244.0.0/31", "podCIDR is missing, not of IPv4, or too small"},
		{"services of IPv6", "10.96.0.0/16", "fd02::/112", "serviceCIDR is missing, or not of IPv4"},
		{"a relative directory", `"dir":"/`, `"dir":"`, "not an absolute path"},
		{"a small disk", `"dir":`, `"disk":1,"dir":`, "want 1 GiB or more"},
		{"negative limits", `"dir":`, `"limits":{"MilliCPU":-1},"dir":`, "limits are negative"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := load(strings.Replace(string(doc), tt.old, tt.new, 1)); err == nil ||
				!strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := Load(path+"x", func(*Config) error { return nil }); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}
