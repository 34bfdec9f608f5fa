// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package validation

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/place"
	"github.com/mullion-k8s/mullion/internal/policy/policytest"
	"github.com/mullion-k8s/mullion/internal/policy/rule"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// mixed returns a cluster with a Linux node and tainted Windows nodes of the builds
// that a manifest may meet.
func mixed(t *testing.T) policy.Facts {
	t.Helper()
	f := policy.Facts{Kubernetes: version, Nodes: []policy.Node{{Name: "l1", OS: "linux"}}}
	for _, name := range []string{"2019", "2022", "2025"} {
		b, err := winver.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		f.Nodes = append(f.Nodes, policy.Node{
			Name:   "w" + name,
			OS:     "windows",
			Build:  b,
			Taints: []policy.Taint{{Key: "os", Value: "windows", Effect: "NoSchedule"}},
		})
	}
	return f
}

// placed returns the object after placement.
func placed(t *testing.T, judge *rule.Set, object map[string]any, facts policy.Facts) map[string]any {
	t.Helper()
	var edits []tree.Edit
	for _, p := range place.Pods(judge, policy.Parse(object), facts) {
		edits = append(edits, p.Edits...)
	}
	after, _, err := tree.Apply(object, edits)
	if err != nil {
		t.Fatal(err)
	}
	return after
}

// TestPlacementKeepsObjectsValid places the objects of policy's own golden
// files: what the API server takes before, it takes after.
func TestPlacementKeepsObjectsValid(t *testing.T) {
	facts := mixed(t)
	judge := rule.New(facts)
	valid := 0
	for name, ar := range testenv.Archives(t, testenv.Repo("internal", "policy", "place", "testdata", "*.txtar")) {
		for _, f := range ar.Files {
			if f.Name != "objects.yaml" {
				continue
			}
			for _, object := range policytest.Documents(t, f.Data) {
				if object["kind"] == nil || object["kind"] == "List" || len(upstream(object)) > 0 {
					continue
				}
				valid++
				if errs := upstream(placed(t, judge, object, facts)); len(errs) > 0 {
					t.Errorf("%s: refused once it is placed: %v\n%v", name, errs, object)
				}
			}
		}
	}
	if valid < 100 {
		t.Errorf("%d of the objects are valid, want 100 or more: the others show nothing", valid)
	}
}

// injected are fields that policies and service meshes write into every pod.
func injected() (pod, container []string) {
	return []string{
			`{}`, `{hostPID: true}`, `{hostUsers: true}`, `{hostUsers: false, securityContext: {runAsUser: 1}}`,
			`{shareProcessNamespace: false}`,
			`{securityContext: {fsGroup: 1, fsGroupChangePolicy: OnRootMismatch}}`, `{securityContext: {runAsUser: 0}}`,
			`{securityContext: {runAsUser: 1000, runAsGroup: 1000, supplementalGroups: [1], seLinuxOptions: {level: ` +
				`"s0:c1"}}}`,
			`{securityContext: {seccompProfile: {type: RuntimeDefault}, supplementalGroups: []}}`,
			`{securityContext: {sysctls: [{name: net.core.somaxconn, value: "1"}]}}`,
			`{securityContext: {appArmorProfile: {type: Unconfined}}}`,
			`{securityContext: {supplementalGroupsPolicy: Strict, seLinuxChangePolicy: MountOption}}`,
			`{resources: {limits: {memory: 1Gi}}}`,
		}, []string{
			`{}`, `{privileged: false}`, `{privileged: true}`,
			`{allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}, ` +
				`readOnlyRootFilesystem: true, runAsNonRoot: true}`,
			`{capabilities: {add: [NET_ADMIN]}}`, `{procMount: Default, seLinuxOptions: {}}`,
			`{runAsUser: 1000, runAsGroup: 1000}`, `{appArmorProfile: {type: RuntimeDefault}}`,
			`{readOnlyRootFilesystem: false}`,
		}
}

// TestPlacementWithInjectedFields: whatever was injected into a Windows pod,
// placement makes none that works one that the API server refuses; and a pod
// that a controller made, which was refused for what it does not need on
// Windows, is not any more.
func TestPlacementWithInjectedFields(t *testing.T) {
	facts := mixed(t)
	judge := rule.New(facts)
	pods, containers := injected()
	count, fixed, declared := 0, 0, 0
	for _, os := range []string{`{}`, `{os: {name: windows}}`} {
		for _, meta := range []string{`{}`, `{ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, ` +
			`uid: u, controller: true}]}`} {
			for _, p := range pods {
				for _, c := range containers {
					object := policytest.Decode(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: ns}
spec: {containers: [{name: c, image: "mcr.microsoft.com/windows/nanoserver:ltsc2022", securityContext: %s}]}`, c))
					spec := object["spec"].(map[string]any)
					policytest.Merge(object["metadata"].(map[string]any), policytest.Decode(t, meta))
					policytest.Merge(spec, policytest.Decode(t, p))
					policytest.Merge(spec, policytest.Decode(t, os))
					before, after := upstream(object), placed(t, judge, object, facts)
					errs := upstream(after)
					count++
					switch {
					case len(before) == 0 && len(errs) > 0:
						text, _ := json.Marshal(object)
						t.Errorf("refused once it is placed: %v\n%s", errs, text)
					case len(before) > 0 && len(errs) == 0:
						fixed++
						if meta == `{}` || os == `{}` {
							t.Errorf("placement removed fields that the pod's author set: %v", before)
						}
					}
					if os == `{}` && after["spec"].(map[string]any)["os"] != nil {
						declared++
					}
				}
			}
		}
	}
	t.Logf("%d pods; %d got spec.os.name, %d are not refused any more", count, declared, fixed)
}
