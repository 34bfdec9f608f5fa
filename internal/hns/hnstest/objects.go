// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package hnstest

import (
	"slices"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// networkCases lists the required behaviour of networks.
// Length: a table of small cases.
func networkCases() []testCase {
	create := func(c *client, doc string) error {
		id, err := c.api.Create(c.ctx(), hns.Network, schema.GUID{}, schema.GUID{}, doc)
		if err == nil {
			c.removeLater(hns.Network, id)
		}
		return err
	}
	return []testCase{
		{name: "network unknown", run: func(c *client) {
			id := schema.NewGUID()
			c.fails(c.api.Open(c.ctx(), hns.Network, id), hresult.NetworkNotFound, "open")
			c.fails(c.api.Delete(c.ctx(), hns.Network, id), hresult.NetworkNotFound, "delete")
			_, err := c.api.Query(c.ctx(), hns.Network, id, "")
			c.fails(err, hresult.NetworkNotFound, "query")
			c.fails(c.modify(hns.Network, id, "Policy", "Add", schema.PolicyRequest{}),
				hresult.NetworkNotFound, "modify")
		}},
		{name: "network of an unknown type", run: func(c *client) {
			c.fails(create(c, `{"Name":"hnstest-x","Type":"Bridge","SchemaVersion":{"Major":2}}`),
				hresult.InvalidNetworkType, "create")
		}},
		{name: "network that is no JSON", run: func(c *client) {
			c.fails(create(c, `{"Name":`), hresult.InvalidJSON, "create")
			c.fails(create(c, `{"Name":7,"SchemaVersion":{"Major":2}}`), hresult.InvalidJSON, "create")
		}},
		{name: "network with a bad subnet", run: func(c *client) {
			c.fails(create(c, `{"Type":"L2Bridge","Ipams":[{"Subnets":[{"IpAddressPrefix":"198.18.1.0"}]}],`+
				`"SchemaVersion":{"Major":2}}`), hresult.InvalidPrefix, "create")
		}},
		{name: "network of each type", run: func(c *client) {
			for i, typ := range schema.NetworkTypes() {
				p := "198.18." + string(rune('1'+i)) + "."
				n := c.create(hns.Network, schema.GUID{}, schema.Network{
					Name: prefix + string(typ), Type: typ, SchemaVersion: schema.V2(),
					Ipams: []schema.Ipam{{Type: "Static", Subnets: []schema.Subnet{{
						IPAddressPrefix: p + "0/24",
						Routes:          []schema.Route{{NextHop: p + "1", DestinationPrefix: "0.0.0.0/0"}},
						Policies:        []schema.Policy{policy("VSID", `{"IsolationId":5000}`)},
					}}}},
				})
				var doc schema.Network
				c.query(hns.Network, n, &doc)
				if doc.Type != typ || doc.ID != n.String() {
					c.Errorf("network of type %s is %+v", typ, doc)
				}
			}
		}},
		{name: "overlay has what flannel reads", run: func(c *client) {
			n := c.create(hns.Network, schema.GUID{}, `{"Name":"hnstest-vxlan","Type":"Overlay","Policies":[],"Flags":8,
			  "SchemaVersion":{"Major":2,"Minor":0},
				"Ipams":[{"Type":"Static","Subnets":[{"IpAddressPrefix":"198.18.9.0/24",
				  "Policies":[{"Type":"VSID","Settings":{"IsolationId":4096}}],
				"Routes":[{"NextHop":"198.18.9.1","DestinationPrefix":"0.0.0.0/0"}]}]}]}`)
			var doc schema.Network
			c.query(hns.Network, n, &doc)
			for _, name := range []string{"ProviderAddress", "DrMacAddress"} {
				if !slices.ContainsFunc(doc.Policies, func(p schema.Policy) bool { return p.Type == name }) {
					c.Errorf("no policy %s in %+v", name, doc.Policies)
				}
			}
			route := policy("RemoteSubnetRoute",
				`{"DestinationPrefix":"198.18.10.0/24","IsolationId":4096,"ProviderAddress":"192.0.2.6",`+
					`"DistributedRouterMacAddress":"00:15:5d:01:02:03"}`)
			if err := c.modify(hns.Network, n, "Policy", "Add",
				schema.PolicyRequest{Policies: []schema.Policy{route, policy("HostRoute", "{}")}}); err != nil {
				c.Fatal(err)
			}
			c.query(hns.Network, n, &doc)
			count := len(doc.Policies)
			if !slices.ContainsFunc(doc.Policies, func(p schema.Policy) bool { return p.Type == "HostRoute" }) {
				c.Errorf("policies %+v", doc.Policies)
			}
			route.Settings = []byte(`{"DestinationPrefix":"198.18.10.0/24"}`)
			if err := c.modify(hns.Network, n, "Policy", "Remove",
				schema.PolicyRequest{Policies: []schema.Policy{route}}); err != nil {
				c.Fatal(err)
			}
			if c.query(hns.Network, n, &doc); len(doc.Policies) != count-1 {
				c.Errorf("after the removal of the route: %+v", doc.Policies)
			}
		}},
		{name: "network takes its endpoints along", run: func(c *client) {
			n := c.bridge()
			e := c.endpoint(n, "", 0)
			if err := c.api.Delete(c.ctx(), hns.Network, n); err != nil {
				c.Fatal(err)
			}
			c.fails(c.api.Open(c.ctx(), hns.Endpoint, e), hresult.EndpointNotFound, "open endpoint")
		}},
	}
}

func endpointCases() []testCase {
	return []testCase{
		{name: "endpoint unknown", run: func(c *client) {
			id := schema.NewGUID()
			c.fails(c.api.Open(c.ctx(), hns.Endpoint, id), hresult.EndpointNotFound, "open")
			_, err := c.api.Query(c.ctx(), hns.Endpoint, id, "")
			c.fails(err, hresult.EndpointNotFound, "query")
		}},
		{name: "endpoint deleted twice", diverges: "win-bridge takes any error of the deletion as fatal",
			run: func(c *client) {
				if err := c.api.Delete(c.ctx(), hns.Endpoint, schema.NewGUID()); err != nil {
					c.Error(err)
				}
			}},
		{name: "endpoint on an unknown network", run: func(c *client) {
			_, err := c.api.Create(c.ctx(), hns.Endpoint, schema.NewGUID(), schema.GUID{},
				`{"SchemaVersion":{"Major":2}}`)
			c.fails(err, hresult.NetworkNotFound, "create")
		}},
		{name: "endpoint address", run: endpointAddress},
		{name: "endpoint names need not differ", run: func(c *client) {
			n := c.bridge()
			a, b := c.endpoint(n, "", 0), c.endpoint(n, "", 0)
			if ids := c.enumerate(hns.Endpoint, c.filter("Name", prefix+"endpoint")); !slices.Equal(ids,
				[]string{a.String(), b.String()}) {
				c.Errorf("by name: %v, want both, the older first", ids)
			}
		}},
		{name: "endpoint port taken", run: func(c *client) {
			n := c.bridge()
			m := policy("PortMapping", `{"Protocol":17,"InternalPort":45678,"ExternalPort":56789}`)
			c.endpoint(n, "", 0, m)
			id, err := c.api.Create(c.ctx(), hns.Endpoint, n, schema.GUID{}, c.json(endpointDoc(n, "", 0, m)))
			if err == nil {
				c.removeLater(hns.Endpoint, id)
			}
			c.fails(err, hresult.PortAlreadyExists, "create with the same port")
			c.endpoint(n, "", 0, policy("PortMapping", `{"Protocol":6,"InternalPort":45678,"ExternalPort":56789}`))
		}},
		{name: "endpoint policies", run: endpointPolicies},
		{name: "remote endpoint", run: func(c *client) {
			n := c.bridge()
			e := c.create(hns.Endpoint, n,
				`{"IpConfigurations":[{"IpAddress":"192.0.2.77"}],"MacAddress":"02-11-c0-00-02-4d","Flags":1,`+
					`"SchemaVersion":{"Major":2,"Minor":0}}`)
			ns := c.namespace()
			if err := c.attach(ns, e, schema.Add); err == nil {
				c.Error("a remote endpoint was attached to a namespace")
			}
			// A pod may get the address of a remote endpoint that kube-proxy has not
			// removed yet.
			c.endpoint(n, "198.18.1.50", schema.RemoteEndpoint)
			c.endpoint(n, "198.18.1.50", 0)
		}},
	}
}

func endpointAddress(c *client) {
	n := c.bridge()
	var doc schema.Endpoint
	c.query(hns.Endpoint, c.endpoint(n, "198.18.1.30", 0), &doc)
	if len(doc.IPConfigurations) != 1 || doc.IPConfigurations[0].PrefixLength != 24 {
		c.Errorf("addresses %+v, want the subnet's prefix length", doc.IPConfigurations)
	}
	seen := map[string]bool{}
	for range 5 {
		var e schema.Endpoint
		c.query(hns.Endpoint, c.endpoint(n, "", 0), &e)
		a := e.IPConfigurations[0].IPAddress
		if seen[a] || seen[e.MacAddress] || a == "198.18.1.30" || a == "198.18.1.1" || a == "198.18.1.0" {
			c.Errorf("address %s %s was given out before or is reserved", a, e.MacAddress)
		}
		seen[a], seen[e.MacAddress] = true, true
	}
	for address, want := range map[string]hresult.Code{
		"198.18.1.30":   hresult.ObjectAlreadyExists,
		"198.18.1.0":    hresult.AddrInvalidOrReserved,
		"198.18.1.1":    hresult.AddrInvalidOrReserved,
		"203.0.113.1":   hresult.AddrInvalidOrReserved,
		"198.18.1.999":  hresult.InvalidIP,
		"198.18.1.5/24": hresult.InvalidIP,
	} {
		id, err := c.api.Create(c.ctx(), hns.Endpoint, n, schema.GUID{}, c.json(endpointDoc(n, address, 0)))
		if err == nil {
			c.removeLater(hns.Endpoint, id)
		}
		c.fails(err, want, "create with "+address)
	}
}

func endpointPolicies(c *client) {
	n := c.bridge()
	e := c.endpoint(n, "", 0, policy("OutBoundNAT", `{"Exceptions":["10.0.0.0/8"]}`))
	count := func(want int, what string) {
		c.Helper()
		var doc schema.Endpoint
		if c.query(hns.Endpoint, e, &doc); len(doc.Policies) != want {
			c.Errorf("%s: %d policies, want %d: %+v", what, len(doc.Policies), want, doc.Policies)
		}
	}
	acl := func(direction string) schema.Policy {
		return policy("ACL", `{"Protocols":"6","Action":"Allow","Direction":"`+direction+
			`","LocalPorts":"80,8080-8090","Priority":200}`)
	}
	change := func(request schema.RequestType, policies ...schema.Policy) {
		c.Helper()
		if err := c.modify(hns.Endpoint, e, schema.ResourcePolicy, request,
			schema.PolicyRequest{Policies: policies}); err != nil {
			c.Fatal(err)
		}
	}
	change(schema.Add, acl("In"), acl("Out"))
	count(3, "added")
	change(schema.Update, acl("In"))
	count(2, "updated: only the types in the request are replaced")
	change(schema.Remove, acl("In"))
	count(1, "removed")
	for what, bad := range map[string]schema.Policy{
		"no such type": policy("Firewall", `{}`), "bad settings": policy("ACL", `{"Priority":"high"}`),
	} {
		err := c.modify(hns.Endpoint, e, schema.ResourcePolicy, schema.Add,
			schema.PolicyRequest{Policies: []schema.Policy{bad}})
		if !hresult.Of(err).Failed() {
			c.Errorf("%s: accepted", what)
		}
	}
	count(1, "after refused changes")
}

func namespaceCases() []testCase {
	return []testCase{
		{name: "namespace unknown", run: func(c *client) {
			id := schema.NewGUID()
			c.fails(c.api.Open(c.ctx(), hns.Namespace, id), hresult.NotFound, "open")
			c.fails(c.api.Delete(c.ctx(), hns.Namespace, id), hresult.NotFound, "delete")
		}},
		{name: "namespace of the host", run: func(c *client) {
			found := false
			for _, id := range c.enumerate(hns.Namespace, "") {
				var doc schema.Namespace
				c.query(hns.Namespace, c.parse(id), &doc)
				found = found || doc.Type == schema.HostDefault && doc.NamespaceID == 1
			}
			if !found {
				c.Error("no namespace of type HostDefault with compartment 1")
			}
		}},
		{name: "namespace of each type", run: func(c *client) {
			for _, typ := range schema.NamespaceTypes() {
				ns := c.create(hns.Namespace, schema.GUID{},
					schema.Namespace{Type: typ, NamespaceID: 5, SchemaVersion: schema.V2()})
				var doc schema.Namespace
				c.query(hns.Namespace, ns, &doc)
				if doc.ID != ns.String() || doc.Type != typ || doc.NamespaceID == 0 {
					c.Errorf("namespace of type %s: %+v", typ, doc)
				}
			}
		}},
		{name: "namespace attach and detach", run: namespaceAttach},
		{name: "namespace takes its endpoints out when it goes", run: func(c *client) {
			n, ns := c.bridge(), c.namespace()
			e := c.endpoint(n, "", 0)
			if err := c.attach(ns, e, schema.Add); err != nil {
				c.Fatal(err)
			}
			if err := c.api.Delete(c.ctx(), hns.Namespace, ns); err != nil {
				c.Fatal(err)
			}
			var doc schema.Endpoint
			if c.query(hns.Endpoint, e, &doc); doc.HostComputeNamespace != "" {
				c.Errorf("endpoint is still in namespace %q", doc.HostComputeNamespace)
			}
		}},
		{name: "namespace containers", run: func(c *client) {
			ns := c.namespace()
			for _, id := range []string{"sandbox-1", "sandbox-1", "app"} {
				if err := c.modify(hns.Namespace, ns, schema.ResourceContainer, schema.Add,
					schema.NamespaceContainerRequest{ContainerID: id}); err != nil {
					c.Fatal(err)
				}
			}
			var doc schema.Namespace
			if c.query(hns.Namespace, ns, &doc); len(doc.Resources) != 2 || doc.Resources[0].Type != "Container" {
				c.Errorf("resources %+v", doc.Resources)
			}
		}},
	}
}

func namespaceAttach(c *client) {
	n, ns, other := c.bridge(), c.namespace(), c.namespace()
	e := c.endpoint(n, "", 0)
	var doc schema.Endpoint
	if c.query(hns.Endpoint, e, &doc); doc.HostComputeNamespace != "" {
		c.Errorf("a new endpoint is in namespace %q", doc.HostComputeNamespace)
	}
	// win-bridge's ADD may be repeated.
	for range 2 {
		if err := c.attach(ns, e, schema.Add); err != nil {
			c.Fatal(err)
		}
	}
	c.fails(c.attach(other, e, schema.Add), hresult.EndpointNamespaceAlreadyExists, "attach to a second namespace")
	c.query(hns.Endpoint, e, &doc)
	var in schema.Namespace
	c.query(hns.Namespace, ns, &in)
	if doc.HostComputeNamespace != ns.String() || len(in.Resources) != 1 || in.Resources[0].Type != "Endpoint" {
		c.Errorf("after the attach: endpoint in %q, namespace has %+v", doc.HostComputeNamespace, in.Resources)
	}
	c.fails(c.attach(ns, schema.NewGUID(), schema.Add), hresult.EndpointNotFound, "attach an unknown endpoint")
	c.fails(c.attach(schema.NewGUID(), e, schema.Add), hresult.NotFound, "attach to an unknown namespace")
	for range 2 {
		if err := c.attach(ns, e, schema.Remove); err != nil {
			c.Fatal(err)
		}
	}
	doc, in = schema.Endpoint{}, schema.Namespace{}
	c.query(hns.Endpoint, e, &doc)
	if c.query(hns.Namespace, ns, &in); doc.HostComputeNamespace != "" || len(in.Resources) != 0 {
		c.Errorf("after the detach: endpoint in %q, namespace has %+v", doc.HostComputeNamespace, in.Resources)
	}
}
