// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package policy is the single source of what Windows nodes can and cannot do
// with a Kubernetes object: it takes an object and facts about the cluster and
// returns findings. Lint, admission and the diagnosis of clusters are front
// ends to it.
//
// It is pure: it has no side effects and keeps no state. Objects are trees as
// encoding/json decodes them into an any, not Go types: for most fields it
// matters whether they are set at all (even to false), and fields that are
// newer than this program must survive (docs/adr/0090-rules-read-trees.md).
//
// A rule that only forbids or flags a field is a row of the table in
// fields.go; a rule with logic is a function in a file named after its
// subject. Every rule is listed in All.
package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// Severity says how bad a finding is.
type Severity int

// The severities. A rule that is only inferred from its sources is never an
// Error.
const (
	None    Severity = iota
	Info             // works; good to know
	Warning          // accepted, but ignored or different on Windows, or likely to fail
	Error            // refused, or cannot run
)

func (s Severity) String() string {
	switch s {
	case Info:
		return "info"
	case Warning:
		return "warning"
	case Error:
		return "error"
	}
	return "none"
}

// MarshalText encodes the severity as its name.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// ParseSeverity is the inverse of String.
func ParseSeverity(s string) (Severity, error) {
	for _, v := range []Severity{Info, Warning, Error} {
		if s == v.String() {
			return v, nil
		}
	}
	return None, fmt.Errorf("severity %q: want error, warning or info", s)
}

// Version is a minor version of Kubernetes 1, such as 36 for 1.36; 0 if
// unknown.
type Version int

// ParseVersion reads "1.36", "v1.36.3" and the like.
func ParseVersion(s string) (Version, error) {
	var major, minor int
	if _, err := fmt.Sscanf(strings.TrimPrefix(s, "v"), "%d.%d", &major, &minor); err != nil || major != 1 ||
		minor < 1 || minor > 999 {
		return 0, fmt.Errorf("version of Kubernetes %q: want for example 1.36", s)
	}
	return Version(minor), nil
}

func (v Version) String() string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("1.%d", int(v))
}

// Facts holds what is known about the cluster and the images, besides the
// object. The zero value, of each field too, means unknown: a rule that needs a
// fact reports nothing without it.
type Facts struct {
	Kubernetes     Version
	Nodes          []Node
	RuntimeClasses map[string]RuntimeClass // nil: unknown; an empty map: there are none
	SomeClasses    bool                    // RuntimeClasses may lack some
	Images         map[string]Image        // answers of registries, by the reference as written in the pod
	// the operating systems of the nodes that report an image, by the reference as written in the pod
	PresentImages map[string][]string
	Namespaces    map[string]Namespace // those that are known
	Related       Related              // objects of the same input
	Place         Place                // of the object in the input
	Objects       Known                // what pods refer to
	// of pods without a signal, in namespaces without the label DefaultOSLabel; "" if not configured
	DefaultOS    string
	Platform     string // the kind of cluster: "eks", "openshift", …; "" if not known
	Subresource  string // of the admission request: "resize"
	NoPrivileged bool   // kube-apiserver runs with --allow-privileged=false
}

// Node holds the properties of a node that matter to the rules.
type Node struct {
	Name       string
	OS         string // linux or windows
	Build      winver.Build
	Containerd string   // "1.7.13"; "" if not known
	Handlers   []string // runtime handlers of status.runtimeHandlers; nil if not known
	Taints     []Taint
	Labels     map[string]string // nil if not known
	NoDSR      bool              // kube-proxy runs without --enable-dsr, or HNS lacks it
}

// Taint is a taint of a node.
type Taint struct{ Key, Value, Effect string }

// ParseTaint parses a taint in kubectl's notation, "os=windows:NoSchedule".
func ParseTaint(s string) (Taint, error) {
	kv, effect, ok := strings.Cut(s, ":")
	key, value, _ := strings.Cut(kv, "=")
	if !ok || key == "" || !slices.Contains([]string{"NoSchedule", "NoExecute", "PreferNoSchedule"}, effect) {
		return Taint{}, fmt.Errorf("taint %q: want for example os=windows:NoSchedule", s)
	}
	return Taint{key, value, effect}, nil
}

// ParseWindowsTaint parses a taint to put on Windows nodes. It must name
// Windows, because placement adds tolerations only for such taints: others keep
// pods away for reasons that placement does not know.
func ParseWindowsTaint(s string) (Taint, error) {
	t, err := ParseTaint(s)
	if err == nil && !t.NamesOS("windows") {
		err = fmt.Errorf("taint %q does not name Windows, so placement would not add a toleration for it; use for "+
			"example os=windows:NoSchedule", s)
	}
	return t, err
}

func (t Taint) String() string { return t.Key + "=" + t.Value + ":" + t.Effect }

// RuntimeClass holds the properties of a RuntimeClass that matter to the rules.
type RuntimeClass struct {
	Handler      string
	NodeSelector map[string]string
	Tolerations  []Toleration
}

// Toleration is a toleration of a pod or a RuntimeClass.
type Toleration struct{ Key, Operator, Value, Effect string }

// tolerates reports whether t tolerates a NoSchedule or NoExecute taint, by the
// scheduler's rule.
func (t Toleration) tolerates(taint Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	if t.Operator == "Exists" {
		return true
	}
	return (t.Operator == "" || t.Operator == "Equal") && t.Key != "" && t.Value == taint.Value
}

// Image is a registry's description of an image.
type Image struct {
	Index     bool // several platforms behind one name
	Platforms []Platform
	User      string // of the image's configuration
}

// Platform is one entry of an index, or the platform of a single image.
type Platform struct{ OS, Arch, OSVersion string }

// Plausible reports whether the strings of p, which come from outside, can
// describe a platform: short words, with a non-empty operating system.
// Platforms are stored, and shown to users.
func (p Platform) Plausible() bool {
	return p.OS != "" && plain(p.OS, 32) && plain(p.Arch, 32) && plain(p.OSVersion, 64)
}

// plain reports whether s has at most limit bytes and only characters that
// occur in names of platforms.
func plain(s string, limit int) bool {
	odd := func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		return !letter && (r < '0' || r > '9') && !strings.ContainsRune("._-+~", r)
	}
	return len(s) <= limit && !strings.ContainsFunc(s, odd)
}

// classKnown reports whether a RuntimeClass is known, or known not to exist.
func (f *Facts) classKnown(name string) bool {
	_, ok := f.RuntimeClasses[name]
	return ok || f.RuntimeClasses != nil && !f.SomeClasses
}

// windows returns the nodes that run Windows.
func (f *Facts) windows() []*Node { return f.running("windows") }

// node returns the node with the given name; nil if it is unknown.
func (f *Facts) node(name string) *Node {
	for i := range f.Nodes {
		if f.Nodes[i].Name == name {
			return &f.Nodes[i]
		}
	}
	return nil
}

func (f *Facts) running(os string) []*Node {
	var out []*Node
	for i := range f.Nodes {
		if f.Nodes[i].OS == os {
			out = append(out, &f.Nodes[i])
		}
	}
	return out
}

// Finding is one remark of a rule about one field.
type Finding struct {
	Code     string      `json:"code"`
	Severity Severity    `json:"severity"`
	Path     tree.Path   `json:"-"`
	Field    string      `json:"field"` // Path as text
	Missing  bool        `json:"missing,omitempty"`
	Message  string      `json:"message"`
	Fix      string      `json:"fix"`
	Edits    []tree.Edit `json:"-"` // resolve the finding without changing what the object does on Windows
	Scope    tree.Path   `json:"-"` // the object, or the item of a List, whose annotations may suppress it
}

// Evaluator applies the rules that hold under some facts.
type Evaluator struct {
	rules     []Rule
	byCode    map[string]*Rule // every rule, also those that do not hold
	linuxOnly []linuxField
}

// New picks the rules that hold under the facts.
func New(facts Facts) *Evaluator {
	e := &Evaluator{byCode: map[string]*Rule{}, linuxOnly: linuxFields()}
	for _, r := range All() {
		e.byCode[r.Code] = &r
		if r.holds(facts.Kubernetes) {
			e.rules = append(e.rules, r)
		}
	}
	return e
}

// Evaluate applies all rules to an object. To check many objects, reuse one
// Evaluator.
func Evaluate(object map[string]any, facts Facts) []Finding {
	return New(facts).Evaluate(Parse(object), facts)
}

// Evaluate applies the rules to an object, or to the items of a List. The facts
// may include more than those given to New, but must have the same Kubernetes
// version. The findings are ordered by field. It may be called concurrently.
func (e *Evaluator) Evaluate(object *Parsed, facts Facts) []Finding {
	return e.evaluate(object.under(facts))
}

func (e *Evaluator) evaluate(objects []*object) []Finding {
	var out []Finding
	for _, o := range objects {
		for i := range e.rules {
			r := &e.rules[i]
			if !r.applies(o) {
				continue
			}
			rep := reporter{rule: r, scope: o.Value, out: &out}
			if r.object != nil && slices.Contains(r.kinds, o.Kind) {
				r.object(o, rep)
			}
			if r.pod != nil {
				for _, p := range o.Pods {
					r.pod(p, rep)
				}
			}
		}
	}
	slices.SortStableFunc(out, byField)
	return out
}

func byField(a, b Finding) int {
	return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message))
}
