// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package emul

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/hnstest"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// overlayDoc returns the document with which flanneld creates a network (flannel v0.28.10,
// pkg/backend/vxlan/device_windows.go).
func overlayDoc(name, prefix string, vsid int) string {
	gateway := strings.Replace(prefix, "0/24", "1", 1)
	return fmt.Sprintf(`{"Name":%q,"Type":"Overlay","Flags":8,"SchemaVersion":{"Major":2},"Ipams":[{"Type":"Static",
	  "Subnets":[{"IpAddressPrefix":%q,"Policies":[{"Type":"VSID","Settings":{"IsolationId":%d}}],
	  "Routes":[{"NextHop":%q,"DestinationPrefix":"0.0.0.0/0"}]}]}]}`, name, prefix, vsid, gateway)
}

func remoteRoute(request, prefix, provider, mac string) string {
	return fmt.Sprintf(`{"ResourceType":"Policy","RequestType":%q,"Settings":{"Policies":[{"Type":"RemoteSubnetRoute",
	  "Settings":{"DestinationPrefix":%q,"IsolationId":4096,"ProviderAddress":%q,
	  "DistributedRouterMacAddress":%q}}]}}`, request, prefix, provider, mac)
}

// remotes returns the remote subnets that the data plane has.
func remotes(p *hnstest.Plane) string {
	var list []string
	for _, n := range p.Host().Networks {
		for _, r := range n.RemoteSubnets {
			list = append(list, r.Prefix.String()+" at "+r.ProviderAddress.String())
		}
	}
	return strings.Join(list, ", ")
}

// TestRemoteSubnetsLinger: flanneld removes and adds the routes to all other nodes at each start. The documents
// follow at once, the data plane keeps the route until it is clear that it does not come back.
func TestRemoteSubnetsLinger(t *testing.T) {
	plane := &hnstest.Plane{}
	s := openTest(t, t.TempDir(), func(c *Config) { c.DataPlane = plane })
	s.lingering = time.Hour
	n := create(t, s, hns.Network, schema.GUID{}, overlayDoc("flannel.4096", "10.244.1.0/24", 4096))
	modify := func(request, prefix, provider, mac string) {
		t.Helper()
		if err := s.Modify(t.Context(), hns.Network, n, remoteRoute(request, prefix, provider, mac)); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(when, want string) {
		t.Helper()
		if got := remotes(plane); got != want {
			t.Errorf("%s: the data plane has %q, want %q", when, got, want)
		}
	}
	modify("Add", "10.244.2.0/24", "10.89.0.12", "00-15-5D-00-00-02")
	modify("Add", "10.244.3.0/24", "10.89.0.13", "00-15-5D-00-00-03")
	modify("Remove", "10.244.2.0/24", "", "")
	if strings.Contains(text(t, s), "10.244.2.0/24") {
		t.Error("the document still has the route")
	}
	expect("after the removal", "10.244.3.0/24 at 10.89.0.13, 10.244.2.0/24 at 10.89.0.12")
	other := create(t, s, hns.Network, schema.GUID{}, overlayDoc("other", "10.250.1.0/24", 5000))
	expect("after another change", "10.244.3.0/24 at 10.89.0.13, 10.244.2.0/24 at 10.89.0.12")
	modify("Add", "10.244.2.0/24", "10.89.0.12", "00-15-5D-00-00-02")
	expect("after it came back", "10.244.3.0/24 at 10.89.0.13, 10.244.2.0/24 at 10.89.0.12")
	// A node that came back with another address, and one with another range.
	modify("Remove", "10.244.2.0/24", "", "")
	modify("Add", "10.244.2.0/24", "10.89.0.22", "00-15-5D-00-00-22")
	expect("after it moved", "10.244.3.0/24 at 10.89.0.13, 10.244.2.0/24 at 10.89.0.22")
	modify("Remove", "10.244.3.0/24", "", "")
	modify("Add", "10.244.9.0/24", "10.89.0.33", "00-15-5D-00-00-03")
	expect("after the router moved", "10.244.2.0/24 at 10.89.0.22, 10.244.9.0/24 at 10.89.0.33")
	if err := s.Delete(t.Context(), hns.Network, other); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), hns.Network, n); err != nil {
		t.Fatal(err)
	}
	expect("after the network's removal", "")
}

// TestRemoteSubnetsFade: a route that does not come back is gone in the end.
func TestRemoteSubnetsFade(t *testing.T) {
	plane := &hnstest.Plane{}
	s := openTest(t, t.TempDir(), func(c *Config) { c.DataPlane = plane })
	s.lingering = 10 * time.Millisecond
	n := create(t, s, hns.Network, schema.GUID{}, overlayDoc("flannel.4096", "10.244.1.0/24", 4096))
	for _, request := range []string{"Add", "Remove"} {
		if err := s.Modify(t.Context(), hns.Network, n, remoteRoute(request, "10.244.2.0/24", "10.89.0.12",
			"00-15-5D-00-00-02")); err != nil {
			t.Fatal(err)
		}
	}
	for remotes(plane) != "" {
		if t.Context().Err() != nil {
			t.Fatal("the route stays")
		}
		time.Sleep(time.Millisecond)
	}
}

// TestRemoteSubnetsRefused: what other nodes write into their annotations cannot change this node's own network.
func TestRemoteSubnetsRefused(t *testing.T) {
	plane := &hnstest.Plane{}
	s := openTest(t, t.TempDir(), func(c *Config) { c.DataPlane = plane })
	n := create(t, s, hns.Network, schema.GUID{}, overlayDoc("flannel.4096", "10.244.1.0/24", 4096))
	if err := s.Modify(t.Context(), hns.Network, n, remoteRoute("Add", "10.244.2.0/24", "10.89.0.12",
		"00-15-5D-00-00-02")); err != nil {
		t.Fatal(err)
	}
	before := text(t, s)
	for name, c := range map[string][3]string{
		"everything":                {"0.0.0.0/0", "10.89.0.13", "00-15-5D-00-00-03"},
		"IPv6":                      {"fd00::/64", "10.89.0.13", "00-15-5D-00-00-03"},
		"loopback":                  {"127.0.0.0/8", "10.89.0.13", "00-15-5D-00-00-03"},
		"no range":                  {"", "10.89.0.13", "00-15-5D-00-00-03"},
		"the nodes' network":        {"10.89.0.0/24", "10.89.0.13", "00-15-5D-00-00-03"},
		"one node":                  {"10.89.0.12/32", "10.89.0.13", "00-15-5D-00-00-03"},
		"the node's own range":      {"10.244.1.0/24", "10.89.0.13", "00-15-5D-00-00-03"},
		"the node itself":           {"10.244.3.0/24", "10.89.0.11", "00-15-5D-00-00-03"},
		"no provider":               {"10.244.3.0/24", "", "00-15-5D-00-00-03"},
		"multicast provider":        {"10.244.3.0/24", "224.0.0.1", "00-15-5D-00-00-03"},
		"no router":                 {"10.244.3.0/24", "10.89.0.13", ""},
		"multicast router":          {"10.244.3.0/24", "10.89.0.13", "01-00-5E-00-00-03"},
		"the router of another one": {"10.244.3.0/24", "10.89.0.13", "00-15-5D-00-00-02"},
	} {
		err := s.Modify(t.Context(), hns.Network, n, remoteRoute("Add", c[0], c[1], c[2]))
		if hresult.Of(err) != hresult.InvalidPolicy {
			t.Errorf("%s: got %v, want InvalidPolicy", name, err)
		}
	}
	if got := text(t, s); got != before {
		t.Errorf("a refused route changed the state:\n%s\nbefore:\n%s", got, before)
	}
	if got := remotes(plane); got != "10.244.2.0/24 at 10.89.0.12" {
		t.Errorf("the data plane has %s", got)
	}
}

// TestOverlaysApart: two overlay networks of one host may share neither a range nor a VSID.
func TestOverlaysApart(t *testing.T) {
	s := openTest(t, t.TempDir(), nil)
	create(t, s, hns.Network, schema.GUID{}, overlayDoc("one", "10.244.1.0/24", 4096))
	create(t, s, hns.Network, schema.GUID{}, overlayDoc("two", "10.245.1.0/24", 4097))
	for name, doc := range map[string]string{
		"same range": overlayDoc("three", "10.244.1.0/24", 4098),
		"same VSID":  overlayDoc("three", "10.246.1.0/24", 4096),
	} {
		_, err := s.Create(t.Context(), hns.Network, schema.GUID{}, schema.GUID{}, doc)
		if hresult.Of(err) != hresult.ObjectAlreadyExists {
			t.Errorf("%s: got %v, want ObjectAlreadyExists", name, err)
		}
	}
}
