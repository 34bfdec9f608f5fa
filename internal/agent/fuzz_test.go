// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"context"
	"testing"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
)

// answers is an HNS that gives the same answer to every call.
type answers string

func (a answers) Query(context.Context, hns.Kind, schema.GUID, string) (string, error) {
	return string(a), nil
}

func (a answers) Modify(context.Context, hns.Kind, schema.GUID, string) error { return nil }

func (a answers) Call(context.Context, string, string, string) (string, error) { return string(a), nil }

// FuzzHNSAnswer: whatever HNS answers, the agent makes its network of it or says
// what is wrong.
func FuzzHNSAnswer(f *testing.F) {
	for _, s := range []string{
		`{"Success":true,"Output":[{"ID":"a","Name":"cbr0","Type":"L2Bridge",
			"Subnets":[{"AddressPrefix":"10.244.1.0/24","GatewayAddress":"10.244.1.1"}]}]}`,
		`{"Success":true,"Output":{"ID":"a"}}`, `{"Success":true}`, `{"Success":true,"Output":null}`,
		`{"Success":true,"Output":[{"Subnets":[]}]}`,
		`{"Policies":[{"Type":"ACL","Settings":{"Id":"mullion-1","Action":"Allow"}},{"Type":"acl"}]}`,
		`{"Success":false,"Error":"no "}`, `{`, `null`, ``,
	} {
		f.Add(s)
	}
	c := Config{Network: Network{Name: "cbr0", Adapter: "Ethernet"}}
	f.Fuzz(func(_ *testing.T, answer string) {
		h := hnsClient{answers(answer)}
		_, _ = ensureNetwork(context.Background(), h, c, prefixes("10.244.1.0/24"))
		_, _ = h.endpoints(context.Background())
		have, _ := h.policies(context.Background(), "11111111-2222-3333-4444-555555555555")
		_, _, _ = diffACLs(have, isolated(nil))
	})
}
