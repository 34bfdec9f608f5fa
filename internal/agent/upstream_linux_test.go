// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/mullion-k8s/mullion/internal/agent/netpolicy"
	"github.com/mullion-k8s/mullion/internal/agent/netpolicy/policytest"
	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/emul"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/netplane/apply"
	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
	"github.com/mullion-k8s/mullion/internal/netplane/netlab"
)

// TestUpstreamTruthTablesOnTheWire judges by packets what the agent makes of policies: ACLs, which the emulated HNS of
// two hosts of different builds turns into rules of nftables.
func TestUpstreamTruthTablesOnTheWire(t *testing.T) {
	for _, mode := range []NetworkMode{L2Bridge, VXLAN} {
		t.Run(string(mode), func(t *testing.T) { truthTables(t, mode) })
	}
}

func truthTables(t *testing.T, mode NetworkMode) {
	lab := netlab.NewLab(t, ipv6.Plan{})
	hosts := [2]*policyHost{newPolicyHost(t, lab, 17763), newPolicyHost(t, lab, 26100)}
	for i, h := range hosts {
		h.config.Network.Mode = mode
		if mode == VXLAN {
			h.overlay(t, lab, hosts[1-i])
		} else {
			h.bridge(t)
		}
	}
	w := policytest.Wire{Netns: map[string]string{},
		Places: policytest.Spread([2]netlab.Host{hosts[0].Host, hosts[1].Host})}
	for _, h := range hosts {
		for name, p := range w.Places {
			if p.Node == h.Name {
				w.Netns[name] = h.pod(t, p.Address)
			}
		}
	}
	w.Enforce = func(t *testing.T, c *netpolicy.Cluster) {
		for _, h := range hosts {
			if err := h.keeper.apply(t.Context(), netpolicy.Compile(c, h.Name), false); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.Judge(t)
}

// policyHost is an emulated host whose agent enforces policies.
type policyHost struct {
	netlab.Host
	hns     *emul.Service
	network schema.GUID
	keeper  *policyKeeper
	config  Config
}

func newPolicyHost(t *testing.T, lab *netlab.Lab, build int) *policyHost {
	t.Helper()
	h := &policyHost{Host: lab.Host(), config: testConfig()}
	dir := filepath.Join(lab.Dir, h.Name+"-state")
	plane, err := apply.New(apply.Config{NetnsDir: filepath.Join(dir, "namespaces"), Netns: h.Netns,
		Log: netlab.StrictLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plane.Close)
	h.hns, err = emul.Open(t.Context(), emul.Config{Dir: filepath.Join(dir, "hns"), DataPlane: plane,
		Version: emul.VersionOf(build), Log: netlab.StrictLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.hns.Close(); err != nil {
			t.Error(err)
		}
	})
	h.config.Node.Address = h.Address
	h.keeper = &policyKeeper{node: h.Name, hns: hnsClient{h.hns}, log: slog.New(slog.DiscardHandler),
		written: map[string]string{}, always: nodeAddresses(h.config, []netip.Prefix{h.Pods})}
	return h
}

// bridge makes the pods' network as the agent does.
func (h *policyHost) bridge(t *testing.T) {
	t.Helper()
	client := hnsClient{h.hns}
	if _, err := ensureNetwork(t.Context(), client, h.config, []netip.Prefix{h.Pods}); err != nil {
		t.Fatal(err)
	}
	made, err := client.networks(t.Context())
	if err != nil || len(made) != 1 {
		t.Fatal(made, err)
	}
	if h.network, err = schema.ParseGUID(made[0].ID); err != nil {
		t.Fatal(err)
	}
}

// overlay makes the pods' network as flanneld does, with the way to another host's pods.
func (h *policyHost) overlay(t *testing.T, lab *netlab.Lab, other *policyHost) {
	t.Helper()
	if err := fabric.OpenRouter(lab.Fabric.Plan().Namespace).SetPrefixes(t.Context(), h.Address, nil); err != nil {
		t.Fatal(err)
	}
	router := func(h *policyHost) string { return fmt.Sprintf("00-15-5D-FF-00-%02X", h.Address.As4()[3]) }
	doc := fmt.Sprintf(`{"Name":"flannel.4096","Type":"Overlay","SchemaVersion":{"Major":2},"Ipams":[{"Type":"Static",
	  "Subnets":[{"IpAddressPrefix":%q,"Policies":[{"Type":"VSID","Settings":{"IsolationId":4096}}],
	  "Routes":[{"NextHop":%q,"DestinationPrefix":"0.0.0.0/0"}]}]}],"Policies":[
	  {"Type":"DrMacAddress","Settings":{"Address":%q}},{"Type":"RemoteSubnetRoute","Settings":{"DestinationPrefix":%q,
	  "IsolationId":4096,"ProviderAddress":%q,"DistributedRouterMacAddress":%q}}]}`, h.Pods, h.Pods.Addr().Next(),
		router(h), other.Pods, other.Address, router(other))
	var err error
	if h.network, err = h.hns.Create(t.Context(), hns.Network, schema.GUID{}, schema.GUID{}, doc); err != nil {
		t.Fatal(err)
	}
}

// pod makes a pod with an endpoint as win-bridge makes it while the cluster has policies: nothing reaches it yet. It
// returns the pod's namespace.
func (h *policyHost) pod(t *testing.T, address netip.Addr) (netns string) {
	t.Helper()
	id, err := h.hns.CreateNamespace(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.hns.DeleteNamespace(context.Background(), id); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	policies := []any{}
	for _, p := range cniPolicies(h.config, false) {
		policies = append(policies, p.Value)
	}
	for _, a := range isolated(h.keeper.always) {
		policies = append(policies, hnPolicy{schema.ACLPolicy, a})
	}
	gateway := addressesOf(h.Pods).host
	if h.config.Network.Mode == VXLAN {
		gateway = addressesOf(h.Pods).gateway
	}
	doc, err := json.Marshal(map[string]any{
		"SchemaVersion":    map[string]any{"Major": 2, "Minor": 0},
		"IpConfigurations": []any{map[string]any{"IpAddress": address, "PrefixLength": h.Pods.Bits()}},
		"Routes": []any{map[string]any{
			"NextHop": gateway, "DestinationPrefix": "0.0.0.0/0"}},
		"Policies": policies,
	})
	if err != nil {
		t.Fatal(err)
	}
	endpoint, err := h.hns.Create(t.Context(), hns.Endpoint, h.network, schema.GUID{}, string(doc))
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := schema.ParseGUID(id)
	if err != nil {
		t.Fatal(err)
	}
	request := fmt.Sprintf(`{"ResourceType":"Endpoint","RequestType":"Add","Settings":{"EndpointId":"%s"}}`, endpoint)
	if err := h.hns.Modify(t.Context(), hns.Namespace, namespace, request); err != nil {
		t.Fatal(err)
	}
	return h.hns.NamespacePath(id)
}
