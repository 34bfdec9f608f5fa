// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

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

func testConfig(dir string) Config {
	return Config{
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
		{"a name that no host can have", `"linux-1"`, `"Linux_1"`, "lower-case"},
		{"a gateway elsewhere", "10.89.0.254", "10.90.0.254", "gateway 10.90.0.254 does not lie in 10.89.0.0/24"},
		{"a network for an address", "10.89.0.110/24", "10.89.0.0/24", "address 10.89.0.0/24"},
		{"half a second family", `"serviceCIDR":`, `"second":{"address":"fd00::2/64"},"serviceCIDR":`,
			"second.podCIDR is missing"},
		{"two families of flannel", `"serviceCIDR":`, `"network":"vxlan","second":{"address":"fd00::2/64",` +
			`"podCIDR":"fd01::/48","serviceCIDR":"fd02::/112"},"serviceCIDR":`, "one address family"},
		{"an unknown network", `"serviceCIDR":`, `"network":"ipip","serviceCIDR":`, `network "ipip"`},
		{
			"a gateway to no overlay", `"serviceCIDR":`, `"podGateway":true,"serviceCIDR":`,
			"podGateway is for the network vxlan",
		},
		{"no server", "https://10.89.0.1:6443", "", "server"},
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
