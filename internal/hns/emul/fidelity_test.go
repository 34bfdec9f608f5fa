// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package emul

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/hnstest"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	netplane "github.com/mullion-k8s/mullion/internal/netplane/compile"
	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// trial is a policy as a client sends it, for the list of docs/fidelity/hns.md. What becomes of it is tried, not
// written down.
type trial struct {
	policy, settings string
	network          schema.NetworkType // empty: L2Bridge
	instead          string             // settings of the policy that it is compared with; empty: there is none
	remark           string
}

func endpointTrials() []trial {
	const proxy = `{"InboundProxyPort":"9091","OutboundProxyPort":"9191","FilterTuple":{"Protocols":"6"},` +
		`"UserSID":"S-1-5-18"}`
	return []trial{
		{policy: schema.PortMappingPolicy, settings: `{"Protocol":6,"InternalPort":80,"ExternalPort":8088}`},
		{policy: schema.ACLPolicy, settings: `{"Action":"Block","Direction":"In","Protocols":"6","Priority":7}`,
			remark: "RuleType is ignored: host and switch have one list of rules"},
		{policy: schema.TierACLPolicy, settings: `{"Direction":"In","Order":1,"TierAclRules":[
			{"Id":"a","TierAclRuleAction":"Block","Priority":1}]}`},
		{policy: schema.QOSPolicy, settings: `{"MaximumOutgoingBandwidthInBytes":1000000}`,
			remark: "the lowest of several applies"},
		{policy: schema.OutBoundNATPolicy, settings: `{"Exceptions":["10.0.0.0/8"]}`,
			remark: "MaxPortPoolUsage is ignored"},
		{policy: schema.SDNRoutePolicy, settings: `{"DestinationPrefix":"10.99.0.0/16","NextHop":"10.244.1.9"}`,
			remark: "with a next hop"},
		{policy: schema.SDNRoutePolicy, settings: `{"DestinationPrefix":"10.99.0.0/16","NeedEncap":true}`,
			remark: "without a next hop: all packets pass through the host"},
		{policy: schema.EncapOverheadPolicy, settings: `{"Overhead":50}`},
		{policy: schema.ProviderAddressPolicy, settings: `{"ProviderAddress":"10.89.0.12"}`, network: schema.Overlay,
			remark: "RemoteSubnetRoute has the addresses of other hosts"},
		{policy: schema.L4ProxyPolicy, settings: `{"IP":"10.89.0.12","Port":"80","Protocol":6}`},
		{policy: schema.L4WFPProxyPolicy, settings: proxy,
			remark: "TCP and IPv4; a proxy cannot query a connection's destination"},
		{policy: schema.VLANPolicy, settings: `{"IsolationId":7}`, remark: "the adapters have no VLANs"},
		{policy: schema.L2DriverPolicy, settings: `{}`, remark: "a setting of the virtual switch"},
		{policy: schema.PortNamePolicy, settings: `{"Name":"port"}`, remark: "a setting of the virtual switch"},
		{policy: schema.IovPolicy, settings: `{"IovOffloadWeight":100}`, remark: "a setting of the network card"},
		{policy: schema.InterfaceConstraintPolicy, settings: `{"InterfaceAlias":"Ethernet 2"}`,
			remark: "a host has one adapter"},
		{policy: schema.EncryptionPolicy, settings: `{}`, remark: "a cloud's virtual switch encrypts"},
		{policy: schema.InterfaceParameters, settings: `{}`, remark: "not documented"},
	}
}

func networkTrials() []trial {
	remote := `{"DestinationPrefix":"10.244.2.0/24","IsolationId":4096,"ProviderAddress":"10.89.0.12",` +
		`"DistributedRouterMacAddress":"00-15-5D-22-22-22"}`
	return []trial{
		{policy: schema.RemoteSubnetRoutePolicy, settings: remote, network: schema.Overlay},
		{policy: schema.DrMacAddressPolicy, settings: `{"Address":"00-15-5D-00-00-02"}`, network: schema.Overlay,
			instead: `{"Address":"00-15-5D-00-00-01"}`},
		{policy: schema.VxlanPortPolicy, settings: `{"Port":4790}`, network: schema.Overlay},
		{policy: schema.NetworkACLPolicy, settings: `{"Action":"Block","Direction":"In","Priority":7}`},
		{policy: schema.SetPolicyPolicy, settings: `{"Id":"set","Name":"set","PolicyType":"IPSET",
			"Values":"10.244.1.7"}`, remark: "in the ACLs of the network's endpoints"},
		{policy: schema.HostRoutePolicy, settings: `{}`, network: schema.Overlay,
			remark: "a host always reaches its own endpoints"},
		{policy: schema.ProviderAddressPolicy, settings: `{"ProviderAddress":"10.89.0.12"}`, network: schema.Overlay,
			remark: "tunnels begin at the host's address"},
		{policy: schema.NetAdapterNamePolicy, settings: `{"NetworkAdapterName":"Ethernet 2"}`,
			remark: "a host has one adapter"},
		{policy: schema.InterfaceConstraintPolicy, settings: `{"InterfaceAlias":"Ethernet 2"}`,
			remark: "a host has one adapter"},
		{policy: schema.SourceMacAddressPolicy, settings: `{"SourceMacAddress":"00-15-5D-00-00-02"}`,
			remark: "packets leave with the host's MAC address"},
		{policy: schema.L4ProxyPolicy, settings: `{"IP":"10.89.0.12","Port":"80","Protocol":6}`},
		{policy: schema.AutomaticDNSPolicy, settings: `{"Enable":true}`,
			remark: "the container runtime writes a pod's DNS servers"},
		{policy: schema.VSwitchExtensionPolicy, settings: `{"ExtensionID":"x","Enable":true}`,
			remark: "a setting of the virtual switch"},
		{policy: schema.LayerConstraintPolicy, settings: `{"LayerId":"x"}`, remark: "a setting of the virtual switch"},
	}
}

func subnetTrials() []trial {
	return []trial{
		{policy: schema.VSIDPolicy, settings: `{"IsolationId":4097}`, network: schema.Overlay,
			instead: `{"IsolationId":4096}`},
		{policy: schema.VLANPolicy, settings: `{"IsolationId":7}`, remark: "the adapters have no VLANs"},
	}
}

// TestFidelityPage tries every policy on a host of the kind that it is for, and compares what the data plane is to do
// with it and without it. What it finds is the end of docs/fidelity/hns.md.
func TestFidelityPage(t *testing.T) {
	const begin = "<!-- generated by TestFidelityPage of internal/hns/emul: run it with -update -->\n"
	var b strings.Builder
	b.WriteString(begin + "\n## Policies\n\nA test compares the data plane with and without each policy. Other " +
		"types are refused with 0x803B000E.\n\n| policy | of | here | |\n|---|---|---|---|\n")
	for _, kind := range []struct {
		of     string
		known  []string
		trials []trial
	}{
		{"endpoints", schema.EndpointPolicies(), endpointTrials()},
		{"networks", schema.NetworkPolicies(), networkTrials()},
		{"subnets", schema.SubnetPolicies(), subnetTrials()},
	} {
		for _, policy := range kind.known {
			if !slices.ContainsFunc(kind.trials, func(x trial) bool { return x.policy == policy }) {
				t.Errorf("policy %s of %s is not tried", policy, kind.of)
			}
		}
		for _, x := range kind.trials {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", x.policy, kind.of, x.effect(t, kind.of), x.remark)
		}
	}
	page, err := os.ReadFile(testenv.Repo("docs", "fidelity", "hns.md"))
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := strings.Cut(string(page), begin)
	if !found {
		t.Fatalf("the page has no line %q", begin)
	}
	testenv.Golden(t, filepath.Join("..", "..", "..", "..", "docs", "fidelity", "hns.md"), []byte(head+b.String()))
}

// effect says what the policy does.
func (x trial) effect(t *testing.T, of string) string {
	t.Helper()
	with, err := x.plan(t, of, x.settings)
	if refused, ok := errors.AsType[*hresult.Error](err); ok {
		return fmt.Sprintf("refused with 0x%08X", uint32(refused.Code))
	}
	without, err2 := x.plan(t, of, x.instead)
	if err := errors.Join(err, err2); err != nil {
		t.Fatalf("%s of %s: %v", x.policy, of, err)
	}
	if with == without {
		return "stored, no effect"
	}
	return "**carried out**"
}

// plan returns what the data plane is to do on a host whose only pod, network or subnet has the policy, or no policy if
// the settings are empty.
func (x trial) plan(t *testing.T, of, settings string) (string, error) {
	t.Helper()
	policies := map[string][]schema.Policy{
		"endpoints": {{Type: schema.ACLPolicy,
			Settings: json.RawMessage(`{"Action":"Block","Direction":"Out","RemoteAddresses":"set","Priority":9}`)}},
	}
	typ := cmp.Or(x.network, schema.L2Bridge)
	if typ == schema.Overlay {
		if x.policy != schema.VSIDPolicy {
			policies["subnets"] = []schema.Policy{{Type: schema.VSIDPolicy,
				Settings: json.RawMessage(`{"IsolationId":4096}`)}}
		}
		if x.policy != schema.DrMacAddressPolicy {
			policies["networks"] = []schema.Policy{{Type: schema.DrMacAddressPolicy,
				Settings: json.RawMessage(`{"Address":"00-15-5D-00-00-01"}`)}}
		}
	}
	if settings != "" {
		policies[of] = append(policies[of], schema.Policy{Type: x.policy, Settings: json.RawMessage(settings)})
	}
	plane := &hnstest.Plane{}
	s := openTest(t, t.TempDir(), func(c *Config) { c.DataPlane = plane })
	id := func(last byte) schema.GUID { return schema.GUID{15: last} }
	create := func(kind hns.Kind, network, id schema.GUID, doc any) error {
		text, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Create(t.Context(), kind, network, id, string(text))
		return err
	}
	if err := create(hns.Network, schema.GUID{}, id(1), schema.Network{
		Type: typ, Policies: policies["networks"], SchemaVersion: schema.V2(),
		Ipams: []schema.Ipam{{Subnets: []schema.Subnet{{
			IPAddressPrefix: "10.244.1.0/24", Policies: policies["subnets"],
			Routes: []schema.Route{{NextHop: "10.244.1.1", DestinationPrefix: "0.0.0.0/0"}},
		}}}},
	}); err != nil {
		return "", err
	}
	if err := create(hns.Namespace, schema.GUID{}, id(2), schema.Namespace{SchemaVersion: schema.V2()}); err != nil {
		return "", err
	}
	if err := create(hns.Endpoint, id(1), id(3), schema.Endpoint{
		Policies: policies["endpoints"], MacAddress: "00-15-5D-00-00-05", HostComputeNamespace: id(2).String(),
		IPConfigurations: []schema.IPConfig{{IPAddress: "10.244.1.5", PrefixLength: 24}}, SchemaVersion: schema.V2(),
	}); err != nil {
		return "", err
	}
	plan, err := netplane.Compile(plane.Host(), nil)
	if err != nil {
		return "", err
	}
	return plan.String(), nil
}
