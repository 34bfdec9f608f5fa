// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package validation

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/core"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"

	"github.com/mullion-k8s/mullion/internal/policy/rule"
)

// userNames are valid and invalid ones, among them every limit.
func userNames() []string {
	out := []string{
		"", " ", ".", ". .", "ContainerUser", "ContainerAdministrator", `NT AUTHORITY\SYSTEM`,
		`NT AUTHORITY\Local service`, "NT AUTHORITY\network service",
		`a\b\c`, `\u`, `d\`, `\`, `user@domain`, `domain/user`, `d.e\u`, `.d\u`, `d_e\u`, `corp.example.com\web$`,
		`-a.b\u`, `a..b\u`, "ü", "名前", "a\x00b", "a\x7fb", "a\u0085b", "a\u200bb",
		`a"b`, "a[b]", "a,b", "a+b", "a*b", "a?b", "a<b>", "a=b", "a|b", "a;b", "a:b", `d:e\u`, `d|e\u`, `d*\u`,
		"\xff", `\xff\u`,
	}
	for _, n := range []int{14, 15, 16, 63, 64, 103, 104, 105, 254, 255, 256, 257} {
		x := strings.Repeat("x", n)
		out = append(out, x, x+`\u`, `d\`+x, strings.Repeat("ü", n), strings.TrimSuffix(strings.Repeat("x.", n/2), ".")+
			`\u`)
	}
	return out
}

// compareUser compares what both say of a runAsUserName, and in which words.
func compareUser(t *testing.T, name string) {
	t.Helper()
	sc := &core.SecurityContext{WindowsOptions: &core.WindowsSecurityContextOptions{RunAsUserName: &name}}
	var theirs []string
	for _, e := range corevalidation.ValidateSecurityContext(sc, field.NewPath("securityContext"), true) {
		theirs = append(theirs, e.Detail)
	}
	ours := rule.CheckUserName(name)
	slices.Sort(theirs)
	slices.Sort(ours)
	if !slices.Equal(theirs, ours) {
		t.Errorf("runAsUserName %q: upstream says %q, we %q", name, theirs, ours)
	}
}

func TestUserNames(t *testing.T) {
	for _, name := range userNames() {
		compareUser(t, name)
	}
}

func FuzzUserName(f *testing.F) {
	for _, name := range userNames() {
		f.Add(name)
	}
	f.Fuzz(compareUser)
}
