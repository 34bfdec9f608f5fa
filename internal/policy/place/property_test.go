// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package place

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	psa "k8s.io/pod-security-admission/api"
	psapolicy "k8s.io/pod-security-admission/policy"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/policytest"
	"github.com/mullion-k8s/mullion/internal/policy/rule"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// leaves are the values of a tree by their paths. A null, an empty map and an
// empty list are nothing.
func leaves(at string, v any, out map[string]any) map[string]any {
	switch v := v.(type) {
	case nil:
	case map[string]any:
		for k, e := range v {
			leaves(at+"/"+k, e, out)
		}
	case []any:
		for i, e := range v {
			leaves(fmt.Sprintf("%s/%d", at, i), e, out)
		}
	default:
		out[at] = v
	}
	return out
}

// mayAdd are the fields that placement may write at all.
var mayAdd = regexp.MustCompile(`(^|/)spec/(os/name|runtimeClassName|nodeSelector/(kubernetes\.io/os|` +
	`kubernetes\.io/arch|node\.kubernetes\.io/windows-build)|` +
	`tolerations/\d+/(key|operator|value|effect)|` +
	`affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/` +
	`nodeSelectorTerms/\d+/matchExpressions/\d+/(key|operator|values/\d+))$`)

// checkPlacement places an object and checks what must be true of every
// placement.
func checkPlacement(t testing.TB, judge *rule.Set, object map[string]any,
	facts policy.Facts) (after map[string]any, placements []Placement) {
	t.Helper()
	before, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	placements = Pods(judge, policy.Parse(object), facts)
	var edits []tree.Edit
	removed := map[string]bool{}
	for _, p := range placements {
		if p.OS == "" && len(p.Edits) > 0 {
			t.Errorf("left alone, and has edits: %+v", p)
		}
		edits = append(edits, p.Edits...)
		for _, e := range p.Edits {
			if e.Op == tree.Remove &&
				slices.ContainsFunc(p.Findings,
					func(f policy.Finding) bool { return f.Path.Pointer() == e.Path.Pointer() }) {
				removed[e.Path.Pointer()] = true
			}
		}
		for _, f := range p.Findings {
			if !isRule(f.Code) || f.Message == "" || f.Severity == policy.None {
				t.Errorf("finding without a rule or a text: %+v", f)
			}
		}
	}
	applied, ops, err := tree.Apply(object, edits)
	if err != nil {
		t.Fatalf("the patch of %s: %v", before, err)
	}
	if now, _ := json.Marshal(object); string(now) != string(before) {
		t.Errorf("placing changed the object itself:\n%s\n%s", before, now)
	}
	after = policytest.Patch(t, object, ops)
	if !reflect.DeepEqual(policytest.Plain(t, applied), after) {
		t.Errorf("the edited object %v is not what the patch makes: %v", applied, after)
	}
	for _, p := range Pods(judge, policy.Parse(after), facts) {
		if len(p.Edits) > 0 {
			t.Errorf("placed again it changes again: %+v\nobject %s", p.Edits, before)
		}
	}
	checkLeaves(t, policytest.Plain(t, object), after, removed)
	return after, placements
}

// checkLeaves: nothing that was there is lost or changed, except the fields
// that were reported as removed; nothing is added but what placement may add.
func checkLeaves(t testing.TB, before, after map[string]any, removed map[string]bool) {
	t.Helper()
	was, is := leaves("", before, map[string]any{}), leaves("", after, map[string]any{})
	for at, v := range was {
		if now, ok := is[at]; !ok || !reflect.DeepEqual(now, v) {
			gone := false
			for prefix := range removed {
				gone = gone || at == unescape(prefix) || strings.HasPrefix(at, unescape(prefix)+"/")
			}
			if !gone || ok {
				t.Errorf("%s: was %v, is %v", at, v, now)
			}
		}
	}
	for at := range is {
		if _, ok := was[at]; !ok && !mayAdd.MatchString(at) {
			t.Errorf("added %s: %v", at, is[at])
		}
	}
}

func unescape(pointer string) string {
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(pointer)
}

// toPod decodes a tree as the API server does, but leaves unknown fields out.
func toPod(t testing.TB, object map[string]any) *corev1.Pod {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var pod corev1.Pod
	if err := json.Unmarshal(text, &pod); err != nil {
		t.Fatalf("decode as a Pod: %v\n%s", err, text)
	}
	return &pod
}

// dice makes random pods and clusters out of pieces that matter.
type dice struct{ *rand.Rand }

func (d dice) pick(of ...string) string { return of[d.IntN(len(of))] }

func (d dice) one(in int) bool { return d.IntN(in) == 0 }

func (d dice) pod(t testing.TB) map[string]any {
	t.Helper()
	var spec, meta []string
	add := func(in int, to *[]string, pieces ...string) {
		if d.one(in) {
			*to = append(*to, d.pick(pieces...))
		}
	}
	term := func() string {
		return d.pick(`{matchExpressions: [{key: zone, operator: In, values: [a]}]}`,
			`{matchExpressions: [{key: kubernetes.io/os, operator: In, values: [windows]}]}`, `{}`,
			`{matchExpressions: []}`,
			`{matchFields: [{key: metadata.name, operator: In, values: [w0]}]}`,
			`{matchFields: [{key: metadata.name, operator: In, values: [l0]}]}`,
			`{matchExpressions: [{key: zone, operator: DoesNotExist}], matchFields: [{key: metadata.name, operator: `+
				`NotIn, values: [w1]}]}`,
			`{matchExpressions: [{key: node.kubernetes.io/windows-build, operator: In, values: ["10.0.20348"]}]}`,
			`{matchExpressions: [{key: kubernetes.io/os, operator: NotIn, values: [windows]}]}`)
	}
	add(4, &spec, `os: {name: windows}`, `os: {name: linux}`, `os: null`, `os: {name: windows, edition: core}`)
	add(3, &spec, `nodeSelector: {kubernetes.io/os: windows}`, `nodeSelector: {kubernetes.io/os: linux}`,
		`nodeSelector: {zone: a}`, `nodeSelector: {beta.kubernetes.io/os: windows}`,
		`nodeSelector: {node.kubernetes.io/windows-build: "10.0.20348"}`, `nodeSelector: null`,
		`nodeSelector: {kubernetes.io/arch: arm64}`)
	add(3, &spec, `tolerations: [{key: os, operator: Equal, value: windows, effect: NoSchedule}]`, `tolerations: []`,
		`tolerations: [{operator: Exists}]`, `tolerations: [{key: x, operator: Exists, tolerationSeconds: 5}]`,
		`tolerations: null`)
	add(3, &spec, `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [`+
		term()+`, `+term()+`]}}}`, `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: `+
		`{nodeSelectorTerms: [`+term()+`]}}}`, `affinity: {podAffinity: {}}`)
	add(8, &spec, `runtimeClassName: hyperv`, `runtimeClassName: windows-2019`, `runtimeClassName: unknown`)
	add(10, &spec, `nodeName: w0`, `nodeName: l0`, `nodeName: elsewhere`)
	add(4, &spec, `securityContext: {runAsNonRoot: true}`,
		`securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}`,
		`securityContext: {fsGroup: 1}`, `securityContext: {windowsOptions: {runAsUserName: ContainerUser}, `+
			`runAsNonRoot: true}`,
		`securityContext: {windowsOptions: {hostProcess: true, runAsUserName: x}}`, `securityContext: {runAsUser: 0}`,
		`securityContext: {sysctls: [{name: a, value: b}]}`, `securityContext: {seLinuxOptions: {type: x_t}}`,
		`securityContext: {supplementalGroups: []}`)
	add(8, &spec, `hostNetwork: true`, `hostPID: true`, `hostUsers: true`, `hostUsers: false`,
		`shareProcessNamespace: false`, `hostIPC: true`, `novelty: {a: [1, {b: null}]}`, `serviceAccountName: robot`)
	add(6, &spec, `volumes: [{name: v, hostPath: {path: /etc}}]`, `volumes: [{name: v, emptyDir: {}}]`)
	add(3, &meta, `ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: u, controller: true}]`)
	add(8, &meta, `annotations: {experimental.windows.kubernetes.io/isolation-type: hyperv}`,
		`annotations: {placement.mullion.dev/reason: x}`, `annotations: {placement.mullion.dev/skip: "true"}`,
		`annotations: {kubernetes.io/config.mirror: x}`)
	var containers []string
	for i := range 1 + d.IntN(2) {
		c := []string{fmt.Sprintf("name: c%d, image: %q", i, d.pick("nginx", "lin", "win2019", "winindex", "both",
			"anybuild", "mcr.microsoft.com/windows/servercore:ltsc2019",
			"mcr.microsoft.com/windows/nanoserver:ltsc2022", "app:ltsc2025"))}
		add(3, &c, `securityContext: {privileged: false}`,
			`securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, seccompProfile: {type: `+
				`RuntimeDefault}, runAsNonRoot: true}`,
			`securityContext: {privileged: true}`, `securityContext: {capabilities: {add: [NET_ADMIN]}}`,
			`securityContext: {readOnlyRootFilesystem: true}`,
			`securityContext: {procMount: Default, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}`,
			`securityContext: {appArmorProfile: {type: Unconfined}}`,
			`securityContext: {appArmorProfile: {type: RuntimeDefault}}`, `securityContext: {runAsUser: 1000}`,
			`securityContext: {seccompProfile: {type: Unconfined}}`,
			`securityContext: {allowPrivilegeEscalation: true}`)
		add(5, &c, `command: [powershell.exe]`, `command: [cmd, /c, dir]`, `args: ['C:\x']`,
			`volumeMounts: [{name: v, mountPath: 'C:\v'}]`, `lifecycle: {stopSignal: SIGHUP}`)
		containers = append(containers, "{"+strings.Join(c, ", ")+"}")
	}
	list := "containers: [" + strings.Join(containers, ", ") + "]"
	spec = append(spec, list)
	meta = append(meta, "name: p", "namespace: ns")
	return policytest.Decode(t, "{apiVersion: v1, kind: Pod, metadata: {"+strings.Join(meta, ", ")+"}, spec: {"+
		strings.Join(spec, ", ")+"}}")
}

func (d dice) facts() policy.Facts {
	f := policy.Facts{
		Images: map[string]policy.Image{
			"lin":     {Platforms: []policy.Platform{{OS: "linux", Arch: "amd64"}}},
			"win2019": {Platforms: []policy.Platform{{OS: "windows", Arch: "amd64", OSVersion: "10.0.17763.1"}}},
			"winindex": {Index: true, Platforms: []policy.Platform{
				{OS: "windows", Arch: "amd64", OSVersion: "10.0.17763.1"},
				{OS: "windows", Arch: "amd64", OSVersion: "10.0.20348.1"}}},
			"both": {Index: true, Platforms: []policy.Platform{
				{OS: "windows", Arch: "amd64", OSVersion: "10.0.20348.1"},
				{OS: "linux", Arch: "amd64", OSVersion: ""}}},
			"anybuild": {Platforms: []policy.Platform{{OS: "windows"}}},
		},
		RuntimeClasses: map[string]policy.RuntimeClass{
			"hyperv": {Handler: "runhcs-wcow-hypervisor",
				NodeSelector: map[string]string{"kubernetes.io/os": "windows"}},
			"windows-2019": {Handler: "runhcs-wcow-process",
				NodeSelector: map[string]string{"kubernetes.io/os": "windows", policy.BuildLabel: "10.0.17763"},
				Tolerations: []policy.Toleration{{Key: "os", Operator: "Equal", Value: "windows",
					Effect: "NoSchedule"}}},
		},
		Namespaces: map[string]policy.Namespace{"ns": {Labels: map[string]string{}}},
	}
	if d.one(3) {
		delete(f.RuntimeClasses, "hyperv")
	}
	if d.one(4) {
		f.Namespaces["ns"].Labels[policy.DefaultOSLabel] = d.pick("windows", "linux")
	}
	if d.one(6) {
		f.PresentImages = map[string][]string{"nginx": {d.pick("windows", "linux")}}
	}
	taints := []policy.Taint{
		{Key: "os", Value: "windows", Effect: "NoSchedule"}, {Key: "OS", Value: "Windows", Effect: "NoExecute"},
		{Key: "windows", Value: "true", Effect: "NoSchedule"}, {Key: "dedicated", Value: "x", Effect: "NoSchedule"},
		{Key: "node.kubernetes.io/not-ready", Value: "", Effect: "NoSchedule"},
		{Key: "os", Value: "windows", Effect: "PreferNoSchedule"},
	}
	taint := taints[d.IntN(len(taints))]
	for i := range d.IntN(3) {
		f.Nodes = append(f.Nodes,
			policy.Node{Name: fmt.Sprintf("l%d", i), OS: "linux", Labels: map[string]string{"zone": d.pick("a", "b"),
				"kubernetes.io/arch": "amd64"}})
	}
	builds := []int{14393, 17763, 20348, 25398, 26100}
	for i := range d.IntN(4) {
		b := cluster(builds[d.IntN(len(builds))]).Nodes[0].Build
		n := policy.Node{
			Name:   fmt.Sprintf("w%d", i),
			OS:     "windows",
			Build:  b,
			Labels: map[string]string{"zone": d.pick("a", "b"), "kubernetes.io/arch": "amd64"},
		}
		if d.one(2) {
			n.Taints = []policy.Taint{taint}
		}
		f.Nodes = append(f.Nodes, n)
	}
	return f
}

// upstream are the nodes as the scheduler's library wants them.
func upstream(n policy.Node) *corev1.Node {
	labels := map[string]string{"kubernetes.io/os": n.OS, "beta.kubernetes.io/os": n.OS}
	maps.Copy(labels, n.Labels)
	if n.OS == "windows" {
		labels[policy.BuildLabel] = n.Build.Label()
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: labels}}
}

// TestPlaceProperties places random pods in random clusters.
func TestPlaceProperties(t *testing.T) {
	evaluator, err := psapolicy.NewEvaluator(psapolicy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	judge := rule.New(policy.Facts{})
	count := 4000
	if testing.Short() {
		count = 400
	}
	kinds := map[string]int{}
	for seed := range count {
		d := dice{rand.New(rand.NewPCG(uint64(seed), 1))}
		object, facts := d.pod(t), d.facts()
		level := psa.LevelVersion{Level: psa.Level(d.pick("privileged", "baseline", "restricted")),
			Version: psa.LatestVersion()}
		facts.Namespaces["ns"].Labels[policy.EnforceLevel] = string(level.Level)
		if d.one(2) {
			level.Version = psa.MajorMinorVersion(1, 20+d.IntN(15))
			facts.Namespaces["ns"].Labels[policy.EnforceVersion] = level.Version.String()
		}
		before := toPod(t, object)
		after, placements := checkPlacement(t, judge, object, facts)
		for _, p := range placements {
			kinds[p.OS]++
			if len(p.Edits) > 0 {
				kinds["changed"]++
			}
			if len(p.Builds) > 0 {
				kinds["confined to builds"]++
			}
		}
		pod := toPod(t, after)
		checkRights(t, evaluator, level, before, pod)
		checkTolerationsAdded(t, before, pod)
		checkNodes(t, facts, object, before, pod, placements)
		if t.Failed() {
			text, _ := json.MarshalIndent(object, "", " ")
			t.Fatalf("seed %d, %s\n%s\nfacts %+v", seed, level.String(), text, facts)
		}
	}
	t.Logf("%d pods: %v", count, kinds)
}

// checkRights: what the namespace's profile says of the pod stays as it is, in
// both directions.
func checkRights(t *testing.T, evaluator psapolicy.Evaluator, level psa.LevelVersion, before, after *corev1.Pod) {
	t.Helper()
	was := psapolicy.AggregateCheckResults(evaluator.EvaluatePod(level, &before.ObjectMeta, &before.Spec))
	is := psapolicy.AggregateCheckResults(evaluator.EvaluatePod(level, &after.ObjectMeta, &after.Spec))
	if was.Allowed != is.Allowed {
		t.Errorf("%s: allowed %v before, %v after: %s%s", level.String(), was.Allowed, is.Allowed,
			was.ForbiddenDetail(), is.ForbiddenDetail())
	}
}

func checkTolerationsAdded(t *testing.T, before, after *corev1.Pod) {
	t.Helper()
	for _, tol := range after.Spec.Tolerations[min(len(before.Spec.Tolerations), len(after.Spec.Tolerations)):] {
		if tol.Key == "" || tol.Operator != corev1.TolerationOpEqual || tol.Effect == "" {
			t.Errorf("added a toleration that is too broad: %+v", tol)
		}
	}
}

// checkNodes: by the scheduler's own library, the pod may use no node that it
// could not use before; and where a node fits, every Windows node that is left
// runs all its images.
func checkNodes(t *testing.T, facts policy.Facts, object map[string]any, before, after *corev1.Pod,
	placements []Placement) {
	t.Helper()
	p := policy.Parse(object).Under(facts)[0].Pods[0]
	if !admitClass(before, facts) || !admitClass(after, facts) {
		return
	}
	was, is := nodeaffinity.GetRequiredNodeAffinity(before), nodeaffinity.GetRequiredNodeAffinity(after)
	for _, n := range facts.Nodes {
		could, err := was.Match(upstream(n))
		if err != nil {
			return // upstream refuses the affinity
		}
		can, err := is.Match(upstream(n))
		if err != nil {
			t.Errorf("the affinity is not valid any more: %v", err)
		}
		place := placements[0]
		fit := len(p.Fitting([]*policy.Node{&n}, strings.Contains(facts.RuntimeClasses[class(after)].Handler,
			"hypervisor"))) == 1
		switch {
		case can && !could:
			t.Errorf("node %s may be used now", n.Name)
		case place.OS == "windows" && can && n.OS != "windows" && p.Spec.Find("nodeName").Raw() == nil &&
			facts.ClassKnown(class(after)):
			t.Errorf("a pod for Windows may use the Linux node %s", n.Name)
		case place.OS == "windows" && can && !fit && len(place.Builds) > 0:
			t.Errorf("the pod is confined to builds, and may use %s, which cannot run it", n.Name)
		case place.OS == "linux" && could && !can && n.OS == "linux":
			t.Errorf("a pod for Linux may not use the Linux node %s any more", n.Name)
		case place.OS == "windows" && could && !can && fit && n.OS == "windows" && len(place.Builds) > 0:
			t.Errorf("the pod may not use %s any more, which fits", n.Name)
		}
	}
}

// admitClass merges what the pod's RuntimeClass selects, as the API server
// does; false if it would refuse the pod.
func admitClass(pod *corev1.Pod, facts policy.Facts) bool {
	for k, v := range facts.RuntimeClasses[class(pod)].NodeSelector {
		if own, ok := pod.Spec.NodeSelector[k]; ok && own != v {
			return false
		}
		if pod.Spec.NodeSelector == nil {
			pod.Spec.NodeSelector = map[string]string{}
		}
		pod.Spec.NodeSelector[k] = v
	}
	return true
}

func class(pod *corev1.Pod) string {
	if pod.Spec.RuntimeClassName == nil {
		return ""
	}
	return *pod.Spec.RuntimeClassName
}

// TestPlaceTemplates places the same pods as templates: what a user wrote is
// only added to.
func TestPlaceTemplates(t *testing.T) {
	judge := rule.New(policy.Facts{})
	for seed := range 500 {
		d := dice{rand.New(rand.NewPCG(uint64(seed), 2))}
		pod, facts := d.pod(t), d.facts()
		object := map[string]any{
			"apiVersion": "apps/v1", "kind": d.pick("DaemonSet", "Deployment", "Job"),
			"metadata": map[string]any{"name": "x", "namespace": "ns"},
			"spec":     map[string]any{"template": map[string]any{"metadata": pod["metadata"], "spec": pod["spec"]}},
		}
		_, placements := checkPlacement(t, judge, object, facts)
		for _, p := range placements {
			if slices.ContainsFunc(p.Edits, func(e tree.Edit) bool { return e.Op != tree.Add }) {
				t.Errorf("seed %d: a template loses fields: %+v", seed, p.Edits)
			}
		}
		for _, f := range Check(judge, policy.Parse(object), facts) {
			if !isRule(f.Code) || f.Message == "" {
				t.Errorf("seed %d: finding without a rule or a text: %+v", seed, f)
			}
		}
		if t.Failed() {
			return
		}
	}
}

// TestValidateIsJudge: the findings of Validate for a placed pod are those of
// Judge, which places it once more.
func TestValidateIsJudge(t *testing.T) {
	judge := rule.New(policy.Facts{})
	count := 2000
	if testing.Short() {
		count = 200
	}
	for seed := range count {
		d := dice{rand.New(rand.NewPCG(uint64(seed), 3))}
		object, facts := d.pod(t), d.facts()
		var edits []tree.Edit
		placements := Pods(judge, policy.Parse(object), facts)
		for _, p := range placements {
			edits = append(edits, p.Edits...)
		}
		placed, _, err := tree.Apply(object, edits)
		if err != nil {
			t.Fatal(err)
		}
		// Infos are about what the first placement did.
		serious := func(all []policy.Finding) []policy.Finding {
			return slices.DeleteFunc(all, func(f policy.Finding) bool { return f.Severity <= policy.Info })
		}
		got, want := serious(CheckPlaced(judge, policy.Parse(placed), facts, placements)),
			serious(Check(judge, policy.Parse(placed), facts))
		if !reflect.DeepEqual(got, want) {
			text, _ := json.MarshalIndent(object, "", " ")
			t.Fatalf("seed %d: Validate %+v\nJudge %+v\n%s\nfacts %+v", seed, got, want, text, facts)
		}
	}
}

// isRule reports whether a rule has the code.
func isRule(code string) bool {
	return slices.ContainsFunc(rule.All(), func(r rule.Rule) bool { return r.Code == code })
}

// cluster is a cluster of Windows nodes of the given builds.
func cluster(builds ...int) policy.Facts {
	var f policy.Facts
	for _, n := range builds {
		b, _ := winver.Find(n)
		f.Nodes = append(f.Nodes, policy.Node{Name: "w" + b.Version, OS: "windows", Build: b})
	}
	return f
}

func tainted(f policy.Facts, t policy.Taint) policy.Facts {
	for i := range f.Nodes {
		f.Nodes[i].Taints = []policy.Taint{t}
	}
	return f
}
