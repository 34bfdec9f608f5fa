// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package place

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/policytest"
	"github.com/mullion-k8s/mullion/internal/policy/rule"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// factsFile is facts.yaml of a golden archive.
type factsFile struct {
	Kubernetes policy.Version
	Platform   string
	DefaultOS  string
	Nodes      []struct {
		Name, Build, Containerd string // without a build it runs Linux
		Taints                  []string
		Labels                  map[string]string
		Handlers                []string
	}
	Classes    map[string]policy.RuntimeClass
	Images     map[string][]string // "windows/amd64/10.0.17763.1"; several make an index
	Present    map[string][]string
	Namespaces map[string]map[string]string
}

func readFacts(t testing.TB, text []byte) policy.Facts {
	t.Helper()
	var in factsFile
	if err := yaml.UnmarshalStrict(text, &in); err != nil {
		t.Fatalf("read facts: %v", err)
	}
	f := policy.Facts{
		Kubernetes:     in.Kubernetes,
		Platform:       in.Platform,
		DefaultOS:      in.DefaultOS,
		RuntimeClasses: in.Classes,
		PresentImages:  in.Present,
		Namespaces:     map[string]policy.Namespace{},
	}
	for name, labels := range in.Namespaces {
		f.Namespaces[name] = policy.Namespace{Labels: labels}
	}
	for _, n := range in.Nodes {
		node := policy.Node{Name: n.Name, OS: "linux", Labels: n.Labels, Handlers: n.Handlers, Containerd: n.Containerd}
		if n.Build != "" {
			b, err := winver.Parse(n.Build)
			if err != nil {
				t.Fatal(err)
			}
			node.OS, node.Build = "windows", b
		}
		for _, s := range n.Taints {
			taint, err := policy.ParseTaint(s)
			if err != nil {
				t.Fatal(err)
			}
			node.Taints = append(node.Taints, taint)
		}
		f.Nodes = append(f.Nodes, node)
	}
	for ref, platforms := range in.Images {
		i := policy.Image{Index: len(platforms) > 1}
		for _, s := range platforms {
			part := append(strings.Split(s, "/"), "", "")
			i.Platforms = append(i.Platforms, policy.Platform{OS: part[0], Arch: part[1], OSVersion: part[2]})
		}
		if f.Images == nil {
			f.Images = map[string]policy.Image{}
		}
		f.Images[ref] = i
	}
	return f
}

// TestPlaceGolden places the objects of every archive under testdata/place and
// writes down the patch and the findings. The object after the patch is placed
// again: that must change nothing.
func TestPlaceGolden(t *testing.T) {
	for name, ar := range testenv.Archives(t, "testdata/*.txtar") {
		t.Run(name, func(t *testing.T) {
			var facts policy.Facts
			var objects []map[string]any
			ar.Files = slices.DeleteFunc(ar.Files, func(f txtar.File) bool {
				switch f.Name {
				case "facts.yaml":
					facts = readFacts(t, f.Data)
				case "objects.yaml":
					objects = policytest.Documents(t, f.Data)
				default:
					return true
				}
				return false
			})
			judge := rule.New(facts)
			var out bytes.Buffer
			for _, o := range objects {
				show(t, &out, judge, o, facts)
				for _, f := range Check(judge, policy.Parse(o), facts) {
					if f.Severity == policy.Error && strings.Contains(name, "seed-") {
						t.Errorf("a manifest of the guides is refused: %s: %s", f.Code, f.Message)
					}
				}
			}
			ar.Files = append(ar.Files, txtar.File{Name: "placement", Data: out.Bytes()})
			testenv.Golden(t, name+".txtar", txtar.Format(ar))
		})
	}
}

func show(t *testing.T, out *bytes.Buffer, judge *rule.Set, object map[string]any, facts policy.Facts) {
	var edits []tree.Edit
	for _, p := range Pods(judge, policy.Parse(object), facts) {
		meta, _ := object["metadata"].(map[string]any)
		os := p.OS
		if os == "" {
			os = "left alone"
		}
		fmt.Fprintf(out, "%v %v: %s\n  why: %s\n", object["kind"], meta["name"], os, p.Why)
		for _, b := range p.Builds {
			fmt.Fprintf(out, "  build: %s\n", b)
		}
		_, ops, err := tree.Apply(object, p.Edits)
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range ops {
			line, err := json.Marshal(op)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(out, "  %s\n", line)
		}
		for _, f := range p.Findings {
			fmt.Fprintf(out, "  %s %s %s: %s\n", f.Severity, f.Code, f.Field, f.Message)
		}
		edits = append(edits, p.Edits...)
	}
	_, ops, err := tree.Apply(object, edits)
	if err != nil {
		t.Fatal(err)
	}
	for _, again := range Pods(judge, policy.Parse(policytest.Patch(t, object, ops)), facts) {
		if len(again.Edits) > 0 {
			t.Errorf("placing it again changes it again: %+v", again.Edits)
		}
	}
}
