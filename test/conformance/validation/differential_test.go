// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package validation

import (
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/policytest"
	"github.com/mullion-k8s/mullion/internal/policy/rule"
)

// mutation sets one field of a pod.
type mutation struct {
	path  []string // names of fields; "0" is the first element of a list
	value any
}

func (m mutation) String() string {
	v, err := json.Marshal(m.value)
	if err != nil {
		return err.Error()
	}
	return strings.Join(m.path, ".") + "=" + string(v)
}

// maxDepth bounds the walk: the API nests no deeper in what matters here.
const maxDepth = 9

// mutations walks the type of a pod's spec and sets every field at every
// depth: to false and true, to nothing and something, to what enumerations
// know. Fields that are newer than our rules are among them.
func mutations() []mutation {
	var out []mutation
	walk(reflect.TypeFor[corev1.PodSpec](), []string{"spec"}, func(path []string, v any) {
		if len(path) > 1 && path[1] != "os" {
			out = append(out, mutation{slices.Clone(path), v})
		}
	})
	return out
}

func walk(t reflect.Type, path []string, emit func([]string, any)) {
	emitAll := func(values ...any) {
		for _, v := range values {
			emit(path, v)
		}
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[resource.Quantity]():
		emitAll("1")
		return
	case reflect.TypeFor[intstr.IntOrString]():
		emitAll(80, "http")
		return
	case reflect.TypeFor[metav1.Time]():
		return
	}
	switch t.Kind() {
	case reflect.Bool:
		emitAll(false, true)
	case reflect.String:
		emitAll("", "x")
		emitAll(enumerations()[t.Name()]...)
	case reflect.Int, reflect.Int32, reflect.Int64:
		emitAll(0, 1, 1000)
	case reflect.Slice:
		emitAll([]any{})
		if len(path) < maxDepth {
			walk(t.Elem(), append(path, "0"), emit)
		}
	case reflect.Map:
		emitAll(map[string]any{})
		walk(t.Elem(), append(path, "memory"), emit)
	case reflect.Struct:
		emitAll(map[string]any{})
		for i := 0; i < t.NumField() && len(path) < maxDepth; i++ {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" && f.Anonymous {
				walk(f.Type, path, emit)
			} else if name != "" && name != "-" {
				walk(f.Type, append(slices.Clone(path), name), emit)
			}
		}
	}
}

// enumerations are values of types whose meaning depends on the value.
func enumerations() map[string][]any {
	return map[string][]any{
		"SupplementalGroupsPolicy": {"Merge", "Strict"}, "PodFSGroupChangePolicy": {"OnRootMismatch"},
		"PodSELinuxChangePolicy": {"Recursive", "MountOption"}, "ProcMountType": {"Default", "Unmasked"},
		"SeccompProfileType": {"RuntimeDefault"}, "AppArmorProfileType": {"RuntimeDefault"},
		"Signal": {"SIGTERM", "SIGKILL", "SIGUSR1"}, "StorageMedium": {"Memory", "HugePages"},
		"DNSPolicy": {"ClusterFirstWithHostNet"}, "Protocol": {"SCTP"},
	}
}

// put sets a field in a copy of a pod. Elements of lists that it makes have
// what makes them valid.
func put(tree any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	if path[0] == "0" {
		list, _ := tree.([]any)
		if list = slices.Clone(list); len(list) == 0 {
			list = []any{nil}
		}
		list[0] = put(list[0], path[1:], value)
		return list
	}
	m, _ := tree.(map[string]any)
	if m = maps.Clone(m); m == nil {
		m = map[string]any{}
	}
	sub := m[path[0]]
	if sub == nil && len(path) > 2 && path[1] == "0" {
		switch path[0] {
		case "initContainers", "ephemeralContainers":
			sub = []any{map[string]any{"name": path[0][:4], "image": "mcr.microsoft.com/windows/nanoserver:ltsc2022",
				"terminationMessagePolicy": "File", "imagePullPolicy": "Always"}}
		case "volumes":
			sub = []any{map[string]any{"name": "v"}}
		}
	}
	m[path[0]] = put(sub, path[1:], value)
	return m
}

func apply(pod map[string]any, list ...mutation) map[string]any {
	for _, m := range list {
		pod = put(pod, m.path, m.value).(map[string]any)
	}
	return pod
}

// verdict is which fields an API server refuses for the sake of the operating
// system: what it says of a pod that names one and not of the same pod that
// names none; and what it says of a pod because it names none. anyway is all that
// it refuses of the pod that names one.
type verdict struct{ because, without, anyway []string }

func upstreamVerdict(pod map[string]any, os string) verdict {
	named, none := map[string]string{}, map[string]string{}
	for _, e := range upstream(withOS(pod, os)) {
		named[e.Error()] = e.Field
	}
	for _, e := range upstream(withOS(pod, "")) {
		none[e.Error()] = e.Field
	}
	fields := func(a, b map[string]string, about string) []string {
		set := map[string]bool{}
		for text, at := range a {
			if _, both := b[text]; !both && strings.Contains(text, about) && !strings.Contains(text, "decode: ") {
				set[at] = true
			}
		}
		return slices.Sorted(maps.Keys(set))
	}
	return verdict{because: fields(named, none, ""), without: fields(none, named, "os.name"),
		anyway: fields(named, nil, "")}
}

// ourVerdict returns the same of the rules that repeat the API server's: the
// hundred WIN0.
func ourVerdict(pod map[string]any, os string) verdict {
	fields := func(os string) map[string]bool {
		set := map[string]bool{}
		for _, f := range rule.Check(withOS(pod, os), policy.Facts{Kubernetes: version}) {
			if f.Severity == policy.Error && strings.HasPrefix(f.Code, "WIN0") {
				set[f.Field] = true
			}
		}
		return set
	}
	named, none := fields(os), fields("")
	return verdict{because: slices.Sorted(maps.Keys(named)), without: slices.Sorted(maps.Keys(none))}
}

// exception is a field on which the two differ, and why.
type exception struct {
	os    string // "" for both
	field *regexp.Regexp
	why   string
}

// exceptions are the fields on which the two may differ.
func exceptions() []exception {
	return []exception{
		{"", regexp.MustCompile(`\.lifecycle\.stopSignal$`),
			"an API server without the feature ContainerStopSignals, " +
				"which is off by default, drops the field, so we only warn"},
	}
}

func compare(t *testing.T, name string, pod map[string]any, known []exception) {
	t.Helper()
	os := "windows"
	excepted := func(at string) bool {
		return slices.ContainsFunc(known, func(e exception) bool {
			return (e.os == "" || e.os == os) && e.field.MatchString(at)
		})
	}
	for _, os = range []string{"windows", "linux"} {
		if os == "linux" {
			pod = apply(pod, mutation{[]string{"spec", "nodeSelector"}, map[string]any{}},
				mutation{[]string{"spec", "containers", "0", "image"}, "x"})
		}
		theirs, ours := upstreamVerdict(pod, os), ourVerdict(pod, os)
		// Of most init containers upstream refuses the whole lifecycle: no word is needed on what is in it.
		ours.because = slices.DeleteFunc(ours.because, func(at string) bool {
			return slices.ContainsFunc(theirs.anyway, func(up string) bool {
				return strings.HasSuffix(up, ".lifecycle") && strings.HasPrefix(at, up+".")
			})
		})
		ours.because, theirs.because = slices.DeleteFunc(ours.because, excepted),
			slices.DeleteFunc(theirs.because, excepted)
		if !slices.Equal(theirs.because, ours.because) {
			t.Errorf("%s: with os.name %s upstream refuses %v, we %v", name, os, theirs.because, ours.because)
		}
		// Without os.name it is for Windows by its image: what only then is refused must be known too.
		if os == "windows" {
			for _, at := range theirs.without {
				if !slices.Contains(ours.without, at) && !excepted(at) {
					t.Errorf("%s: without os.name upstream refuses %s, and we do not", name, at)
				}
			}
		}
	}
	if theirs, ours := upstreamOptions(pod), ourOptions(pod); (len(theirs) > 0) != (len(ours) > 0) {
		t.Errorf("%s: of windowsOptions upstream refuses %v, we %v", name, theirs, ours)
	}
}

// upstreamOptions returns the refusals of windowsOptions, which do not depend on
// os.name.
func upstreamOptions(pod map[string]any) []string {
	var out []string
	for _, e := range upstream(withOS(pod, "windows")) {
		if text := e.Error(); strings.Contains(e.Field, "windowsOptions") ||
			strings.Contains(strings.ToLower(text), "hostprocess") {
			out = append(out, text)
		}
	}
	return out
}

// ourOptions returns the findings of the rules WIN101 to WIN107.
func ourOptions(pod map[string]any) []string {
	var out []string
	for _, f := range rule.Check(withOS(pod, "windows"), policy.Facts{Kubernetes: version}) {
		if f.Severity == policy.Error && strings.HasPrefix(f.Code, "WIN10") {
			out = append(out, f.Code+" "+f.Field)
		}
	}
	return out
}

// TestEveryField sets each field of a pod in turn and compares what upstream
// and what we say: with the features of a release, and with all of them on.
func TestEveryField(t *testing.T) {
	pod := policytest.Tweak(t, "{}")
	all := mutations()
	for _, name := range []string{"release", "all features"} {
		t.Run(name, func(t *testing.T) {
			if name == "all features" {
				featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate,
					featuregatetesting.FeatureOverrides{"AllAlpha": true, "AllBeta": true})
			}
			for _, m := range all {
				compare(t, m.String(), apply(pod, m), exceptions())
			}
		})
	}
	fields := map[string]bool{}
	for _, m := range all {
		fields[strings.Join(m.path, ".")] = true
	}
	t.Logf("%d values of %d fields", len(all), len(fields))
}

// FuzzFields sets several fields at once: every two bytes name one of them.
func FuzzFields(f *testing.F) {
	for _, seed := range []string{"\x00\x01\x02\x03", "mullion", "windowsOptions", "\xff\xff\x00\x10\x20\x30\x04\x44",
		"containers and volumes and what is in them"} {
		f.Add([]byte(seed))
	}
	all := mutations()
	pod := policytest.Tweak(f, "{}")
	f.Fuzz(func(t *testing.T, data []byte) {
		const most = 24 // fields
		var list []mutation
		var names []string
		for ; len(data) >= 2 && len(list) < most; data = data[2:] {
			m := all[(int(data[0])<<8|int(data[1]))%len(all)]
			list, names = append(list, m), append(names, m.String())
		}
		compare(t, strings.Join(names, " "), apply(pod, list...), exceptions())
	})
}
