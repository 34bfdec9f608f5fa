// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package validation

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/apps"
	_ "k8s.io/kubernetes/pkg/apis/apps/install" // kinds and defaults
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/batch"
	_ "k8s.io/kubernetes/pkg/apis/batch/install" // kinds and defaults
	batchvalidation "k8s.io/kubernetes/pkg/apis/batch/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // kinds and defaults
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/node"
	_ "k8s.io/kubernetes/pkg/apis/node/install" // kinds and defaults
	nodevalidation "k8s.io/kubernetes/pkg/apis/node/validation"
	"k8s.io/kubernetes/pkg/capabilities"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/policytest"
	"github.com/mullion-k8s/mullion/internal/policy/rule"
)

// version is that of the validation that is linked.
const version policy.Version = 36

// TestMain lets HostProcess and privileged containers be, as every API server
// that runs with --allow-privileged does.
func TestMain(m *testing.M) {
	capabilities.Initialize(capabilities.Capabilities{AllowPrivileged: true})
	os.Exit(m.Run())
}

// upstream says what the API server has against an object that is to be
// created: decoded, defaulted, stripped of fields whose feature is off, and
// validated as the registry's strategies do it. A decoding error is a refusal
// of the whole object.
func upstream(object map[string]any) field.ErrorList {
	text, err := json.Marshal(object)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	obj, err := runtime.Decode(legacyscheme.Codecs.UniversalDecoder(), text)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, fmt.Errorf("decode: %w", err))}
	}
	switch o := obj.(type) {
	case *core.Pod:
		podutil.DropDisabledPodFields(o, nil)
		opts := podutil.GetValidationOptionsFromPodSpecAndMeta(&o.Spec, nil, &o.ObjectMeta, nil)
		opts.ResourceIsPod = true
		return corevalidation.ValidatePodCreate(o, opts)
	case *core.PodTemplate:
		return corevalidation.ValidatePodTemplate(o, options(&o.Template))
	case *core.ReplicationController:
		return corevalidation.ValidateReplicationController(o, options(o.Spec.Template))
	case *apps.Deployment:
		return appsvalidation.ValidateDeployment(o, options(&o.Spec.Template))
	case *apps.ReplicaSet:
		return appsvalidation.ValidateReplicaSet(o, options(&o.Spec.Template))
	case *apps.DaemonSet:
		return appsvalidation.ValidateDaemonSet(o, options(&o.Spec.Template))
	case *apps.StatefulSet:
		return appsvalidation.ValidateStatefulSet(o, options(&o.Spec.Template))
	case *batch.Job:
		return batchvalidation.ValidateJob(o,
			batchvalidation.JobValidationOptions{PodValidationOptions: options(&o.Spec.Template)})
	case *batch.CronJob:
		return batchvalidation.ValidateCronJobCreate(o, options(&o.Spec.JobTemplate.Spec.Template))
	case *node.RuntimeClass:
		return nodevalidation.ValidateRuntimeClass(o)
	}
	return nil
}

// options returns the options with which the strategies of workloads validate a template.
func options(t *core.PodTemplateSpec) corevalidation.PodValidationOptions {
	podutil.DropDisabledTemplateFields(t, nil)
	return podutil.GetValidationOptionsFromPodTemplate(t, nil)
}

// stored returns a pod as the API server keeps it.
func stored(t *testing.T, object map[string]any) *core.Pod {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	obj, err := runtime.Decode(legacyscheme.Codecs.UniversalDecoder(), text)
	if err != nil {
		t.Fatal(err)
	}
	pod := obj.(*core.Pod)
	pod.ResourceVersion = "1"
	return pod
}

// resize says what the API server has against a resize of a pod.
func resize(t *testing.T, object map[string]any) field.ErrorList {
	t.Helper()
	pod := stored(t, object)
	return corevalidation.ValidatePodResize(pod, pod.DeepCopy(),
		corevalidation.PodValidationOptions{ResourceIsPod: true})
}

// withOS returns a copy of a pod with another spec.os.name; "" for none.
func withOS(pod map[string]any, name string) map[string]any {
	out := maps.Clone(pod)
	spec := maps.Clone(pod["spec"].(map[string]any))
	out["spec"] = spec
	if delete(spec, "os"); name != "" {
		spec["os"] = map[string]any{"name": name}
	}
	return out
}

// workloads wraps a pod into every kind that has a template, with the path of
// the template's spec in it.
func workloads(pod map[string]any) map[string]map[string]any {
	labels := map[string]any{"app": "x"}
	meta := map[string]any{"name": "w", "namespace": "ns"}
	template := map[string]any{"metadata": map[string]any{"labels": labels}, "spec": pod["spec"]}
	once := map[string]any{"metadata": map[string]any{"labels": labels},
		"spec": maps.Clone(pod["spec"].(map[string]any))}
	once["spec"].(map[string]any)["restartPolicy"] = "Never"
	object := func(version, kind string, spec map[string]any) map[string]any {
		return map[string]any{"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}
	}
	selector := map[string]any{"matchLabels": labels}
	job := map[string]any{"template": once}
	// else the server makes one
	manual := map[string]any{"template": once, "manualSelector": true, "selector": selector}
	return map[string]map[string]any{
		"spec.template.spec": object("apps/v1", "Deployment",
			map[string]any{"selector": selector, "template": template}),
		"spec.template.spec/ReplicaSet": object("apps/v1", "ReplicaSet",
			map[string]any{"selector": selector, "template": template}),
		"spec.template.spec/DaemonSet": object("apps/v1", "DaemonSet",
			map[string]any{"selector": selector, "template": template}),
		"spec.template.spec/StatefulSet": object("apps/v1", "StatefulSet",
			map[string]any{"selector": selector, "template": template, "serviceName": "s"}),
		"spec.template.spec/Controller": object("v1", "ReplicationController",
			map[string]any{"selector": labels, "template": template}),
		"spec.template.spec/Job": object("batch/v1", "Job", manual),
		"spec.jobTemplate.spec.template.spec": object("batch/v1", "CronJob",
			map[string]any{"schedule": "@daily", "jobTemplate": map[string]any{"spec": job}}),
		"template.spec": {"apiVersion": "v1", "kind": "PodTemplate", "metadata": meta, "template": template},
	}
}

// about selects the errors at a field.
func about(list field.ErrorList, path string) field.ErrorList {
	return slices.DeleteFunc(slices.Clone(list), func(e *field.Error) bool { return e.Field != path })
}

func TestMinimalPodPasses(t *testing.T) {
	pod := policytest.Tweak(t, "{}")
	if got := upstream(pod); len(got) > 0 {
		t.Errorf("upstream refuses the minimal pod: %v", got)
	}
	if got := rule.Check(pod, policy.Facts{Kubernetes: version}); len(got) > 0 {
		t.Errorf("findings on the minimal pod: %+v", got)
	}
	for path, w := range workloads(pod) {
		if got := upstream(w); len(got) > 0 {
			t.Errorf("upstream refuses the minimal %s (%s): %v", w["kind"], path, got)
		}
	}
}
