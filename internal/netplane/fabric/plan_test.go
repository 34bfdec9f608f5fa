// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package fabric

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  Config
	}{
		{"first", Config{Name: "default", Dir: "/var/lib/mullion/netns"}},
		{"second", Config{Name: "other", Index: 1, Dir: "/var/lib/mullion/netns"}},
		{"own-ranges", Config{Name: "default", Dir: "/n", NodeNet: netip.MustParsePrefix("172.30.0.0/24"), PodNet: netip.MustParsePrefix("172.28.0.0/16"), ServiceNet: netip.MustParsePrefix("172.29.0.0/20")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := Describe(c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			testenv.Golden(t, c.name+".txt", []byte(p.String()))
		})
	}
}

func TestDescribeRefuses(t *testing.T) {
	ok := Config{Name: "default", Dir: "/n"}
	for _, c := range []struct {
		name string
		edit func(*Config)
		want string
	}{
		{"no name", func(c *Config) { c.Name = "" }, "not usable as a file name"},
		{"path as name", func(c *Config) { c.Name = "../x" }, "not usable as a file name"},
		{"index", func(c *Config) { c.Index = MaxIndex + 1 }, "not between 0 and 73"},
		{"no directory", func(c *Config) { c.Dir = "" }, "no directory"},
		{"overlap", func(c *Config) { c.ServiceNet = netip.MustParsePrefix("10.89.0.0/16") }, "overlap"},
		{"IPv6", func(c *Config) { c.PodNet = netip.MustParsePrefix("fd00::/64") }, "not an IPv4 range"},
		{"host bits", func(c *Config) { c.NodeNet = netip.MustParsePrefix("10.89.0.1/24") }, "not an IPv4 range"},
		{"too small", func(c *Config) { c.NodeNet = netip.MustParsePrefix("10.89.0.0/29") }, "not an IPv4 range"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := ok
			c.edit(&cfg)
			if _, err := Describe(cfg); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestClustersDoNotMeet: no two indexes share an address.
func TestClustersDoNotMeet(t *testing.T) {
	var all []netip.Prefix
	for i := range MaxIndex + 1 {
		p, err := Describe(Config{Name: "x", Index: i, Dir: "/n"})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []netip.Prefix{p.NodeNet, p.PodNet, p.ServiceNet} {
			for _, o := range all {
				if o.Overlaps(r) {
					t.Fatalf("%s of cluster %d meets %s", r, i, o)
				}
			}
			all = append(all, r)
		}
	}
}

func TestNodeAddress(t *testing.T) {
	p, err := Describe(Config{Name: "x", Dir: "/n"})
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]string{1: "10.89.0.11/24", 2: "10.89.0.12/24", 243: "10.89.0.253/24"} {
		if got, err := p.NodeAddress(n); err != nil || got.String() != want {
			t.Errorf("host %d: got %s, %v, want %s", n, got, err, want)
		}
	}
	for _, n := range []int{0, -1, 244, 1000} {
		if got, err := p.NodeAddress(n); err == nil {
			t.Errorf("host %d got %s", n, got)
		}
	}
}
