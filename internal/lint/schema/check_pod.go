// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package schema

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// pod checks that the parts of a pod are consistent.
func (w *walk) pod(v tree.Value) {
	if v.Find("containers").Len() == 0 {
		w.report(codeMissing, v.Get("containers"), "add one", "a pod needs a container")
	}
	w.oneOf(v.Find("restartPolicy"), "Always", "OnFailure", "Never", "")
	w.scheduler(v.Get("schedulerName"))
	w.oneOf(v.Find("dnsPolicy"), "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None", "")
	if n, ok := number(v.Find("activeDeadlineSeconds").Raw()); ok && n < 1 {
		w.invalid(v.Get("activeDeadlineSeconds"), "write 1 or more, or remove it", "%v is less than 1", n)
	}
	if v.Find("dnsPolicy").Str() == "None" && v.Find("dnsConfig", "nameservers").Len() == 0 {
		w.report(codeMissing, v.Get("dnsConfig", "nameservers"), "add one",
			"dnsPolicy None needs dnsConfig.nameservers")
	}
	for _, server := range v.Find("dnsConfig", "nameservers").Items() {
		w.format(server, address)
	}
	w.labels(v.Get("nodeSelector"))
	w.format(v.Find("hostname"), validation.IsDNS1123Label)
	w.format(v.Find("serviceAccountName"), validation.IsDNS1123Subdomain)
	w.format(v.Find("runtimeClassName"), validation.IsDNS1123Subdomain)

	var containers, volumes []tree.Value
	for _, list := range []string{"initContainers", "containers"} {
		for _, c := range v.Find(list).Items() {
			containers = append(containers, c.Get("name"))
		}
	}
	w.unique("the container", containers)
	for _, volume := range v.Find("volumes").Items() {
		volumes = append(volumes, volume.Get("name"))
	}
	w.unique("the volume", volumes)
	w.mounts(v)
	for _, c := range v.Find("initContainers").Items() {
		if c.Find("restartPolicy").Str() == "Always" {
			continue // a sidecar
		}
		for _, name := range some(c, "livenessProbe", "readinessProbe", "startupProbe", "lifecycle") {
			w.report(codeExclusive, c.Get(name), "remove it, or write restartPolicy: Always for a sidecar",
				"an init container has no %s", name)
		}
	}
}

// scheduler reports a mistyped name of the default scheduler. Others may have any
// name.
func (w *walk) scheduler(v tree.Value) {
	const usual = "default-scheduler"
	n := distance(v.Str(), usual, 2)
	if v.Str() != "" && n > 0 && n <= 2 && !strings.ContainsAny(v.Str(), "0123456789") {
		w.add(policy.Warning, codeValue, v, "write "+usual+", or remove it",
			"no scheduler takes the pod unless one is called %q", clip(v.Str()))
	}
}

// mounts checks that the volumes that containers mount exist. A StatefulSet
// adds the volumes of its claims.
func (w *walk) mounts(v tree.Value) {
	known, sure := map[string]bool{}, true
	for _, volume := range v.Find("volumes").Items() {
		known[volume.Find("name").Str()] = true
		sure = sure && !template(volume.Find("name").Str())
	}
	for _, claim := range w.root.Find("spec", "volumeClaimTemplates").Items() {
		known[claim.Find("metadata", "name").Str()] = true
	}
	for _, list := range []string{"initContainers", "containers"} {
		for _, c := range v.Find(list).Items() {
			for _, m := range c.Find("volumeMounts").Items() {
				name := m.Get("name")
				if s := name.Str(); s != "" && sure && !known[s] && !template(s) {
					w.report(codeReference, name, "add the volume, or correct the name",
						"the pod has no volume %q", clip(s))
				}
			}
		}
	}
}

// claimed checks a volume that is a claim.
func (w *walk) claimed(v tree.Value) { w.missing(v, "claimName") }

// hostPath checks a volume that is a folder of the node.
func (w *walk) hostPath(v tree.Value) {
	w.missing(v, "path")
	parts := strings.FieldsFunc(v.Find("path").Str(), func(r rune) bool { return r == '/' || r == '\\' })
	if slices.Contains(parts, "..") {
		w.invalid(v.Get("path"), "write the whole path", "%q has .. in it", clip(v.Find("path").Str()))
	}
}

// volume checks that a volume has one source.
func (w *walk) volume(v tree.Value) {
	w.missing(v, "name")
	w.format(v.Find("name"), validation.IsDNS1123Label)
	sources := slices.DeleteFunc(slices.Sorted(slices.Values(v.Keys())), func(key string) bool {
		return key == "name" || !v.Get(key).Set()
	})
	if len(sources) > 1 {
		w.report(codeExclusive, v.Get(sources[1]), "remove all but one", "a volume has one source, and not %s and %s",
			sources[0], sources[1])
	}
}

// toleration checks the combination of its fields.
func (w *walk) toleration(v tree.Value) {
	operator := v.Find("operator").Str()
	if w.checker.version != 0 && w.checker.version < 35 {
		w.oneOf(v.Find("operator"), "Exists", "Equal", "")
	} else {
		w.oneOf(v.Find("operator"), "Exists", "Equal", "Lt", "Gt", "")
	}
	w.oneOf(v.Find("effect"), "NoSchedule", "PreferNoSchedule", "NoExecute", "")
	switch {
	case operator == "Exists" && v.Find("value").Str() != "":
		w.report(codeExclusive, v.Get("value"), "remove the value, or write operator: Equal",
			"a toleration with operator Exists has no value")
	case v.Find("key").Str() == "" && operator != "Exists":
		w.report(codeMissing, v.Get("operator"), "write operator: Exists, or a key",
			"a toleration without a key needs operator Exists")
	}
	if v.Find("tolerationSeconds").Set() && v.Find("effect").Str() != "NoExecute" {
		w.invalid(v.Get("tolerationSeconds"), "remove it, or write effect: NoExecute",
			"only for the effect NoExecute")
	}
	if key := v.Find("key").Str(); key != "" {
		w.key(v.Get("key"), key)
	}
}
