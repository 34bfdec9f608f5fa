// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/policytest"
)

func codes(findings []policy.Finding) []string {
	set := map[string]bool{}
	for _, f := range findings {
		set[f.Code] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// findRule returns the rule with a code.
func findRule(code string) (Rule, bool) {
	for _, r := range All() {
		if r.Code == code {
			return r, true
		}
	}
	return Rule{}, false
}

func TestMinimalPodPasses(t *testing.T) {
	if got := Check(policytest.Decode(t, policytest.Minimal), policy.Facts{}); len(got) > 0 {
		t.Errorf("findings on the minimal pod: %+v", got)
	}
}

// TestFixtures gives every rule an object that it reports, and one that it
// does not.
func TestFixtures(t *testing.T) {
	tested := map[string]bool{}
	for _, f := range fields() { // by TestFieldTable
		tested[f.code] = true
	}
	for _, f := range fixtures() {
		tested[f.code] = true
		t.Run(f.code, func(t *testing.T) {
			got := Check(policytest.Tweak(t, f.fail), f.facts)
			if !slices.Contains(codes(got), f.code) {
				t.Errorf("not reported: %s\ngot %v", f.fail, codes(got))
			}
			rule, _ := findRule(f.code)
			for _, g := range got {
				if g.Code == f.code && (g.Severity > rule.Severity || g.Message == "" || g.Fix == "") {
					t.Errorf("finding %+v: severity above the rule's, or no text", g)
				}
			}
			pass := f.pass
			if pass == "" {
				pass = "{}"
			}
			if got := codes(Check(policytest.Tweak(t, pass), f.facts)); slices.Contains(got, f.code) {
				t.Errorf("reported, and should not be: %s", pass)
			}
		})
	}
	for _, r := range All() {
		if !tested[r.Code] {
			t.Errorf("%s has no fixture", r.Code)
		}
	}
}

// put sets a value at a path of maps below at.
func put(at map[string]any, path string, v any) {
	keys := strings.Split(path, ".")
	for _, k := range keys[:len(keys)-1] {
		sub, ok := at[k].(map[string]any)
		if !ok {
			sub = map[string]any{}
			at[k] = sub
		}
		at = sub
	}
	at[keys[len(keys)-1]] = v
}

// TestFieldTable makes an object for every row: refused where the pod declares
// itself, silent difference where it does not, nothing where it is for Linux.
func TestFieldTable(t *testing.T) {
	for _, f := range fields() {
		t.Run(f.code, func(t *testing.T) {
			for path := range strings.SplitSeq(f.path, "|") {
				pod := policytest.Decode(t, policytest.Minimal)
				spec := pod["spec"].(map[string]any)
				place := map[string]any{"name": "x", "mountPath": `C:\x`, "containerPort": 80}
				container := spec["containers"].([]any)[0].(map[string]any)
				switch {
				case strings.Contains(path, "[*]."):
					list, rest, _ := strings.Cut(path, "[*].")
					spec[list] = []any{place}
					place["image"] = "mcr.microsoft.com/windows/nanoserver:ltsc2022"
					path = rest
				case f.level == onContainer:
					place = container
				case f.level == onVolume:
					spec["volumes"] = []any{place}
				case f.level == onMount:
					container["volumeMounts"] = []any{place}
				case f.level == onPort:
					container["ports"] = []any{place}
				default:
					place = spec
				}
				put(place, path, f.bad)
				severity := func() policy.Severity {
					for _, g := range Check(pod, policy.Facts{}) {
						if g.Code == f.code {
							if !strings.HasSuffix(g.Field, path) {
								t.Errorf("field %s does not end in %s", g.Field, path)
							}
							return g.Severity
						}
					}
					return policy.None
				}
				if got := severity(); got != f.set {
					t.Errorf("%s with os.name: %v, want %v", path, got, f.set)
				}
				delete(spec, "os")
				if got := severity(); got != f.unset {
					t.Errorf("%s without os.name: %v, want %v", path, got, f.unset)
				}
				spec["os"] = map[string]any{"name": "linux"}
				if got := severity(); got != policy.None {
					t.Errorf("%s on a Linux pod: %v, want nothing", path, got)
				}
			}
		})
	}
}

// TestCompleteSections: what the API server refuses on Windows pods (WIN001 to
// WIN031), and what it accepts and the node refuses (WIN201 to WIN232), has a
// rule for each fact that is known.
func TestCompleteSections(t *testing.T) {
	// WIN029 is a field of a status that only kubelets write: upstream validates it.
	upstream := map[string]bool{"WIN029": true}
	for _, section := range []struct{ first, last int }{{1, 31}, {201, 232}} {
		for n := section.first; n <= section.last; n++ {
			code := fmt.Sprintf("WIN%03d", n)
			if _, ok := findRule(code); !ok && !upstream[code] {
				t.Errorf("no rule %s", code)
			}
		}
	}
}

func TestRuleSet(t *testing.T) {
	code := regexp.MustCompile(`^WIN[0-9]{3}$`)
	seen := map[string]bool{}
	for _, r := range All() {
		switch {
		case !code.MatchString(r.Code), seen[r.Code]:
			t.Errorf("code %q is malformed or given twice", r.Code)
		case r.Title == "", r.Why == "", r.Fix == "", r.Field == "", len(r.Sources) == 0, r.Section() == "":
			t.Errorf("%s lacks text or a source", r.Code)
		case r.Severity == policy.None, r.Inferred && r.Severity == policy.Error:
			t.Errorf("%s: severity %v, inferred %v", r.Code, r.Severity, r.Inferred)
		case r.object == nil && r.pod == nil, r.object != nil && r.kinds == nil:
			t.Errorf("%s checks nothing", r.Code)
		case r.Before != 0 && r.Before <= r.Since:
			t.Errorf("%s holds in no version", r.Code)
		}
		seen[r.Code] = true
	}
}

// FuzzEvaluate: no object makes a rule panic, every finding has a place, and
// an object that was written and read again has the same findings.
func FuzzEvaluate(f *testing.F) {
	f.Add([]byte(policytest.Minimal))
	for _, x := range fixtures() {
		b, err := yaml.Marshal(policytest.Tweak(f, x.fail))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	facts := tainted(cluster(17763, 26100), policy.Taint{Key: "os", Value: "windows", Effect: "NoSchedule"})
	facts.Namespaces = map[string]policy.Namespace{"ns": {Labels: map[string]string{
		policy.EnforceLevel: "restricted", "istio-injection": "enabled"}}}
	judge := New(facts)
	f.Fuzz(func(t *testing.T, data []byte) {
		var object map[string]any
		if len(data) > 1<<14 || yaml.Unmarshal(data, &object) != nil {
			return
		}
		first := judge.Check(policy.Parse(object), facts)
		for _, g := range first {
			if _, ok := findRule(g.Code); !ok || g.Message == "" || g.Severity == policy.None {
				t.Errorf("finding without a rule or a text: %+v", g)
			}
		}
		text, err := json.Marshal(object)
		if err != nil {
			return
		}
		var again map[string]any
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatal(err)
		}
		if second := judge.Check(policy.Parse(again), facts); !slices.EqualFunc(first, second,
			func(a, b policy.Finding) bool {
				return a.Code == b.Code && a.Field == b.Field && a.Message == b.Message && a.Severity == b.Severity
			}) {
			t.Errorf("findings differ after writing and reading:\n%+v\n%+v", first, second)
		}
	})
}
