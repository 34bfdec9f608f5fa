// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// fakeHNS answers calls, and remembers those that change something.
type fakeHNS struct {
	fakeSystem
	answers map[string]string
	deleted []string
}

func (f *fakeHNS) HNSCall(_ context.Context, method, path string) (string, error) {
	if method == "DELETE" {
		f.deleted = append(f.deleted, path)
		return `{"Success":true}`, nil
	}
	output, ok := f.answers[path]
	if !ok {
		return "", errors.New("the RPC server is unavailable")
	}
	if strings.HasPrefix(output, "!") {
		return `{"Success":false,"Error":"` + output[1:] + ` "}`, nil
	}
	return `{"Success":true,"Output":` + output + `}`, nil
}

func TestHnsdiag(t *testing.T) {
	const acl = `{"ID":"1bf1b6f4-c702-4ef3-9da9-eb333e28ae03","Name":"Ethernet","VirtualNetworkName":"cbr0",` +
		`"Policies":[{"Type":"ACL","Action":"Block"}]}`
	hns := &fakeHNS{answers: map[string]string{
		"/networks/":  `[{"ID":"B5A22566-BEBC-400C-ABEF-B6717DE7AF59","Name":"cbr0"}]`,
		"/endpoints/": "[" + acl + "]",
		"/namespaces/": `[{"ID":"0F","ResourceList":[{"Type":"Container","Data":{"Id":"c"}},` +
			`{"Type":"Endpoint","Data":{"Id":"1bf1b6f4"}},{"Type":"Endpoint","Data":{"Id":"2"}}]}]`,
		"/policylists/": `[{"ID":"0A","References":["/endpoints/1bf1b6f4"],` +
			`"Policies":[{"Type":"ELB","VIPs":["10.96.0.1"]}]}]`,
	}}
	const networks = "Name             ID\ncbr0             B5A22566-BEBC-400C-ABEF-B6717DE7AF59\n"
	const endpoints = "Name             ID                                   Virtual Network Name\n" +
		"Ethernet         1bf1b6f4-c702-4ef3-9da9-eb333e28ae03 cbr0\n"
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"list networks", networks, 0},
		{"LIST Endpoints", endpoints, 0},
		{"list endpoints -d", acl + "\n", 0},
		{"list networks -df",
			"{\n    \"ID\": \"B5A22566-BEBC-400C-ABEF-B6717DE7AF59\",\n    \"Name\": \"cbr0\"\n}\n", 0},
		{"list all", "Networks:\n" + networks + "\nEndpoints:\n" + endpoints +
			"\nNamespaces:\nID                                   | Endpoint IDs\n" +
			"0F                                   | 1bf1b6f4, 2\n" +
			"\nLoadBalancers:\nID                                   | Virtual IPs      | Direct IP IDs\n" +
			"0A                                   | 10.96.0.1        | 1bf1b6f4\n", 0},
		{"delete endpoints 1bf1b6f4", "", 0},
		{"", hnsdiagUsage, 1},
		{"list pods", hnsdiagUsage, 1},
		{"list networks -x", hnsdiagUsage, 1},
		{"delete all 1", hnsdiagUsage, 1},
		{"delete networks", hnsdiagUsage, 1},
	} {
		var out, errs strings.Builder
		env := &Env{Args: strings.Fields(c.args), Stdout: &out, Stderr: &errs, System: hns}
		code := hnsdiag(t.Context(), env)
		if got := strings.ReplaceAll(out.String(), "\r\n", "\n"); got != c.want || code != c.code || errs.Len() > 0 {
			t.Errorf("hnsdiag %s: %d, %q, error %q; want %d, %q", c.args, code, got, errs.String(), c.code, c.want)
		}
	}
	if len(hns.deleted) != 1 || hns.deleted[0] != "/endpoints/1bf1b6f4" {
		t.Errorf("deleted %q", hns.deleted)
	}
	for answer, want := range map[string]string{
		"!The provided id is wrong.": "HNS GET /networks/: The provided id is wrong.", "{}": "networks of HNS: json:",
		`[{"ID":1}]`: "networks of HNS: json:",
	} {
		hns.answers["/networks/"] = answer
		var errs strings.Builder
		env := &Env{Args: []string{"list", "networks"}, Stdout: &strings.Builder{}, Stderr: &errs, System: hns}
		if code := hnsdiag(t.Context(), env); code != 1 || !strings.Contains(errs.String(), want) {
			t.Errorf("HNS says %s: %d, %q, want %q", answer, code, errs.String(), want)
		}
	}
}
