// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/agent/netpolicy"
	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

func prefixes(list ...string) (out []netip.Prefix) {
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func TestACLs(t *testing.T) {
	node := []netip.Addr{netip.MustParseAddr("10.89.0.10"), netip.MustParseAddr("10.244.1.1")}
	var many []netip.Prefix
	for i := range aclAddresses + 1 {
		many = append(many, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 32))
	}
	var text strings.Builder
	for _, tt := range []struct {
		name    string
		in, out *netpolicy.Direction
	}{
		{"open", nil, nil},
		{"deny-all", &netpolicy.Direction{}, &netpolicy.Direction{}},
		{"allow", &netpolicy.Direction{Allow: []netpolicy.Rule{
			{Peers: prefixes("10.244.2.7/32", "10.0.0.0/9", "fd00::/8"),
				Ports: []netpolicy.Ports{{Protocol: "SCTP", First: 1, Last: 2}, {Protocol: "TCP", First: 80, Last: 80},
					{Protocol: "TCP", First: 8000, Last: 8010}, {Protocol: "UDP", First: 0, Last: 65535}}},
			{Ports: []netpolicy.Ports{{Protocol: "SCTP", First: 1, Last: 2}}},
			{Peers: prefixes("fd00::/8")},
		}}, &netpolicy.Direction{Allow: []netpolicy.Rule{{},
			{Ports: []netpolicy.Ports{{Protocol: "UDP", First: 53, Last: 53}}}}}},
		{"a long list", &netpolicy.Direction{Allow: []netpolicy.Rule{{Peers: many}}}, nil},
	} {
		fmt.Fprintf(&text, "-- %s --\n", tt.name)
		own := []netip.Addr{netip.MustParseAddr("10.244.1.5")}
		e := netpolicy.Endpoint{Addresses: own, Ingress: tt.in, Egress: tt.out}
		for _, a := range describeACLs(e, node) {
			if len(a.RemoteAddresses) > 200 {
				a.RemoteAddresses = fmt.Sprint(strings.Count(a.RemoteAddresses, ",")+1, " addresses")
			}
			doc, err := json.Marshal(a)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&text, "%s\n", doc)
		}
	}
	testenv.Golden(t, "acls.txtar", []byte(text.String()))
}

// TestForeignACLs: the agent neither removes nor repeats what it did not write.
func TestForeignACLs(t *testing.T) {
	want := isolated(nil)
	policy := func(kind, settings string) schema.Policy {
		return schema.Policy{Type: kind, Settings: json.RawMessage(settings)}
	}
	ours, err := aclPolicy(want[0])
	if err != nil {
		t.Fatal(err)
	}
	have := []schema.Policy{
		policy("OutBoundNAT", `{"Exceptions":["10.0.0.0/8"]}`),
		policy("ACL", `{"Action":"Block","Direction":"In","Priority":7}`),
		policy("ACL", `{"Id":"azure-acl-1","Action":"Allow","Direction":"Out","Priority":8}`),
		policy("acl", `{"Id":"mullion-old","Action":"Allow","Direction":"Out","Priority":9}`),
		ours,
	}
	add, remove, err := diffACLs(have, want)
	if err != nil || len(add) != len(want)-1 || len(remove) != 1 ||
		!strings.Contains(string(remove[0].Settings), "old") {
		t.Errorf("add %v, remove %v, %v", add, remove, err)
	}
	if _, _, err := diffACLs([]schema.Policy{policy("ACL", `{"Priority":"x"}`)}, want); err == nil {
		t.Error("an ACL that cannot be read is taken for nothing")
	}
}

// acls lists the ACLs of an endpoint in short.
func (r *rig) acls(id schema.GUID) string {
	r.t.Helper()
	text, err := r.hns.Query(context.Background(), hns.Endpoint, id, "")
	if err != nil {
		r.t.Fatal(err)
	}
	var e schema.Endpoint
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for _, p := range e.Policies {
		var s schema.ACLSetting
		if err := json.Unmarshal(p.Settings, &s); err != nil {
			r.t.Fatal(err)
		}
		if p.Type == schema.ACLPolicy {
			out = append(out, strings.TrimSpace(fmt.Sprint(s.Direction, " ", s.Action, " ", s.RemoteAddresses)))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// TestPoliciesAreEnforced follows an endpoint from its creation under a policy to the
// end of the policy, with the API server away and the agent replaced in between.
func TestPoliciesAreEnforced(t *testing.T) {
	const (
		denyAll = `{"metadata":{"namespace":"x","name":"deny"},"spec":{"podSelector":{},"policyTypes":["Ingress"]}}`
		pod     = `{"metadata":{"namespace":"x","name":"p"},"spec":{"nodeName":"node-1"},` +
			`"status":{"podIPs":[{"ip":"10.244.3.7"}]}}`
		denied  = "In Allow 10.89.0.11/32,10.244.3.1/32,10.244.3.2/32,10.244.3.7/32; In Block"
		foreign = "Out Block 192.0.2.1"
	)
	r := newRig(t)
	r.cfg.Network.EnforcePolicies = true
	r.restartAgent()
	r.api.setNode("10.244.3.0/24", true)
	ctx, stop := context.WithCancel(t.Context())
	r.ctx = ctx
	defer func() { stop(); r.agent.background.Wait() }()
	until := func(what string, ok func() bool) {
		t.Helper()
		testenv.Eventually(t, what, func() error {
			r.passes(1)
			if !ok() {
				return errors.New("not yet: " + r.agent.status.Message)
			}
			return nil
		})
	}
	until("the agent waits for the policies", func() bool {
		return strings.Contains(r.agent.status.Message, "waiting to read the cluster's NetworkPolicies")
	})
	if r.exists(cniConf) {
		t.Error("pods can start before the policies are known")
	}
	r.api.setList("pods", "")
	until("no policies, no ACLs", func() bool { return r.exists(cniConf) })
	if strings.Contains(r.read(cniConf), aclPrefix) {
		t.Error("endpoints begin isolated in a cluster without policies")
	}
	r.api.setList("networkpolicies", denyAll)
	until("endpoints begin isolated", func() bool { return strings.Contains(r.read(cniConf), aclPrefix) })

	// An endpoint as win-bridge makes it from this configuration, with an ACL of another.
	var conf struct {
		Policies []struct{ Value schema.Policy }
	}
	if err := json.Unmarshal([]byte(r.read(cniConf)), &conf); err != nil {
		t.Fatal(err)
	}
	e := schema.Endpoint{IPConfigurations: []schema.IPConfig{{IPAddress: "10.244.3.7"}}, Policies: []schema.Policy{
		{Type: "ACL", Settings: json.RawMessage(`{"Action":"Block","Direction":"Out","RemoteAddresses":"192.0.2.1"}`)}}}
	for _, p := range conf.Policies {
		e.Policies = append(e.Policies, p.Value)
	}
	id := r.endpoint(e)
	node := "10.89.0.11/32,10.244.3.1/32,10.244.3.2/32"
	if got, want := r.acls(id), "In Allow "+node+"; In Block; Out Allow "+node+"; Out Block; "+foreign; got != want {
		t.Errorf("a new endpoint has %q, want %q", got, want)
	}
	r.api.setList("pods", pod)
	until("the pod's own rules", func() bool { return r.acls(id) == denied+"; "+foreign })

	r.api.down(true)
	until("the API server's absence is seen", func() bool {
		return strings.Contains(r.agent.status.NetworkPolicies, "etcd is down")
	})
	stop()
	r.agent.background.Wait()
	r.restartAgent()
	ctx, stopAgain := context.WithCancel(t.Context())
	defer func() { stopAgain(); r.agent.background.Wait() }()
	r.ctx = ctx
	r.passes(1)
	if got := r.acls(id); got != denied+"; "+foreign {
		t.Errorf("while the API server is away: %s", got)
	}
	if !strings.Contains(r.read(cniConf), aclPrefix) {
		t.Error("endpoints begin open while the policies are not known")
	}
	r.api.down(false)
	r.api.setList("networkpolicies", "")
	until("without the policy, no ACL of the agent", func() bool { return r.acls(id) == foreign })
	until("endpoints begin open again", func() bool { return !strings.Contains(r.read(cniConf), aclPrefix) })
	until("healthy", func() bool { return r.agent.status.NetworkPolicies == "enforced" })
}

// TestPoliciesAreLifted: an agent that is told not to enforce policies leaves none of
// its ACLs, and all of the others.
func TestPoliciesAreLifted(t *testing.T) {
	r := up(t)
	e := schema.Endpoint{IPConfigurations: []schema.IPConfig{{IPAddress: "10.244.3.7"}}, Policies: []schema.Policy{
		{Type: "ACL", Settings: json.RawMessage(`{"Action":"Block","Direction":"Out","RemoteAddresses":"192.0.2.1"}`)}}}
	for _, a := range isolated(nil) {
		p, err := aclPolicy(a)
		if err != nil {
			t.Fatal(err)
		}
		e.Policies = append(e.Policies, p)
	}
	id := r.endpoint(e)
	r.restartAgent()
	r.passes(3)
	if got := r.acls(id); got != "Out Block 192.0.2.1" {
		t.Errorf("the endpoint still has %s", got)
	}
}

// endpoint makes an endpoint of the pods' network.
func (r *rig) endpoint(e schema.Endpoint) schema.GUID {
	r.t.Helper()
	networks, err := hnsClient{r.hns}.networks(context.Background())
	if err != nil || len(networks) != 1 {
		r.t.Fatal(networks, err)
	}
	network, err := schema.ParseGUID(networks[0].ID)
	if err != nil {
		r.t.Fatal(err)
	}
	doc, err := json.Marshal(e)
	if err != nil {
		r.t.Fatal(err)
	}
	id, err := r.hns.Create(context.Background(), hns.Endpoint, network, schema.GUID{}, string(doc))
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}
