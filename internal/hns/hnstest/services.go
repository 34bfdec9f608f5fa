// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package hnstest

import (
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

func balancerCases() []testCase {
	return []testCase{
		{name: "load balancer unknown", run: func(c *client) {
			id := schema.NewGUID()
			c.fails(c.api.Open(c.ctx(), hns.LoadBalancer, id), hresult.NotFound, "open")
			c.fails(c.api.Delete(c.ctx(), hns.LoadBalancer, id), hresult.NotFound, "delete")
		}},
		{name: "load balancer without endpoints", run: func(c *client) {
			_, err := c.api.Create(c.ctx(), hns.LoadBalancer, schema.GUID{}, schema.GUID{},
				c.json(balancerDoc("198.18.2.1", 80)))
			c.fails(err, hresult.InvalidJSONReference, "create")
			if err != nil && !strings.Contains(hresult.Text(err), "A Reference is required") {
				c.Errorf("text %q", hresult.Text(err))
			}
		}},
		{name: "load balancer of unknown endpoints", run: func(c *client) {
			_, err := c.api.Create(c.ctx(), hns.LoadBalancer, schema.GUID{}, schema.GUID{},
				c.json(balancerDoc("198.18.2.1", 80, schema.NewGUID())))
			c.fails(err, hresult.EndpointNotFound, "create")
		}},
		{name: "load balancer supersedes one with its front end",
			diverges: "kube-proxy 1.36 forgets ids after a failed call", run: balancerSupersede},
		{name: "load balancers of both IP versions on one node port", run: func(c *client) {
			e := c.endpoint(c.bridge(), "", 0)
			v4, v6 := balancerDoc("", 30082, e), balancerDoc("", 30082, e)
			v6.Flags = schema.LBIPv6
			a, b := c.create(hns.LoadBalancer, schema.GUID{}, v4), c.create(hns.LoadBalancer, schema.GUID{}, v6)
			ids := c.enumerate(hns.LoadBalancer, "")
			if !slices.Contains(ids, a.String()) || !slices.Contains(ids, b.String()) {
				c.Errorf("%v, want both %s and %s", ids, a, b)
			}
		}},
		{name: "load balancer loses a deleted endpoint", run: func(c *client) {
			n := c.bridge()
			a, b := c.endpoint(n, "", 0), c.endpoint(n, "192.0.2.8", schema.RemoteEndpoint)
			lb := c.create(hns.LoadBalancer, schema.GUID{}, balancerDoc("198.18.2.4", 80, a, b))
			if err := c.api.Delete(c.ctx(), hns.Endpoint, b); err != nil {
				c.Fatal(err)
			}
			var doc schema.LoadBalancer
			if c.query(hns.LoadBalancer, lb, &doc); !slices.Equal(doc.HostComputeEndpoints, []string{a.String()}) {
				c.Errorf("endpoints %v", doc.HostComputeEndpoints)
			}
		}},
		{name: "load balancer modified", run: balancerModify},
	}
}

func balancerSupersede(c *client) {
	n := c.bridge()
	a, b := c.endpoint(n, "", 0), c.endpoint(n, "192.0.2.8", schema.RemoteEndpoint)
	old := c.create(hns.LoadBalancer, schema.GUID{}, balancerDoc("198.18.2.4", 80, a))
	other := c.create(hns.LoadBalancer, schema.GUID{}, balancerDoc("198.18.2.4", 81, a))
	newer := c.create(hns.LoadBalancer, schema.GUID{}, balancerDoc("198.18.2.4", 80, a, b))
	ids := c.enumerate(hns.LoadBalancer, "")
	if slices.Contains(ids, old.String()) || !slices.Contains(ids, newer.String()) ||
		!slices.Contains(ids, other.String()) {
		c.Errorf("%v, want %s in place of %s, and %s", ids, newer, old, other)
	}
	doc := balancerDoc("198.18.2.4", 80, a)
	doc.FrontendVIPs = append(doc.FrontendVIPs, "198.18.2.5")
	id, err := c.api.Create(c.ctx(), hns.LoadBalancer, schema.GUID{}, schema.GUID{}, c.json(doc))
	if err == nil {
		c.removeLater(hns.LoadBalancer, id)
	}
	c.fails(err, hresult.AlreadyExists, "create with one of two front ends taken")
}

// balancerModify sends the whole document, without and with the id. A service
// that is too old refuses with the one code that kube-proxy falls back on.
func balancerModify(c *client) {
	n := c.bridge()
	a, b := c.endpoint(n, "", 0), c.endpoint(n, "192.0.2.8", schema.RemoteEndpoint)
	lb := c.create(hns.LoadBalancer, schema.GUID{}, balancerDoc("198.18.2.4", 80, a))
	var version schema.Version
	c.call("GET", "/globals/version", nil, &version)
	for _, id := range []string{"", lb.String()} {
		doc := balancerDoc("198.18.2.4", 80, a, b)
		doc.ID = id
		err := c.api.Modify(c.ctx(), hns.LoadBalancer, lb, c.json(doc))
		if !version.AtLeast(15, 4) {
			c.fails(err, hresult.NotImplemented, "modify")
			return
		}
		if err != nil {
			c.Fatal(err)
		}
		var got schema.LoadBalancer
		if c.query(hns.LoadBalancer, lb, &got); got.ID != lb.String() || len(got.HostComputeEndpoints) != 2 {
			c.Errorf("after the change: %+v", got)
		}
	}
}

func v1Cases() []testCase {
	return []testCase{
		{name: "v1 version", run: func(c *client) {
			var v schema.Version
			if c.call("GET", "/globals/version", nil, &v); !v.AtLeast(9, 2) {
				c.Errorf("version %+v: kube-proxy needs the v2 API, 9.2", v)
			}
		}},
		{name: "v1 lists are lists", run: func(c *client) {
			for _, path := range []string{"/networks/", "/endpoints/", "/policylists/", "/namespaces/"} {
				var list []map[string]any
				if c.call("GET", path, nil, &list); list == nil {
					c.Errorf("GET %s: null, want a list", path)
				}
			}
		}},
		{name: "v1 failure", run: func(c *client) {
			for path, want := range map[string]hresult.Code{
				"/networks/" + schema.NewGUID().String():      hresult.NetworkNotFound,
				"/endpoints/" + schema.NewGUID().String():     hresult.EndpointNotFound,
				"/endpointstats/" + schema.NewGUID().String(): hresult.EndpointNotFound,
				"/namespaces/" + schema.NewGUID().String():    hresult.NotFound,
			} {
				r := c.response("GET", path, nil)
				if r.Success || r.ErrorCode != uint32(want) || !strings.HasSuffix(r.Error, ". ") {
					c.Errorf("GET %s: %+v, want code %s and a text that ends in a full stop and a space", path, r, want)
				}
			}
			// hnslib recognises a missing namespace by this text.
			if r := c.response("GET", "/namespaces/"+schema.NewGUID().String(), nil); !strings.Contains(r.Error,
				"Element not found.") {
				c.Errorf("error %q", r.Error)
			}
			for _, path := range []string{"/", "", "/globals/", "/nonsense/", "/endpoints/x/y/z", "/networks/no-guid"} {
				if r := c.response("GET", path, nil); r.Success {
					c.Errorf("GET %s succeeded", path)
				}
			}
		}},
		{name: "v1 as flannel host-gw calls it", run: v1Flannel},
		{name: "v1 statistics", run: v1Stats},
		{name: "v1 load balancer", run: v1Balancer},
		{name: "v1 namespace", run: func(c *client) {
			var ns schema.V1Namespace
			c.call("POST", "/namespaces/", `{"IsDefault":false}`, &ns)
			c.removeLater(hns.Namespace, c.parse(ns.ID))
			e := c.endpoint(c.bridge(), "", 0)
			c.call("POST", "/namespaces/"+ns.ID+"/addresource", `{"Type":"Endpoint","Data":{"Id":"`+e.String()+`"}}`,
				&ns)
			if len(ns.ResourceList) != 1 {
				c.Errorf("after addresource: %+v", ns)
			}
			c.call("POST", "/namespaces/"+ns.ID+"/removeresource", `{"Type":"Endpoint","Data":{"Id":"`+e.String()+`"}}`,
				&ns)
		}},
	}
}

func v1Flannel(c *client) {
	var n schema.V1Network
	c.call("POST", "/networks/", `{"Name":"hnstest-cbr0","Type":"L2Bridge","DNSServerList":"192.0.2.53",`+
		`"Subnets":[{"AddressPrefix":"198.18.4.0/24","GatewayAddress":"198.18.4.1"}]}`, &n)
	c.removeLater(hns.Network, c.parse(n.ID))
	c.call("GET", "/networks/"+n.ID, nil, &n)
	if n.ManagementIP == "" {
		c.Error("no ManagementIP; flannel waits for it")
	}
	var list []schema.V1Network
	c.call("GET", "/networks/", nil, &list)
	if !slices.ContainsFunc(list,
		func(x schema.V1Network) bool { return x.ID == n.ID && x.Subnets[0].AddressPrefix == "198.18.4.0/24" }) {
		c.Errorf("network is not in the list: %+v", list)
	}
	var e schema.V1Endpoint
	c.call("POST", "/endpoints/", `{"Name":"hnstest-cbr0_ep","VirtualNetwork":"`+n.ID+`","IPAddress":"198.18.4.2"}`, &e)
	c.removeLater(hns.Endpoint, c.parse(e.ID))
	if e.State != schema.EndpointCreated || e.IPAddress != "198.18.4.2" {
		c.Errorf("endpoint %+v", e)
	}
	attach := `{"SystemType":"Host","CompartmentId":1}`
	c.call("POST", "/endpoints/"+e.ID+"/attach", attach, nil)
	r := c.response("POST", "/endpoints/"+e.ID+"/attach", attach)
	if r.Success || !strings.Contains(r.Error, "This endpoint is already attached to the switch.") {
		c.Errorf("second attach: %+v; flannel compares the text", r)
	}
	if c.call("GET", "/endpoints/"+e.ID, nil, &e); e.State != schema.EndpointAttached {
		c.Errorf("state %d, want attached", e.State)
	}
	c.call("POST", "/endpoints/"+e.ID+"/detach", attach, nil)
	c.call("DELETE", "/endpoints/"+e.ID, nil, nil)
	c.call("DELETE", "/networks/"+n.ID, nil, nil)
}

// v1Stats follows the kubelet: list all endpoints, query the counters of each, find
// the sandbox by SharedContainers.
func v1Stats(c *client) {
	n, ns := c.bridge(), c.namespace()
	doc := endpointDoc(n, "", 0)
	doc.Name = "0123abcd_" + prefix + "bridge" // as win-bridge names it
	e := c.create(hns.Endpoint, n, doc)
	c.endpoint(n, "192.0.2.9", schema.RemoteEndpoint)
	if err := c.attach(ns, e, schema.Add); err != nil {
		c.Fatal(err)
	}
	var list []schema.V1Endpoint
	c.call("GET", "/endpoints/", nil, &list)
	found := false
	for _, x := range list {
		var stats schema.V1EndpointStats
		c.call("GET", "/endpointstats/"+x.ID, nil, &stats)
		if slices.Contains(x.SharedContainers, "0123abcd") {
			found = stats.EndpointID == e.String()
		}
	}
	if !found {
		c.Errorf("no endpoint with the sandbox in SharedContainers: %+v", list)
	}
}

func v1Balancer(c *client) {
	e := c.endpoint(c.bridge(), "", 0)
	var list schema.V1PolicyList
	c.call("POST", "/policylists/", `{"References":["/endpoints/`+e.String()+
		`"],"Policies":[{"Type":"ELB","Protocol":6,"InternalPort":8080,"ExternalPort":80,"VIPs":["198.18.2.9"],`+
		`"ILB":true}]}`, &list)
	id := c.parse(list.ID)
	c.removeLater(hns.LoadBalancer, id)
	var lb schema.LoadBalancer
	c.query(hns.LoadBalancer, id, &lb)
	if len(lb.PortMappings) != 1 || lb.PortMappings[0].Flags != schema.LBILB ||
		!slices.Equal(lb.FrontendVIPs, []string{"198.18.2.9"}) {
		c.Errorf("v1 load balancer seen through v2: %+v", lb)
	}
	c.call("DELETE", "/policylists/"+list.ID, nil, nil)
	c.fails(c.api.Open(c.ctx(), hns.LoadBalancer, id), hresult.NotFound, "open after deletion")
}
