// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package emul

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/netplane/intent"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestCompile reads testdata/compile/*.json, each a store as a list of changes,
// and compares the intent with the golden file beside it.
func TestCompile(t *testing.T) {
	files, err := filepath.Glob("testdata/compile/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	uplink := intent.Uplink{Name: "eth0", Address: netip.MustParsePrefix("10.89.0.11/24"), MAC: "02:89:00:00:00:11"}
	groups := func(sid string) []uint32 { return map[string][]uint32{"S-1-5-32-556": {64018}}[sid] }
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var changes []change
			if err := json.Unmarshal(content, &changes); err != nil {
				t.Fatal(err)
			}
			tx := newTxn(&state{})
			for _, c := range changes {
				if err := tx.replay(c); err != nil {
					t.Fatal(err)
				}
			}
			got, err := json.MarshalIndent(compile(&tx.state, uplink, nil, limits{}, groups), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			testenv.Golden(t, filepath.Join("compile", name+".golden"), append(got, '\n'))
		})
	}
}

func TestParsePorts(t *testing.T) {
	got, err := parsePorts("80, 8080-8090,1")
	if err != nil || len(got) != 3 || got[1] != (intent.PortRange{First: 8080, Last: 8090}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"x", "70000", "5-1", "-", "1-2-3"} {
		if got, err := parsePorts(bad); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}

func TestProxiesRefused(t *testing.T) {
	for settings, ok := range map[string]bool{
		`{"OutboundProxyPort":"9191","UserSID":"S-1-5-18"}`:                            true,
		`{"OutboundProxyPort":"90001"}`:                                                false,
		`{"OutboundProxyPort":9191}`:                                                   false,
		`{"InboundProxyPort":"0"}`:                                                     false,
		`{"OutboundProxyPort":"1","FilterTuple":{"Protocols":"tcp"}}`:                  false,
		`{"OutboundProxyPort":"1","FilterTuple":{"RemotePorts":"9-1"}}`:                false,
		`{"OutboundProxyPort":"1","FilterTuple":{"RemoteAddresses":"10.0.0.0/8"}}`:     true,
		`{"OutboundProxyPort":"1","OutboundExceptions":{"IpAddressExceptions":["x"]}}`: false,
	} {
		p := schema.Policy{Type: "l4wfpproxy", Settings: json.RawMessage(settings)}
		if err := checkPolicies([]schema.Policy{p}, []string{schema.L4WFPProxyPolicy}); err != nil != !ok {
			t.Errorf("%s: %v", settings, err)
		}
	}
}

func TestACLOfAnEmptySetMatchesNothing(t *testing.T) {
	sets := map[string]string{"empty": "", "web": "10.0.0.1,10.1.0.0/16", "nested": "web,10.2.0.1", "loop": "loop"}
	for list, want := range map[string]int{"web": 2, "nested": 3, "10.0.0.9": 1, "unknown": -1, "empty": -1,
		"loop": -1, "": 0} {
		rule, ok := compileACL(schema.ACLSetting{Direction: "IN", Action: "allow", RemoteAddresses: list}, sets)
		if ok != (want >= 0) || ok && len(rule.RemoteAddresses) != want {
			t.Errorf("%q: %v, %v, want %d addresses", list, rule.RemoteAddresses, ok, want)
		}
	}
}

// TestTiers has two tiers of the form of hnslib's own test (hcn/hcnutils_test.go, HcnCreateTierAcls).
func TestTiers(t *testing.T) {
	s := &state{}
	e := &endpoint{}
	e.Policies = []schema.Policy{
		{Type: "TierAcl", Settings: json.RawMessage(`{"Name":"TierIn2","Direction":"In","Order":1002,"TierAclRules":[
			{"Id":"b","TierAclRuleAction":"Block","Priority":3020}]}`)},
		{Type: "TierAcl", Settings: json.RawMessage(`{"Name":"TierIn1","Direction":"In","Order":1001,"TierAclRules":[
			{"Id":"a","Protocols":"6","TierAclRuleAction":"Pass","LocalPorts":"80","Priority":2001}]}`)},
		{Type: "ACL", Settings: json.RawMessage(`{"Direction":"In","Action":"Allow","RemotePorts":"53","Priority":9}`)},
	}
	if err := checkPolicies(e.Policies, []string{"TierAcl", "ACL"}); err != nil {
		t.Fatal(err)
	}
	var out intent.Endpoint
	compileACLs(s, e, &out)
	want := []intent.ACL{
		{Direction: intent.In, Action: intent.Allow, RemotePorts: []intent.PortRange{{First: 53, Last: 53}},
			Priority: 9},
		{Direction: intent.In, Action: intent.Pass, Protocols: []uint8{intent.TCP},
			LocalPorts: []intent.PortRange{{First: 80, Last: 80}}, Tier: 1, Priority: 2001},
		{Direction: intent.In, Action: intent.Block, Tier: 2, Priority: 3020},
	}
	if !reflect.DeepEqual(out.ACLs, want) {
		t.Errorf("%+v\nwant %+v", out.ACLs, want)
	}
	bad := schema.Policy{Type: "TierAcl", Settings: json.RawMessage(`{"Direction":"In","TierAclRules":[{}]}`)}
	if checkPolicies([]schema.Policy{bad}, []string{"TierAcl"}) == nil {
		t.Error("a rule without an action is taken")
	}
}
