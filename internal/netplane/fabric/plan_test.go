// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package fabric

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  Config
	}{
		{"first", Config{
			Name:       "default",
			Dir:        "/var/lib/mullion/netns",
			NodeNet:    netip.MustParsePrefix("10.89.0.0/24"),
			PodNet:     netip.MustParsePrefix("10.244.0.0/16"),
			ServiceNet: netip.MustParsePrefix("10.96.0.0/16"),
			Pool:       netip.MustParsePrefix("10.90.0.0/24"),
		}},
		{"second", Config{
			Name:       "other",
			Index:      1,
			Dir:        "/var/lib/mullion/netns",
			NodeNet:    netip.MustParsePrefix("10.89.1.0/24"),
			PodNet:     netip.MustParsePrefix("10.243.0.0/16"),
			ServiceNet: netip.MustParsePrefix("10.97.0.0/16"),
		}},
		{"own-ranges", Config{
			Name:       "default",
			Dir:        "/n",
			NodeNet:    netip.MustParsePrefix("172.30.0.0/24"),
			PodNet:     netip.MustParsePrefix("172.28.0.0/16"),
			ServiceNet: netip.MustParsePrefix("172.29.0.0/20"),
		}},
		{"two-families", Config{
			Name:       "default",
			Dir:        "/var/lib/mullion/netns",
			NodeNet:    netip.MustParsePrefix("10.89.0.0/24"),
			PodNet:     netip.MustParsePrefix("10.244.0.0/16"),
			ServiceNet: netip.MustParsePrefix("10.96.0.0/16"),
			IPv6:       plan6(),
			Pool6:      netip.MustParsePrefix("fd00:10:90::/112"),
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "own-ranges" {
				c.cfg.Serves = []Port{{"tcp", 6443}, {"tcp", 53}, {"udp", 53}}
			}
			p, err := Describe(c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			rules := p.rules(c.name == "first")
			if p.MachineAddress6.IsValid() {
				rules += p.ipv6Rules()
			}
			testenv.Golden(t, c.name+".txt", []byte(p.String()+"\n"+rules))
		})
	}
}

func plan6() ipv6.Plan {
	return ipv6.Plan{
		NodeCIDR:    netip.MustParsePrefix("fd00:10:89::/64"),
		PodCIDR:     netip.MustParsePrefix("fd00:10:244::/48"),
		ServiceCIDR: netip.MustParsePrefix("fd00:10:96::/112"),
	}
}

// TestCheckHost: a host has an IPv6 address exactly if the fabric has IPv6.
func TestCheckHost(t *testing.T) {
	one, two := Plan{}, Plan{IPv6: plan6()}
	two.Router6, two.MachineAddress6 = addresses6(two.IPv6.NodeCIDR)
	for _, c := range []struct {
		plan    Plan
		address string
		fits    bool
	}{
		{one, "", true}, {one, "fd00:10:89::b/64", false},
		{two, "", false}, {two, "fd00:10:89::b/64", true}, {two, "fd00:10:89::1/64", false},
		{two, "fd00:10:89::2/64", false}, {two, "fd00:10:89::/64", false}, {two, "fd00:10:90::b/64", false},
		{two, "fd00:10:89::b/48", false},
	} {
		a, _ := netip.ParsePrefix(c.address)
		if err := c.plan.checkHost(a); (err == nil) != c.fits {
			t.Errorf("router %q, host %q: %v", c.plan.Router6, c.address, err)
		}
	}
}

func TestDescribeRefuses(t *testing.T) {
	ok := Config{
		Name:       "default",
		Dir:        "/n",
		NodeNet:    netip.MustParsePrefix("10.89.0.0/24"),
		PodNet:     netip.MustParsePrefix("10.244.0.0/16"),
		ServiceNet: netip.MustParsePrefix("10.96.0.0/16"),
		IPv6:       plan6(),
	}
	for _, c := range []struct {
		name string
		edit func(*Config)
		want string
	}{
		{"no name", func(c *Config) { c.Name = "" }, "not usable as a file name"},
		{"path as name", func(c *Config) { c.Name = "../x" }, "not usable as a file name"},
		{"index", func(c *Config) { c.Index = -1 }, "below 0"},
		{"no directory", func(c *Config) { c.Dir = "" }, "no directory"},
		{"overlap", func(c *Config) { c.ServiceNet = netip.MustParsePrefix("10.89.0.0/16") }, "overlap"},
		{"no range", func(c *Config) { c.NodeNet = netip.Prefix{} }, "not an IPv4 range"},
		{"IPv6", func(c *Config) { c.PodNet = netip.MustParsePrefix("fd00::/64") }, "not an IPv4 range"},
		{"host bits", func(c *Config) { c.NodeNet = netip.MustParsePrefix("10.89.0.1/24") }, "not an IPv4 range"},
		{"protocol", func(c *Config) { c.Serves = []Port{{"icmp", 1}} }, `port "icmp 1"`},
		{"port", func(c *Config) { c.Serves = []Port{{"tcp", 0}} }, `port "tcp 0"`},
		{"pool in use", func(c *Config) { c.Pool = netip.MustParsePrefix("10.96.4.0/24") },
			"the cluster uses 10.96.0.0/16 for something else"},
		{"pool of IPv6", func(c *Config) { c.Pool = netip.MustParsePrefix("fd00::/120") }, "not an IPv4 range"},
		{"pool with host bits", func(c *Config) { c.Pool = netip.MustParsePrefix("10.90.0.1/24") },
			"not an IPv4 range"},
		{"large pool", func(c *Config) { c.Pool = netip.MustParsePrefix("10.0.0.0/15") }, "65536 addresses or fewer"},
		{"pool of loopback", func(c *Config) { c.Pool = netip.MustParsePrefix("127.1.0.0/24") }, "can be routed"},
		{"IPv6 of IPv4", func(c *Config) { c.IPv6.NodeCIDR = c.NodeNet }, "unique local IPv6 range"},
		{"IPv6 of everybody", func(c *Config) { c.IPv6.PodCIDR = netip.MustParsePrefix("2001:db8::/48") },
			"unique local IPv6 range"},
		{"IPv6 with host bits", func(c *Config) { c.IPv6.NodeCIDR = netip.MustParsePrefix("fd00:10:89::1/64") },
			"unique local IPv6 range"},
		{"IPv6 in part", func(c *Config) { c.IPv6.PodCIDR = netip.Prefix{} }, "unique local IPv6 range"},
		{"IPv6 overlaps", func(c *Config) { c.IPv6.ServiceCIDR = netip.MustParsePrefix("fd00:10:244:9::/112") },
			"overlap"},
		{"IPv6 pool of IPv4", func(c *Config) { c.Pool6 = netip.MustParsePrefix("10.90.0.0/24") },
			"not an IPv6 range"},
		{"IPv6 pool in use", func(c *Config) { c.Pool6 = netip.MustParsePrefix("fd00:10:244:1::/112") },
			"the cluster uses fd00:10:244::/48 for something else"},
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
