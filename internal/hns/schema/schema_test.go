// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package schema

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestGUID(t *testing.T) {
	const text = "0be07c06-1234-5678-9abc-def012345678"
	for _, s := range []string{text, strings.ToUpper(text), "{" + text + "}"} {
		g, err := ParseGUID(s)
		if err != nil || g.String() != text || g.Windows().Windows() != g {
			t.Errorf("%s: %s, %v", s, g, err)
		}
		// The first three groups are little-endian in memory.
		if w := g.Windows(); w[0] != 0x06 || w[3] != 0x0b || w[4] != 0x34 || w[6] != 0x78 || w[8] != 0x9a {
			t.Errorf("%s in memory: % x", s, w)
		}
	}
	for _, s := range []string{"", text[:35], text + "0", strings.Replace(text, "-", "_", 1),
		strings.Replace(text, "0", "g", 1), "{" + text} {
		if g, err := ParseGUID(s); err == nil || CanonicalGUID(s) != "" {
			t.Errorf("%q: %s", s, g)
		}
	}
	if a, b := NewGUID(), NewGUID(); a == b || a.IsZero() || a.String()[14] != '4' {
		t.Errorf("new GUIDs %s, %s", a, b)
	}
}

// TestRealAnswer reads what a real node answered (kubernetes/kubernetes issue
// texts), and writes the same fields.
func TestRealAnswer(t *testing.T) {
	const real = `{"ID":"0be07c06-0000-0000-0000-000000000000",` +
		`"HostComputeEndpoints":["fd6bec0f-0000-0000-0000-000000000000"],"SourceVIP":"10.10.253.194",` +
		`"PortMappings":[{"Protocol":6,"InternalPort":80,"ExternalPort":31416,"Flags":2}],"SchemaVersion":{"Major":2,` +
		`"Minor":0}}`
	var lb LoadBalancer
	if err := json.Unmarshal([]byte(real), &lb); err != nil {
		t.Fatal(err)
	}
	if got, err := json.Marshal(lb); err != nil || string(got) != real {
		t.Errorf("%s, %v, want %s", got, err, real)
	}
}

// TestClientNoise reads what the Go clients add to each document.
func TestClientNoise(t *testing.T) {
	var e Endpoint
	err := json.Unmarshal([]byte(`{"hostcomputenetwork":"n","IpConfigurations":[{"IpAddress":"10.0.0.1"}],"Dns":{},`+
		`"MacAddress":"02-11-0a-f4-02-07","Flags":1,"Health":{"Extra":{}},"SchemaVersion":{"Major":2,"Minor":0}}`), &e)
	if err != nil || e.HostComputeNetwork != "n" || e.Flags != RemoteEndpoint || !e.DNS.IsZero() {
		t.Errorf("%+v, %v", e, err)
	}
}

// FuzzDocuments: what can be read can be written, and reads the same again.
func FuzzDocuments(f *testing.F) {
	f.Add(`{"Name":"cbr0","Type":"L2Bridge","Ipams":[{"Type":"Static","Subnets":[{"IpAddressPrefix":"10.244.1.0/24",` +
		`"Routes":[{"NextHop":"10.244.1.1","DestinationPrefix":"0.0.0.0/0"}]}]}],"Flags":8,` +
		`"SchemaVersion":{"Major":2,"Minor":0}}`)
	f.Add(`{"Type":"NAT","Name":"n","MacPools":[{"StartMacAddress":"00-15-5D-52-C0-00",` +
		`"EndMacAddress":"00-15-5D-52-CF-FF"}],"Subnets":[{"AddressPrefix":"192.168.100.0/24",` +
		`"GatewayAddress":"192.168.100.1"}]}`)
	f.Add(`{"Policies":[{"Type":"ACL","Settings":{"a":1e3}}],"Resources":[{"Type":"Endpoint","Data":{"Id":"x"}}],` +
		`"NamespaceId":7}`)
	f.Add(`{"PortMappings":[{"Protocol":6,"InternalPort":80}],"HostComputeEndpoints":["x"],` +
		`"Setting":[{"NeedEncap":true}]}`)
	f.Add(`{"SchemaVersion":{"Major":2},"Filter":"{\"ID\":\"\"}","ResourceType":"Policy","RequestType":"Add",` +
		`"Settings":{"Policies":null}}`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, empty := range []any{
			Network{}, Endpoint{}, Namespace{}, LoadBalancer{}, SDNRoute{}, Query{}, ModifyRequest{}, Response{},
			ErrorRecord{}, V1Network{}, V1Endpoint{}, V1Namespace{}, V1PolicyList{}, V1AttachRequest{},
		} {
			v := reflect.New(reflect.TypeOf(empty))
			if json.Unmarshal([]byte(text), v.Interface()) != nil {
				continue
			}
			out, err := json.Marshal(v.Interface())
			if err != nil {
				t.Fatalf("%T: write what was read: %v", empty, err)
			}
			again := reflect.New(reflect.TypeOf(empty))
			if err := json.Unmarshal(out, again.Interface()); err != nil {
				t.Fatalf("%T: read %s: %v", empty, out, err)
			}
			// Absent and empty lists are one; a second writing settles that.
			if second, err := json.Marshal(again.Interface()); err != nil || string(second) != string(out) {
				t.Fatalf("%T: %s became %s, %v", empty, out, second, err)
			}
		}
	})
}
