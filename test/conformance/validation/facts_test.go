// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package validation

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/apis/core"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/features"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/policytest"
	"github.com/mullion-k8s/mullion/internal/policy/rule"
	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// fact is something that is true of Windows pods: the API server refuses an
// object (WIN0xx), or accepts it and the node refuses it (WIN2xx).
type fact struct {
	id     string // code of our rule
	object string // as tweak reads it
	facts  policy.Facts
	field  string          // of our finding
	there  string          // of upstream's error, if it is another
	ours   policy.Severity // of our finding; None: upstream alone speaks
	unset  policy.Severity // the same without spec.os.name
	theirs string          // in upstream's message; "" if it takes the object
	gate   featuregate.Feature
}

const forbidden = "cannot be set for a windows pod"

// refused returns the facts that the API server knows.
func refused() []fact {
	pod := func(id, path, value string) fact {
		at := "spec." + path
		if sub, ok := strings.CutPrefix(path, "securityContext."); ok {
			return fact{
				id:     id,
				object: "spec: {securityContext: {" + sub + ": " + value + "}}",
				field:  at,
				ours:   policy.Error,
				unset:  policy.Warning,
				theirs: forbidden,
			}
		}
		return fact{
			id:     id,
			object: "spec: {" + path + ": " + value + "}",
			field:  at,
			ours:   policy.Error,
			unset:  policy.Warning,
			theirs: forbidden,
		}
	}
	container := func(id, path, value string) fact {
		return fact{
			id:     id,
			object: "c: {securityContext: {" + path + ": " + value + "}}",
			field:  "spec.containers[0].securityContext." + path,
			ours:   policy.Error,
			unset:  policy.Warning,
			theirs: forbidden,
		}
	}
	without := func(f fact, unset policy.Severity) fact { f.unset = unset; return f }
	return []fact{
		pod("WIN001", "securityContext.appArmorProfile", "{type: RuntimeDefault}"),
		pod("WIN002", "securityContext.seLinuxOptions", "{level: 's0:c1'}"),
		pod("WIN003", "hostUsers", "true"), pod("WIN003", "hostUsers", "false"),
		pod("WIN004", "hostPID", "true"),
		pod("WIN005", "hostIPC", "true"),
		pod("WIN006", "securityContext.seccompProfile", "{type: RuntimeDefault}"),
		pod("WIN007", "securityContext.fsGroup", "2000"),
		pod("WIN008", "securityContext.fsGroupChangePolicy", "Always"),
		pod("WIN009", "securityContext.sysctls", "[{name: kernel.shm_rmid_forced, value: '1'}]"),
		pod("WIN010", "shareProcessNamespace", "true"), pod("WIN010", "shareProcessNamespace", "false"),
		pod("WIN011", "securityContext.runAsUser", "1000"), pod("WIN011", "securityContext.runAsUser", "0"),
		pod("WIN012", "securityContext.runAsGroup", "1000"),
		pod("WIN013", "securityContext.supplementalGroups", "[1000]"),
		pod("WIN013", "securityContext.supplementalGroups", "[]"),
		pod("WIN014", "securityContext.supplementalGroupsPolicy", "Merge"),
		without(pod("WIN014", "securityContext.supplementalGroupsPolicy", "Strict"), policy.Error),
		pod("WIN015", "securityContext.seLinuxChangePolicy", "Recursive"),
		container("WIN016", "appArmorProfile", "{type: Unconfined}"), container("WIN017", "seLinuxOptions", "{}"),
		container("WIN018", "seccompProfile", "{type: Unconfined}"),
		container("WIN019", "capabilities", "{drop: [ALL]}"), container("WIN019", "capabilities", "{}"),
		container("WIN020", "readOnlyRootFilesystem", "true"), container("WIN020", "readOnlyRootFilesystem", "false"),
		container("WIN021", "privileged", "true"), container("WIN021", "privileged", "false"),
		container("WIN022", "allowPrivilegeEscalation", "false"),
		container("WIN023", "procMount", "Default"),
		container("WIN024", "runAsUser", "1000"),
		container("WIN025", "runAsGroup", "1000"),
		{id: "WIN026", object: "spec: {resources: {limits: {memory: 1Gi}}}", field: "spec.resources",
			ours: policy.Error, unset: policy.Error, theirs: "may not be set for a windows pod"},
		{id: "WIN027", object: "c: {lifecycle: {stopSignal: SIGUSR1}}",
			field: "spec.containers[0].lifecycle.stopSignal", ours: policy.Warning, unset: policy.Warning,
			theirs: "SIGTERM", gate: features.ContainerStopSignals},
		{id: "WIN028", object: "{}", facts: policy.Facts{Subresource: "resize"}, field: "spec", ours: policy.Error,
			unset: policy.Error, there: "[]", theirs: "windows pods cannot be resized"},
		{id: "WIN029", object: "{}", field: "status.containerStatuses[0].user.linux",
			theirs: "cannot be set for a windows pod"},
		{id: "WIN030", object: "spec: {os: {name: Windows}}", field: "spec.os.name", ours: policy.Error,
			there: "spec.os", theirs: "Unsupported value"},
		{id: "WIN030", object: "spec: {os: {name: ''}}", field: "spec.os.name", ours: policy.Error,
			theirs: "Required value"},
		{id: "WIN031", object: "{spec: {os: {name: linux}, nodeSelector: null, securityContext: {windowsOptions: " +
			"{}}}, c: {image: x}}", field: "spec.securityContext.windowsOptions", ours: policy.Error,
			theirs: "windows options cannot be set for a linux pod"},
		{id: "WIN031", object: "{spec: {os: {name: linux}, nodeSelector: null}, c: {image: x, securityContext: " +
			"{windowsOptions: {runAsUserName: u}}}}", field: "spec.containers[0].securityContext.windowsOptions",
			ours: policy.Error, theirs: "windows options cannot be set for a linux pod"},
	}
}

func nodes(builds ...int) policy.Facts {
	f := policy.Facts{Kubernetes: version}
	for _, n := range builds {
		b, _ := winver.Find(n)
		f.Nodes = append(f.Nodes, policy.Node{Name: "w" + b.Version, OS: "windows", Build: b})
	}
	return f
}

func images(f policy.Facts, ref string, i policy.Image) policy.Facts {
	f.Images = map[string]policy.Image{ref: i}
	return f
}

func classes(name string, c policy.RuntimeClass) policy.Facts {
	return policy.Facts{RuntimeClasses: map[string]policy.RuntimeClass{name: c}}
}

// failing returns the facts that only nodes know.
//
// Length: a table.
func failing() []fact {
	volume := func(id, v, at string) fact {
		return fact{
			id:     id,
			object: "spec: {volumes: [{name: v, " + v + "}]}",
			field:  "spec.volumes[0]." + at,
			ours:   policy.Error,
		}
	}
	hostProcess := func(options, rest string) string {
		return "spec: {hostNetwork: true, securityContext: {windowsOptions: {hostProcess: true" + options +
			"}}" + rest + "}"
	}
	const local = `, runAsUserName: 'NT AUTHORITY\Local service'`
	old := nodes(20348)
	old.Nodes[0].Containerd = "1.5.9"
	const sc2022 = "mcr.microsoft.com/windows/servercore:ltsc2022"
	index := policy.Image{Index: true,
		Platforms: []policy.Platform{{OS: "windows", Arch: "amd64", OSVersion: "10.0.17763.1"}}}
	return []fact{
		{id: "WIN201", object: "spec: {nodeSelector: {kubernetes.io/os: linux}}",
			field: "spec.nodeSelector[kubernetes.io/os]", ours: policy.Error},
		{id: "WIN202", object: "meta: {labels: {kubernetes.io/os: windows}}",
			field: "metadata.labels[kubernetes.io/os]", ours: policy.Warning},
		{id: "WIN203", object: "spec: {nodeName: l}",
			facts: policy.Facts{Nodes: []policy.Node{{Name: "l", OS: "linux"}}}, field: "spec.nodeName",
			ours: policy.Error},
		{id: "WIN204", object: "spec: {securityContext: {runAsNonRoot: true, windowsOptions: {runAsUserName: " +
			"containeradministrator}}}", field: "spec.securityContext.windowsOptions.runAsUserName",
			ours: policy.Error},
		{id: "WIN205", object: "spec: {securityContext: {runAsNonRoot: true}}",
			facts: images(nodes(), sc2022, policy.Image{User: "ContainerAdministrator"}),
			field: "spec.containers[0].image", ours: policy.Warning},
		{id: "WIN206", object: "spec: {securityContext: {runAsNonRoot: true}}",
			field: "spec.securityContext.runAsNonRoot", ours: policy.Warning},
		{id: "WIN207", object: "spec: {securityContext: {windowsOptions: {runAsUserName: bob}}}",
			field: "spec.securityContext.windowsOptions.runAsUserName", ours: policy.Info},
		volume("WIN208", "nfs: {server: s, path: /x}", "nfs"),
		volume("WIN209", "iscsi: {targetPortal: 10.0.0.1, iqn: 'iqn.2001-04.com.example:x', lun: 0}", "iscsi"),
		volume("WIN210", "emptyDir: {medium: HugePages}", "emptyDir.medium"),
		{id: "WIN210", object: "c: {resources: {limits: {hugepages-2Mi: 4Mi, memory: 1Gi}}}",
			field: "spec.containers[0].resources.limits.hugepages-2Mi", ours: policy.Error},
		{id: "WIN211", object: "{c: {volumeDevices: [{name: v, devicePath: /dev/x}]}, spec: {volumes: [{name: v, " +
			"persistentVolumeClaim: {claimName: c}}]}}", field: "spec.containers[0].volumeDevices",
			ours: policy.Warning},
		volume("WIN212", `hostPath: {path: 'C:\x', type: CharDevice}`, "hostPath.type"),
		volume("WIN213", `hostPath: {path: '\\.\pipe\x', type: Socket}`, "hostPath.type"),
		{id: "WIN214", object: `{c: {volumeMounts: [{name: v, mountPath: 'C:\v', readOnly: true, mountPropagation: ` +
			`None, recursiveReadOnly: Enabled}]}, spec: {volumes: [{name: v, emptyDir: {}}]}}`,
			field: "spec.containers[0].volumeMounts[0].recursiveReadOnly", ours: policy.Error},
		volume("WIN215", "image: {reference: 'example.com/x:1'}", "image"),
		{id: "WIN216", object: "{c: {volumeMounts: [{name: v, mountPath: 'C:'}]}, spec: {volumes: [{name: v, " +
			"emptyDir: {}}]}}", field: "spec.containers[0].volumeMounts[0].mountPath", ours: policy.Error},
		{id: "WIN217", object: "spec: {resourceClaims: [{name: gpu, resourceClaimName: gpu}]}",
			field: "spec.resourceClaims", ours: policy.Warning},
		{id: "WIN218", object: hostProcess(local, `, volumes: [{name: v, hostPath: {path: '\\.\pipe\x'}}]`),
			field: "spec.volumes[0].hostPath.path", ours: policy.Error},
		{id: "WIN219", object: hostProcess("", ""),
			field: "spec.containers[0].securityContext.windowsOptions.runAsUserName", ours: policy.Error},
		{id: "WIN220", object: hostProcess(`, runAsUserName: 'NT Authority\SYSTEM'`, ""),
			field: "spec.securityContext.windowsOptions.runAsUserName", ours: policy.Warning},
		{id: "WIN221", object: "c: {image: nginx}",
			facts: images(nodes(), "nginx", policy.Image{Platforms: []policy.Platform{{OS: "linux"}}}),
			field: "spec.containers[0].image", ours: policy.Error},
		{id: "WIN222", object: "c: {image: x}", facts: images(nodes(20348), "x", index),
			field: "spec.containers[0].image", ours: policy.Error},
		{id: "WIN223", object: "c: {image: x}",
			facts: images(nodes(20348), "x", policy.Image{Platforms: index.Platforms}),
			field: "spec.containers[0].image", ours: policy.Error},
		{id: "WIN224", object: "spec: {runtimeClassName: x}",
			facts: policy.Facts{RuntimeClasses: map[string]policy.RuntimeClass{}}, field: "spec.runtimeClassName",
			ours: policy.Error},
		{id: "WIN225", object: "spec: {runtimeClassName: x, nodeSelector: {a: '1'}}",
			facts: classes("x", policy.RuntimeClass{NodeSelector: map[string]string{"a": "2"}}),
			field: "spec.nodeSelector.a", ours: policy.Error},
		{id: "WIN226", object: "obj: {apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: r}, handler: " +
			"mine, scheduling: {nodeSelector: {kubernetes.io/os: windows}}}", field: "handler", ours: policy.Warning},
		{id: "WIN227", object: "c: {command: [/bin/sh, -c, ls]}", field: "spec.containers[0].command[0]",
			ours: policy.Error},
		{id: "WIN228", object: "spec: {volumes: [{name: v, csi: {driver: d.example.com, fsType: ext4}}]}",
			field: "spec.volumes[0].csi.fsType", ours: policy.Warning},
		{id: "WIN229", object: "c: {ports: [{containerPort: 80, hostPort: 80}]}",
			field: "spec.containers[0].ports[0].hostPort", ours: policy.Info},
		{id: "WIN230", object: "spec: {ephemeralContainers: [{name: e, image: '" + sc2022 +
			"', targetContainerName: c}]}", field: "spec.ephemeralContainers[0].targetContainerName",
			ours: policy.Warning},
		{id: "WIN231", object: `{c: {volumeMounts: [{name: v, mountPath: 'C:\v', subPath: 'C:\x'}]}, spec: {volumes: ` +
			`[{name: v, emptyDir: {}}]}}`, field: "spec.containers[0].volumeMounts[0].subPath", ours: policy.Error},
		{id: "WIN231", object: `{c: {volumeMounts: [{name: v, mountPath: 'C:\v', subPath: '..\x'}]}, spec: {volumes: ` +
			`[{name: v, emptyDir: {}}]}}`, field: "spec.containers[0].volumeMounts[0].subPath", ours: policy.Error},
		{id: "WIN232", object: hostProcess(local, ""), facts: old, field: "spec", ours: policy.Warning},
	}
}

// says returns our finding about a fact; the one at the field if there are
// several.
func says(object map[string]any, facts policy.Facts, id, at string) (out policy.Finding, ok bool) {
	facts.Kubernetes = version
	for _, f := range rule.Check(object, facts) {
		if f.Code == id && (!ok || f.Field == at) {
			out, ok = f, true
		}
	}
	return out, ok
}

// upstream returns upstream's verdict on the object of a fact.
func (f fact) upstream(t *testing.T, object map[string]any) field.ErrorList {
	switch f.id {
	case "WIN028":
		return resize(t, object)
	case "WIN029":
		return status(t, object)
	}
	return upstream(object)
}

// status gives the pod a status that names a Linux user, as only a kubelet
// writes it.
func status(t *testing.T, object map[string]any) field.ErrorList {
	t.Helper()
	before := stored(t, object)
	after := before.DeepCopy()
	after.Status.ContainerStatuses = []core.ContainerStatus{{Name: "c",
		User: &core.ContainerUser{Linux: &core.LinuxContainerUser{}}}}
	return corevalidation.ValidatePodStatusUpdate(after, before,
		corevalidation.PodValidationOptions{ResourceIsPod: true})
}

// TestFacts walks every fact: upstream or we refuse
// its object or, where it does run in some way, warn of it, and our words name
// the field and the fix. The table of who says what is a golden file.
func TestFacts(t *testing.T) {
	var table strings.Builder
	count := map[string]int{}
	seen := map[string]bool{}
	for _, f := range slices.Concat(refused(), failing()) {
		t.Run(f.id, func(t *testing.T) {
			if f.gate != "" {
				featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, f.gate, true)
			}
			object := policytest.Tweak(t, f.object)
			theirs := f.check(t, object)
			verdict, words := "nothing", ""
			if ours, ok := says(object, f.facts, f.id, f.field); ok {
				verdict, words = ours.Code+" "+ours.Severity.String(), ours.Message+"; fix: "+ours.Fix
				checkWords(t, f, ours)
			} else if f.ours != policy.None {
				t.Errorf("no rule of fact %s says a thing", f.id)
			}
			if !seen[f.id] {
				count[f.id[:4]]++
				switch {
				case theirs != "":
					count["upstream"]++
				case f.ours == policy.Error:
					count["ours"]++
				default:
					count["warned"]++
				}
			}
			seen[f.id] = true
			if theirs == "" {
				theirs = "takes it"
			}
			fmt.Fprintf(&table, "%s %s\n  upstream  %s\n  mullion   %s: %s\n", f.id, f.field, theirs, verdict, words)
		})
	}
	for section, n := range map[string]int{"WIN0": 31, "WIN2": 32} {
		for i := 1; i <= n; i++ {
			if id := fmt.Sprintf("%s%02d", section, i); !seen[id] {
				t.Errorf("fact %s has no object", id)
			}
		}
	}
	sum := fmt.Sprintf("%d facts WIN0 and %d facts WIN2: %d refused by upstream's validation, %d more by ours alone, "+
		"%d run in some way and are warned of\n",
		count["WIN0"], count["WIN2"], count["upstream"], count["ours"], count["warned"])
	t.Log(sum)
	testenv.Golden(t, "facts.txt", []byte(table.String()+sum))
}

// check compares what upstream says with what the fact says of it, and returns
// its first word on the field.
func (f fact) check(t *testing.T, object map[string]any) string {
	got := f.upstream(t, object)
	switch {
	case f.theirs == "" && f.id == "WIN230": // only the ephemeralcontainers subresource takes these
	case f.theirs == "":
		if len(got) > 0 {
			t.Errorf("upstream refuses the object: %v", got)
		}
	default:
		for _, e := range got {
			if (e.Field == f.field || e.Field == f.there) && strings.Contains(e.Error(), f.theirs) {
				return e.Error()
			}
		}
		t.Errorf("upstream says %v; want %q at %s", got, f.theirs, f.field)
	}
	return ""
}

func checkWords(t *testing.T, f fact, ours policy.Finding) {
	switch {
	case ours.Severity != f.ours:
		t.Errorf("%s is of severity %v, want %v", ours.Code, ours.Severity, f.ours)
	case ours.Field != f.field:
		t.Errorf("%s names the field %s, want %s", ours.Code, ours.Field, f.field)
	case ours.Message == "" || ours.Fix == "":
		t.Errorf("%s has no text or no fix", ours.Code)
	}
}

// TestUnset: without spec.os.name upstream accepts nearly all of them, and only
// our rules say that the node ignores the field.
func TestUnset(t *testing.T) {
	for _, f := range refused() {
		if f.unset == policy.None || f.id == "WIN028" {
			continue
		}
		t.Run(f.id, func(t *testing.T) {
			object := withOS(policytest.Tweak(t, f.object), "")
			if got := upstream(object); len(got) > 0 {
				t.Errorf("upstream refuses it without spec.os.name: %v", got)
			}
			if ours, _ := says(object, f.facts, f.id, f.field); ours.Severity != f.unset || ours.Field != f.field {
				t.Errorf("got %v at %s, want %v at %s", ours.Severity, ours.Field, f.unset, f.field)
			}
		})
	}
}

// TestTemplates: in the template of every kind of workload both refuse the
// same field.
func TestTemplates(t *testing.T) {
	for _, f := range refused() {
		if slices.Contains([]string{"WIN027", "WIN028", "WIN029"}, f.id) { // a gate; a pod's subresources
			continue
		}
		for path, object := range workloads(policytest.Tweak(t, f.object)) {
			path, _, _ = strings.Cut(path, "/")
			at := path + strings.TrimPrefix(f.field, "spec")
			there := at
			if f.there != "" {
				there = path + strings.TrimPrefix(f.there, "spec")
			}
			if len(about(upstream(object), there)) == 0 {
				t.Errorf("%s: upstream takes %s of a %s", f.id, there, object["kind"])
			}
			if ours, _ := says(object, f.facts, f.id, at); ours.Severity != f.ours || ours.Field != at {
				t.Errorf("%s: got %v at %s of a %s, want %v at %s", f.id, ours.Severity, ours.Field, object["kind"],
					f.ours, at)
			}
		}
	}
}
