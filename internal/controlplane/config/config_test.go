// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package config_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"net/netip"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
)

const good = `{
  "apiVersion": "mullion/v1alpha1", "name": "default", "dataDir": "/var/lib/mullion/clusters/default",
  "addresses": ["127.0.0.1", "10.89.0.1"], "port": 6443,
  "nodeCIDR": "10.89.0.0/24", "podCIDR": "10.244.0.0/16", "serviceCIDR": "10.96.0.0/16",
  "dnsAddress": "10.89.0.1:53", "dnsUpstream": null, "metricsAddress": "10.89.0.1:4443"
}`

func TestParse(t *testing.T) {
	c, err := config.Parse([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, got, want string }{
		{"DNS service", c.DNSServiceIP.String(), "10.96.0.10"},
		{"API service", c.ServiceIP().String(), "10.96.0.1"},
		{"advertised", c.Advertise().String(), "10.89.0.1"},
		{"local URL", c.LocalURL(), "https://127.0.0.1:6443"},
		{"domain", c.ClusterDomain, "cluster.local"},
		{"socket", c.EtcdSocket(), "/var/lib/mullion/clusters/default/run/etcd/etcd.sock"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s = %s, want %s", tc.name, tc.got, tc.want)
		}
	}
	data, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	again, err := config.Parse(data)
	if d := cmp.Diff(c, again, cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{}, netip.Prefix{})); err != nil ||
		d != "" {
		t.Errorf("parse of marshal: %v %s", err, d)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tc := range []struct{ name, old, new, want string }{
		{"another version", "v1alpha1", "v2", "this mullion reads"},
		{"unknown field", `"port"`, `"ports"`, "unknown field"},
		{"two documents", `4443"` + "\n}", `4443"` + "\n}{}", "more than one document"},
		{"cut short", `4443"` + "\n}", "", "unexpected EOF"},
		{"pool of other ranges", `4443"` + "\n}", `4443", "loadBalancer": {"pool": "10.96.1.0/24", "router": "/r"}}`,
			"overlaps serviceCIDR"},
		{"pool without router", `4443"` + "\n}", `4443", "loadBalancer": {"pool": "10.90.0.0/24", "router": ""}}`,
			"want a network and a file"},
		{"pool with host bits", `4443"` + "\n}", `4443", "loadBalancer": {"pool": "10.90.0.1/24", "router": "/r"}}`,
			"want a network"},
		{"no pool", `4443"` + "\n}", `4443", "loadBalancer": {"router": "/r"}}`, "want a network and a file"},
		{"pool of IPv6 in a cluster of IPv4", `4443"` + "\n}",
			`4443", "loadBalancer": {"ipv6Pool": "fd00:10:90::/112", "router": "/r"}}`, "in a cluster that has IPv6"},
		{"relative directory", "/var/lib", "var/lib", "absolute"},
		{"directory with dots", "/var/lib", "/var/../lib", "clean"},
		{"directory too long", "/var/lib", "/" + strings.Repeat("x", 90), "too long for a Unix socket"},
		{"any address", `"10.89.0.1"]`, `"0.0.0.0"]`, "the address of an interface"},
		{"address twice", `"10.89.0.1"]`, `"127.0.0.1"]`, "twice"},
		{"no loopback", `"127.0.0.1", `, "", "loopback"},
		{"no address", `"127.0.0.1", "10.89.0.1"`, "", "at least one"},
		{"port", "6443", "0", "port"},
		{"port too large", "6443", "65536", "cannot unmarshal"},
		{"network with host bits", "10.89.0.0/24", "10.89.0.1/24", "want a network"},
		{"overlap", "10.244.0.0/16", "10.96.0.0/12", "overlaps"},
		{"services too many", "10.96.0.0/16", "10.0.0.0/10", "serviceCIDR"},
		{"pods too few", "10.244.0.0/16", "10.244.0.0/25", "nodeMaskSize"},
		{"DNS service is the API's", `"port"`, `"dnsServiceIP": "10.96.0.1", "port"`, "dnsServiceIP"},
		{"DNS asks itself", "null", `["10.89.0.1:53"]`, "own DNS server"},
		{"DNS on loopback", "10.89.0.1:53", "127.0.0.1:53", "dnsAddress"},
		{"metrics on loopback", "10.89.0.1:4443", "127.0.0.1:4443", "metricsAddress"},
		{"metrics on any port", "10.89.0.1:4443", "10.89.0.1:0", "metricsAddress"},
		{"wildcard SAN", `"port"`, `"extraSANs": ["*.example.com"], "port"`, "extraSANs"},
		{"domain", `"port"`, `"clusterDomain": "a b", "port"`, "clusterDomain"},
		{"endpoint", `"port"`, `"datastore": {"endpoints": ["etcd:2379"]}, "port"`, "want https"},
		{"endpoint in the clear", `"port"`, `"datastore": {"endpoints": ["http://e:2379"], "caFile": "x"}, "port"`,
			"want https"},
		{"endpoint without CA", `"port"`, `"datastore": {"endpoints": ["https://e:2379"]}, "port"`, "caFile"},
		{"certificate without key", `"port"`, `"datastore": {"endpoints": ["https://e:2379"], "caFile": "x", ` +
			`"certFile": "x"}, "port"`, "belong together"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := strings.Replace(good, tc.old, tc.new, 1)
			if in == good {
				t.Fatalf("%q is not in the document", tc.old)
			}
			if _, err := config.Parse([]byte(in)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("err = %v, want %q", err, tc.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"apiVersion":"mullion/v1alpha1","serviceCIDR":"::/0","dnsServiceIP":"1.2.3.4"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := config.Parse(data)
		if err != nil {
			return
		}
		// What was accepted can be used and written again.
		_, _, _ = c.LocalURL(), c.Advertise(), c.ServiceIP()
		out, err := c.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := config.Parse(out); err != nil {
			t.Errorf("parse of marshal: %v\n%s", err, out)
		}
	})
}

// TestIPv6: the networks of IPv6 come after those of IPv4, and fit what Kubernetes takes.
func TestIPv6(t *testing.T) {
	const networks = `"nodeCIDR": "fd00:10:89::/64", "podCIDR": "fd00:10:244::/48", "serviceCIDR": "fd00:10:96::/112"`
	parse := func(networks string) (config.Config, error) {
		return config.Parse([]byte(strings.Replace(good, `4443"`+"\n}", `4443", "ipv6": {`+networks+`}}`, 1)))
	}
	c, err := parse(networks)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.NodeCIDRs(); len(got) != 2 || got[0] != c.NodeCIDR || c.IPv6.PodCIDR.String() != "fd00:10:244::/48" ||
		c.IPv6.ServiceCIDR.String() != "fd00:10:96::/112" || c.NodeMaskSizeIPv6 != 64 {
		t.Errorf("networks %v, %+v, node mask %d", got, c.IPv6, c.NodeMaskSizeIPv6)
	}
	if one := testGood(t); len(one.NodeCIDRs()) != 1 {
		t.Errorf("a cluster with one family has the nodes' networks %v", one.NodeCIDRs())
	}
	const pool = networks + `}, "loadBalancer": {"pool": "10.90.0.0/24", "ipv6Pool": "fd00:10:90::/112", "router": "/r"`
	if c, err := parse(pool); err != nil || len(c.LoadBalancer.Pools()) != 2 ||
		c.LoadBalancer.Pools()[1] != c.LoadBalancer.IPv6Pool {
		t.Errorf("pools %v, %v", c.LoadBalancer, err)
	}
	for _, tc := range []struct{ old, new, want string }{
		{`"pool": "10.90.0.0/24", `, "", ""},
		{`"ipv6Pool": "fd00:10:90::/112", `, "", ""},
		{"fd00:10:90::/112", "10.91.0.0/24", "want a network of IPv6"},
		{"fd00:10:90::/112", "fd00:10:90::1/112", "want a network"},
		{"fd00:10:90::/112", "fd00:10:244:1::/112", "overlaps ipv6.podCIDR fd00:10:244::/48"},
	} {
		_, err := parse(strings.Replace(pool, tc.old, tc.new, 1))
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("pool %s: err = %v, want %q", tc.new, err, tc.want)
		}
	}
	for _, tc := range []struct{ name, old, new, want string }{
		{"IPv4", "fd00:10:89::/64", "10.80.0.0/24", "ipv6.nodeCIDR is missing, or not of IPv6"},
		{"part", `, "serviceCIDR": "fd00:10:96::/112"`, "", `ipv6.serviceCIDR "invalid Prefix": want a network`},
		{"host bits", "fd00:10:89::/64", "fd00:10:89::1/64", "want a network"},
		{"overlap", "fd00:10:96::/112", "fd00:10:244:9::/112", "overlaps ipv6.podCIDR"},
		{"services too many", "fd00:10:96::/112", "fd00:10:96::/64", "from 108 to 124"},
		{"pods too many", "fd00:10:244::/48", "fd00:244::/32", "nodeMaskSizeIPv6 64 does not fit"},
	} {
		if _, err := parse(strings.Replace(networks, tc.old, tc.new, 1)); err == nil ||
			!strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: err = %v, want %q", tc.name, err, tc.want)
		}
	}
}

// TestFormerNames reads the IPv6 settings of an earlier version.
func TestFormerNames(t *testing.T) {
	const plan = `"nodeCIDR": "fd00:10:89::/64", "podCIDR": "fd00:10:244::/48", "serviceCIDR": "fd00:10:96::/112"`
	parse := func(more string) config.Config {
		c, err := config.Parse([]byte(strings.Replace(good, `4443"`+"\n}", `4443", `+more+`}`, 1)))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	former := parse(`"second": {` + plan + `, "nodeMaskSize": 60}, "loadBalancer": {"second": "fd00:10:90::/112",
		"router": "/r"}`)
	now := parse(`"ipv6": {` + plan + `}, "nodeMaskSizeIPv6": 60, "loadBalancer": {"ipv6Pool": "fd00:10:90::/112",
		"router": "/r"}`)
	if !reflect.DeepEqual(former, now) {
		t.Errorf("%+v, want %+v", former, now)
	}
}

// testGood reads the document that the other tests change.
func testGood(t *testing.T) config.Config {
	t.Helper()
	c, err := config.Parse([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	return c
}
