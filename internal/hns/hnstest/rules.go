// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package hnstest

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// rules returns the golden rules G3 and G5 to G14 of docs/internals/hns.md: each was
// found in the source of a client that crashes or corrupts something if it is
// broken. G1, G2, G4 and G15 are about the DLLs' pointers and about a server
// that is away; the tests of packages native, wire and emul have them.
func rules() []testCase {
	return []testCase{
		{name: "G3 empty list is a list", run: ruleEmptyList},
		{name: "G5 filter that matches nothing is not an error", run: ruleNoMatch},
		{name: "G6 empty filter value matches nothing", run: ruleEmptyFilterValue},
		{name: "G7 enumerate gives GUIDs, query ignores the filter", run: ruleEnumerate},
		{name: "G7 documents after an enumeration", run: ruleListed},
		{name: "G8 queries and settings of any version", run: ruleVersions},
		{name: "G9 numbers stay numbers", run: ruleNumbers},
		{name: "G10 arrays that clients index are never empty", run: ruleArrays},
		{name: "G11 strings are echoed verbatim", run: ruleEcho},
		{name: "G12 one store, two views", run: ruleTwoViews},
		{name: "G13 one letter case for GUIDs", run: ruleGUIDCase},
		{name: "G14 policy types compare without regard to case", run: rulePolicyCase},
	}
}

// Kinds lists all kinds of objects.
func Kinds() []hns.Kind {
	return []hns.Kind{hns.Network, hns.Endpoint, hns.Namespace, hns.LoadBalancer, hns.SDNRoute}
}

func ruleEmptyList(c *client) {
	for _, kind := range Kinds() {
		text, err := c.api.Enumerate(c.ctx(), kind, c.filter("ID", schema.NewGUID().String()))
		if err != nil || strings.TrimSpace(text) != "[]" {
			c.Errorf("enumerate %s: %q, %v, want []", kind, text, err)
		}
	}
}

func ruleNoMatch(c *client) {
	for _, kind := range Kinds() {
		for _, f := range []string{
			c.filter("ID", schema.NewGUID().String()), c.filter("ID", "no GUID"),
			c.filter("Name", prefix+"does not exist"), c.filter("VirtualNetwork", schema.NewGUID().String()),
		} {
			if ids := c.enumerate(kind, f); len(ids) != 0 {
				c.Errorf("enumerate %s %s: %v, want none", kind, f, ids)
			}
		}
	}
}

func ruleEmptyFilterValue(c *client) {
	n := c.bridge()
	e := c.endpoint(n, "", 0)
	c.namespace()
	c.create(hns.LoadBalancer, schema.GUID{}, balancerDoc("198.18.2.1", 80, e))
	for _, kind := range Kinds() {
		for _, key := range []string{"ID", "Name", "VirtualNetwork"} {
			if ids := c.enumerate(kind, c.filter(key, "")); len(ids) != 0 {
				c.Errorf("enumerate %s with an empty %s: %v; kube-proxy would delete the first", kind, key, ids)
			}
		}
	}
}

func ruleEnumerate(c *client) {
	n := c.bridge()
	e1, e2 := c.endpoint(n, "198.18.1.10", 0), c.endpoint(n, "198.18.1.11", 0)
	byNetwork := c.filter("VirtualNetwork", n.String())
	ids := c.enumerate(hns.Endpoint, byNetwork)
	if !slices.Equal(ids, []string{e1.String(), e2.String()}) {
		c.Errorf("endpoints of the network: %v, want %v in the order of creation", ids, []schema.GUID{e1, e2})
	}
	if got := c.enumerate(hns.Endpoint, c.filter("VirtualNetwork", n.String(), "ID", e2.String())); !slices.Equal(got,
		[]string{e2.String()}) {
		c.Errorf("two keys: %v, want the endpoint that matches both", got)
	}
	// A client queries each object with the string that it enumerated with.
	var doc schema.Endpoint
	text, err := c.api.Query(c.ctx(), hns.Endpoint, e2, c.filter("ID", e1.String()))
	if err != nil {
		c.Fatal(err)
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil || doc.ID != e2.String() {
		c.Errorf("query with a filter for another: %s, %v", text, err)
	}
}

// ruleCreated: clients query each object that they have created. They see it as it is now.
func ruleCreated(c *client, n schema.GUID) {
	var first, second schema.Endpoint
	e := c.endpoint(n, "198.18.1.12", 0)
	if text, again := c.query(hns.Endpoint, e, &first), c.query(hns.Endpoint, e, &second); text != again ||
		first.ID != e.String() {
		c.Errorf("created: %s, then %s", text, again)
	}
	other := c.endpoint(n, "198.18.1.13", 0)
	lb := c.create(hns.LoadBalancer, schema.GUID{}, balancerDoc("198.18.2.7", 80, e, other))
	if err := c.api.Delete(c.ctx(), hns.Endpoint, other); err != nil {
		c.Fatal(err)
	}
	var doc schema.LoadBalancer
	if c.query(hns.LoadBalancer, lb, &doc); !slices.Equal(doc.HostComputeEndpoints, []string{e.String()}) {
		c.Errorf("load balancer with endpoints %v after one was deleted", doc.HostComputeEndpoints)
	}
	c.fails(c.api.Open(c.ctx(), hns.Endpoint, other), hresult.EndpointNotFound, "open what was created and deleted")
	ids := c.enumerate(hns.Endpoint, c.filter("ID", e.String()))
	c.query(hns.Endpoint, e, &first)
	if err := c.api.Open(c.ctx(), hns.Endpoint, e); err != nil || len(ids) != 1 {
		c.Errorf("enumerate one, query it, open it: %v, %v", ids, err)
	}
	if err := c.api.Delete(c.ctx(), hns.Endpoint, e); err != nil {
		c.Fatal(err)
	}
	c.fails(c.api.Open(c.ctx(), hns.Endpoint, e), hresult.EndpointNotFound, "open what was queried and deleted")
}

// ruleListed: clients enumerate objects and query each. They see the same as without the enumeration, and their own
// later changes.
func ruleListed(c *client) {
	n := c.bridge()
	e1, e2 := c.endpoint(n, "198.18.1.10", 0), c.endpoint(n, "198.18.1.11", 0)
	query := c.filter("VirtualNetwork", n.String())
	document := func(id schema.GUID) string {
		c.Helper()
		text, err := c.api.Query(c.ctx(), hns.Endpoint, id, query)
		if err != nil {
			c.Fatal(err)
		}
		return text
	}
	alone := []string{document(e1), document(e2)}
	for range 2 {
		c.enumerate(hns.Endpoint, query)
		if got := []string{document(e1), document(e2)}; !slices.Equal(got, alone) {
			c.Errorf("after an enumeration %q, alone %q", got, alone)
		}
	}
	c.enumerate(hns.Endpoint, query)
	if got := document(e2); got != alone[1] {
		c.Errorf("out of order: %q, want %q", got, alone[1])
	}
	c.enumerate(hns.Endpoint, query)
	if err := c.api.Modify(c.ctx(), hns.Endpoint, e1, `{"ResourceType":"Policy","RequestType":"Add","Settings":{
	  "Policies":[{"Type":"ACL","Settings":{"Action":"Block","Direction":"In","Protocols":"6","Priority":200}}]}}`,
	); err != nil {
		c.Fatal(err)
	}
	if got := document(e1); !strings.Contains(got, "Block") {
		c.Errorf("after a change: %s", got)
	}
	ruleCreated(c, n)
	c.enumerate(hns.Endpoint, query)
	if err := c.api.Delete(c.ctx(), hns.Endpoint, e1); err != nil {
		c.Fatal(err)
	}
	if err := c.api.Open(c.ctx(), hns.Endpoint, e1); !isNotFound(err) {
		c.Errorf("open what was deleted: %v", err)
	}
}

func ruleVersions(c *client) {
	n := c.bridge()
	for _, q := range []string{"", "{}", `{"SchemaVersion":{"Major":0,"Minor":0}}`,
		`{"SchemaVersion":{"Major":99,"Minor":1},"Flags":1}`} {
		if _, err := c.api.Query(c.ctx(), hns.Network, n, q); err != nil {
			c.Errorf("query with %q: %v", q, err)
		}
		if ids := c.enumerate(hns.Network, q); !slices.Contains(ids, n.String()) {
			c.Errorf("enumerate with %q: %v, want %s among them", q, ids, n)
		}
	}
	c.namespace()
	// hnslib's TestV1Network passes a v1 document through HcnCreateNetwork.
	v1 := c.create(hns.Network, schema.GUID{}, schema.V1Network{
		Name: prefix + "v1", Type: "L2Bridge",
		Subnets: []schema.V1Subnet{{AddressPrefix: "198.18.3.0/24", GatewayAddress: "198.18.3.1"}},
	})
	var doc schema.Network
	c.query(hns.Network, v1, &doc)
	if len(doc.Ipams) == 0 || len(doc.Ipams[0].Subnets) == 0 ||
		doc.Ipams[0].Subnets[0].IPAddressPrefix != "198.18.3.0/24" {
		c.Errorf("network of a v1 document: %+v", doc)
	}
	e := c.create(hns.Endpoint, v1, schema.V1Endpoint{Name: prefix + "v1", VirtualNetwork: v1.String(),
		IPAddress: "198.18.3.9"})
	var ep schema.Endpoint
	c.query(hns.Endpoint, e, &ep)
	if len(ep.IPConfigurations) != 1 || ep.IPConfigurations[0].IPAddress != "198.18.3.9" {
		c.Errorf("endpoint of a v1 document: %+v", ep)
	}
}

// ruleNumbers reads the fields that Microsoft's schema page calls strings.
func ruleNumbers(c *client) {
	n := c.create(hns.Network, schema.GUID{}, schema.Network{
		Name: prefix + "flags", Type: schema.L2Bridge, Flags: schema.EnableNonPersistent, SchemaVersion: schema.V2(),
		Ipams: []schema.Ipam{
			{Subnets: []schema.Subnet{{IPAddressPrefix: "198.18.1.0/24",
				Routes: []schema.Route{{NextHop: "198.18.1.1", DestinationPrefix: "0.0.0.0/0"}}}}}},
	})
	e := c.endpoint(n, "192.0.2.1", schema.RemoteEndpoint)
	lb := balancerDoc("", 30080, e)
	lb.Flags, lb.PortMappings[0].Flags, lb.PortMappings[0].DistributionType = schema.DSR, 18, 2
	b := c.create(hns.LoadBalancer, schema.GUID{}, lb)
	ns := c.namespace()
	number := func(kind hns.Kind, id schema.GUID, want float64, path ...string) {
		c.Helper()
		var v any
		text := c.query(kind, id, &v)
		for _, key := range path {
			switch x := v.(type) {
			case map[string]any:
				v = x[key]
			case []any:
				v = x[0].(map[string]any)[key]
			}
		}
		if f, ok := v.(float64); !ok || want >= 0 && f != want {
			c.Errorf("%s %v is %#v, want the number %v, in %s", kind, path, v, want, text)
		}
	}
	number(hns.Network, n, 8, "Flags")
	number(hns.Endpoint, e, 1, "Flags")
	number(hns.LoadBalancer, b, 1, "Flags")
	for key, want := range map[string]float64{"Protocol": 6, "InternalPort": 8080, "ExternalPort": 30080,
		"DistributionType": 2, "Flags": 18} {
		number(hns.LoadBalancer, b, want, "PortMappings", key)
	}
	number(hns.Namespace, ns, -1, "NamespaceId")
	number(hns.Namespace, ns, 2, "SchemaVersion", "Major")
}

func ruleArrays(c *client) {
	n := c.bridge()
	var network schema.Network
	c.query(hns.Network, n, &network)
	if len(network.Ipams) == 0 || len(network.Ipams[0].Subnets) == 0 || len(network.Ipams[0].Subnets[0].Routes) == 0 {
		c.Errorf("network without a subnet or route: %+v", network)
	}
	for name, doc := range map[string]string{
		"as win-bridge without IPAM": `{"Name":"x","IpConfigurations":[{}],"Routes":[{"DestinationPrefix":"::/0"}],` +
			`"SchemaVersion":{"Major":2}}`,
		"nothing given": `{"SchemaVersion":{"Major":2}}`,
		"remote":        `{"Flags":1,"IpConfigurations":[{"IpAddress":"192.0.2.9"}],"SchemaVersion":{"Major":2}}`,
	} {
		var e schema.Endpoint
		c.query(hns.Endpoint, c.create(hns.Endpoint, n, doc), &e)
		if len(e.IPConfigurations) == 0 || e.IPConfigurations[0].IPAddress == "" || e.MacAddress == "" {
			c.Errorf("%s: endpoint without address: %+v", name, e)
		}
		if e.Flags&schema.RemoteEndpoint == 0 && (len(e.Routes) == 0 || e.Routes[0].NextHop == "") {
			c.Errorf("%s: local endpoint without route: %+v", name, e)
		}
	}
	e := c.endpoint(n, "", 0)
	doc := balancerDoc("198.18.2.2", 80, e)
	doc.PortMappings = nil
	if id, err := c.api.Create(c.ctx(), hns.LoadBalancer, schema.GUID{}, schema.GUID{}, c.json(doc)); err == nil {
		c.removeLater(hns.LoadBalancer, id)
		c.Error("a load balancer without a port mapping was made; clients index it")
	}
	// A route of the v1 API is not a load balancer.
	var list schema.V1PolicyList
	c.call("POST", "/policylists/", schema.V1PolicyList{
		References: []string{"/endpoints/" + e.String()},
		Policies: []json.RawMessage{json.RawMessage(`{"Type":"ROUTE","DestinationPrefix":"198.51.100.0/24",` +
			`"NextHop":"198.18.1.1","NeedEncap":true}`)},
	}, &list)
	c.removeLater(hns.SDNRoute, c.parse(list.ID))
	if slices.Contains(c.enumerate(hns.LoadBalancer, ""), list.ID) {
		c.Error("a ROUTE policy list is among the load balancers")
	}
}

func ruleEcho(c *client) {
	const name = `hnstest Name & <é€😀> "quoted"`
	n := c.create(hns.Network, schema.GUID{}, schema.Network{
		Name: name, Type: "l2BRIDGE", SchemaVersion: schema.V2(),
		Ipams: []schema.Ipam{{Type: "Static",
			Subnets: []schema.Subnet{{IPAddressPrefix: "198.18.1.128/25",
				Routes: []schema.Route{{NextHop: "198.18.1.129", DestinationPrefix: "0.0.0.0/0"}}}}}},
	})
	var network schema.Network
	c.query(hns.Network, n, &network)
	if network.Name != name || network.Ipams[0].Subnets[0].IPAddressPrefix != "198.18.1.128/25" {
		c.Errorf("network is %+v", network)
	}
	if network.Type != schema.L2Bridge {
		c.Errorf("type is %q; win-bridge compares with L2Bridge exactly", network.Type)
	}
	if ids := c.enumerate(hns.Network, c.filter("Name", name)); !slices.Equal(ids, []string{n.String()}) {
		c.Errorf("network by name: %v", ids)
	}
	settings := `{"Exceptions":["10.0.0.0/8"],"Unknown":{"a":[1,2.5,"x"]}}`
	e := c.endpoint(n, "198.18.1.200", 0, policy("OutBoundNAT", settings))
	var ep schema.Endpoint
	c.query(hns.Endpoint, e, &ep)
	if ep.IPConfigurations[0].IPAddress != "198.18.1.200" || len(ep.Policies) != 1 ||
		string(ep.Policies[0].Settings) != settings {
		c.Errorf("endpoint is %+v", ep)
	}
	lb := c.create(hns.LoadBalancer, schema.GUID{}, balancerDoc("2001:db8::1", 80, e))
	var b schema.LoadBalancer
	c.query(hns.LoadBalancer, lb, &b)
	if len(b.FrontendVIPs) != 1 || b.FrontendVIPs[0] != "2001:db8::1" {
		c.Errorf("load balancer is %+v; kube-proxy keys by the address's text", b)
	}
}

func ruleTwoViews(c *client) {
	n := c.bridge()
	var v1 schema.V1Network
	c.call("GET", "/networks/"+n.String(), nil, &v1)
	if v1.Name != prefix+"bridge" || v1.Type != "L2Bridge" || len(v1.Subnets) != 1 ||
		v1.Subnets[0].AddressPrefix != "198.18.1.0/24" || v1.Subnets[0].GatewayAddress != "198.18.1.1" {
		c.Errorf("v2 network seen through v1: %+v", v1)
	}
	var made schema.V1Endpoint
	c.call("POST", "/endpoints/", schema.V1Endpoint{
		Name:           prefix + "ep",
		VirtualNetwork: n.String(),
		IPAddress:      "198.18.1.20",
		DNSServerList:  "192.0.2.53,192.0.2.54",
	}, &made)
	id := c.parse(made.ID)
	c.removeLater(hns.Endpoint, id)
	var v2 schema.Endpoint
	c.query(hns.Endpoint, id, &v2)
	if v2.HostComputeNetwork != n.String() || v2.IPConfigurations[0].IPAddress != "198.18.1.20" ||
		!slices.Equal(v2.DNS.ServerList, []string{"192.0.2.53", "192.0.2.54"}) {
		c.Errorf("v1 endpoint seen through v2: %+v", v2)
	}
	e := c.endpoint(n, "198.18.1.21", 0, policy("PortMapping", `{"Protocol":6,"InternalPort":80,"ExternalPort":38080}`),
		policy("OutBoundNAT", `{"Exceptions":["10.0.0.0/8"]}`))
	var list []schema.V1Endpoint
	c.call("GET", "/endpoints/", nil, &list)
	i := slices.IndexFunc(list, func(x schema.V1Endpoint) bool { return x.ID == e.String() })
	if i < 0 || list[i].IPAddress != "198.18.1.21" || list[i].PrefixLength != 24 ||
		list[i].GatewayAddress != "198.18.1.1" || list[i].VirtualNetworkName != prefix+"bridge" {
		c.Fatalf("v2 endpoint among those of v1: %d %+v", i, list)
	}
	var flat []map[string]any
	for _, p := range list[i].Policies {
		var m map[string]any
		if err := json.Unmarshal(p, &m); err != nil {
			c.Fatal(err)
		}
		flat = append(flat, m)
	}
	if len(flat) != 2 || flat[0]["Type"] != "NAT" || flat[0]["Protocol"] != "TCP" || flat[1]["Type"] != "OutBoundNAT" ||
		flat[1]["ExceptionList"] == nil {
		c.Errorf("v1 policies: %v", flat)
	}
	b := c.create(hns.LoadBalancer, schema.GUID{}, balancerDoc("198.18.2.3", 80, e))
	var lists []schema.V1PolicyList
	c.call("GET", "/policylists/", nil, &lists)
	if !slices.ContainsFunc(lists, func(p schema.V1PolicyList) bool {
		return p.ID == b.String() && slices.Equal(p.References, []string{"/endpoints/" + e.String()})
	}) {
		c.Errorf("load balancer seen through v1: %+v", lists)
	}
}

func ruleGUIDCase(c *client) {
	n := c.bridge()
	upper := strings.ToUpper(n.String())
	doc := endpointDoc(n, "", 0)
	doc.HostComputeNetwork = upper
	e := c.create(hns.Endpoint, schema.GUID{}, doc)
	ns := c.namespace()
	if err := c.modify(hns.Namespace, ns, "Endpoint", "Add",
		schema.NamespaceEndpointRequest{EndpointID: strings.ToUpper(e.String())}); err != nil {
		c.Fatal(err)
	}
	b := c.create(hns.LoadBalancer, schema.GUID{}, schema.LoadBalancer{
		HostComputeEndpoints: []string{strings.ToUpper(e.String())}, SchemaVersion: schema.V2(),
		PortMappings: []schema.LBPortMapping{{Protocol: 6, InternalPort: 80, ExternalPort: 30081}},
	})
	var ep schema.Endpoint
	c.query(hns.Endpoint, e, &ep)
	var lb schema.LoadBalancer
	c.query(hns.LoadBalancer, b, &lb)
	for what, id := range map[string]string{
		"endpoint": ep.ID, "its network": ep.HostComputeNetwork, "its namespace": ep.HostComputeNamespace,
		"load balancer": lb.ID, "its endpoint": lb.HostComputeEndpoints[0],
	} {
		if !isLowerGUID(id) {
			c.Errorf("%s is %q, want 36 characters in lower case", what, id)
		}
	}
	for _, kind := range Kinds() {
		for _, id := range c.enumerate(kind, "") {
			if !isLowerGUID(id) {
				c.Errorf("%s %q, want 36 characters in lower case", kind, id)
			}
		}
	}
	if ids := c.enumerate(hns.Network, c.filter("ID", upper)); !slices.Equal(ids, []string{n.String()}) {
		c.Errorf("network by its GUID in upper case: %v", ids)
	}
}

func rulePolicyCase(c *client) {
	n := c.bridge()
	e := c.endpoint(n, "", 0, policy("SDNROUTE", `{"DestinationPrefix":"10.96.0.0/12","NeedEncap":true}`),
		policy("OutboundNAT", `{"Exceptions":["10.0.0.0/8"]}`))
	var doc schema.Endpoint
	c.query(hns.Endpoint, e, &doc)
	if len(doc.Policies) != 2 {
		c.Errorf("policies: %+v", doc.Policies)
	}
	remove := schema.PolicyRequest{Policies: []schema.Policy{policy("OUTBOUNDNAT", `{"Exceptions":["10.0.0.0/8"]}`)}}
	if err := c.modify(hns.Endpoint, e, schema.ResourcePolicy, schema.Remove, remove); err != nil {
		c.Fatal(err)
	}
	doc = schema.Endpoint{}
	c.query(hns.Endpoint, e, &doc)
	if len(doc.Policies) != 1 || !strings.EqualFold(doc.Policies[0].Type, "SDNRoute") {
		c.Errorf("policies after the removal: %+v", doc.Policies)
	}
}
