// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package schema

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// The codes of objects that the API server refuses although all fields and types
// are right.
const (
	codeMissing   = "WIN804"
	codeValue     = "WIN805"
	codeTwice     = "WIN806"
	codeReference = "WIN807"
	codeSelector  = "WIN808"
	codeExclusive = "WIN809"
)

// newChecks returns the checks of structs by type: the errors from
// k8s.io/kubernetes/pkg/apis/*/validation that are common in manifests written
// by hand.
func newChecks() map[reflect.Type]func(*walk, tree.Value) {
	return map[reflect.Type]func(*walk, tree.Value){
		reflect.TypeFor[appsv1.DeploymentSpec]():       (*walk).deployment,
		reflect.TypeFor[appsv1.DaemonSetSpec]():        (*walk).workload,
		reflect.TypeFor[appsv1.StatefulSetSpec]():      (*walk).stateful,
		reflect.TypeFor[appsv1.ReplicaSetSpec]():       (*walk).workload,
		reflect.TypeFor[batchv1.JobSpec]():             (*walk).job,
		reflect.TypeFor[batchv1.CronJobSpec]():         (*walk).cronJob,
		reflect.TypeFor[corev1.PodSpec]():              (*walk).pod,
		reflect.TypeFor[corev1.Container]():            (*walk).container,
		reflect.TypeFor[corev1.ContainerPort]():        (*walk).containerPort,
		reflect.TypeFor[corev1.EnvVar]():               (*walk).variable,
		reflect.TypeFor[corev1.Probe]():                (*walk).probe,
		reflect.TypeFor[corev1.HTTPGetAction]():        (*walk).probePort,
		reflect.TypeFor[corev1.TCPSocketAction]():      (*walk).probePort,
		reflect.TypeFor[corev1.ResourceRequirements](): (*walk).resources,
		reflect.TypeFor[corev1.Volume]():               (*walk).volume,
		reflect.TypeFor[corev1.VolumeMount]():          (*walk).mount,
		reflect.TypeFor[corev1.Toleration]():           (*walk).toleration,
		reflect.TypeFor[corev1.ServiceSpec]():          (*walk).service,
		reflect.TypeFor[corev1.ServicePort]():          (*walk).servicePort,
		reflect.TypeFor[metaType]():                    (*walk).meta,

		reflect.TypeFor[corev1.NodeSelectorRequirement]():            (*walk).nodeExpression,
		reflect.TypeFor[metav1.LabelSelectorRequirement]():           (*walk).labelExpression,
		reflect.TypeFor[corev1.PreferredSchedulingTerm]():            (*walk).weight,
		reflect.TypeFor[corev1.WeightedPodAffinityTerm]():            (*walk).weight,
		reflect.TypeFor[corev1.PodAffinityTerm]():                    (*walk).podAffinity,
		reflect.TypeFor[corev1.TopologySpreadConstraint]():           (*walk).spread,
		reflect.TypeFor[corev1.PersistentVolumeClaimSpec]():          (*walk).claim,
		reflect.TypeFor[corev1.KeyToPath]():                          (*walk).item,
		reflect.TypeFor[corev1.HostAlias]():                          (*walk).alias,
		reflect.TypeFor[corev1.ObjectFieldSelector]():                (*walk).fieldRef,
		reflect.TypeFor[corev1.Secret]():                             (*walk).secret,
		reflect.TypeFor[corev1.SecretKeySelector]():                  (*walk).keyOf,
		reflect.TypeFor[corev1.ConfigMapKeySelector]():               (*walk).keyOf,
		reflect.TypeFor[corev1.EnvFromSource]():                      (*walk).variables,
		reflect.TypeFor[corev1.PersistentVolumeClaimVolumeSource]():  (*walk).claimed,
		reflect.TypeFor[corev1.HostPathVolumeSource]():               (*walk).hostPath,
		reflect.TypeFor[corev1.LifecycleHandler]():                   (*walk).hook,
		reflect.TypeFor[networkingv1.IngressServiceBackend]():        (*walk).backend,
		reflect.TypeFor[autoscalingv2.HorizontalPodAutoscalerSpec](): (*walk).scaler,
		reflect.TypeFor[policyv1.PodDisruptionBudgetSpec]():          (*walk).budget,
		reflect.TypeFor[networkingv1.HTTPIngressPath]():              (*walk).path,
		reflect.TypeFor[rbacv1.Subject]():                            (*walk).subject,
	}
}

// missing reports fields that are missing or empty.
func (w *walk) missing(v tree.Value, fields ...string) {
	for _, name := range fields {
		at := v.Get(name)
		if s, ok := at.Raw().(string); at.Set() && (!ok || s != "") {
			continue
		}
		where := cmp.Or(v.Path().String(), "the object")
		w.report(codeMissing, at, "add it", "%s needs %s", where, name)
	}
}

// invalid reports a value, unless it is a template or missing.
func (w *walk) invalid(v tree.Value, fix, format string, args ...any) {
	if s, ok := v.Raw().(string); !v.Set() || ok && template(s) {
		return
	}
	w.report(codeValue, v, fix, "%s: %s", v.Path(), fmt.Sprintf(format, args...))
}

// oneOf reports a text that is not among the allowed ones.
func (w *walk) oneOf(v tree.Value, allowed ...string) {
	s, ok := v.Raw().(string)
	if !ok || slices.Contains(allowed, s) {
		return
	}
	if s == "HTTP" || s == "HTTPS" { // capitals, and yet no placeholder
		w.report(codeValue, v, "write one of the allowed words", "%s: %q is not one of %s", v.Path(), s,
			strings.TrimSuffix(strings.Join(allowed, ", "), ", "))
		return
	}
	words := strings.Join(slices.DeleteFunc(slices.Clone(allowed), func(s string) bool { return s == "" }), ", ")
	fix := "write one of " + words
	if near := nearest(s, allowed); near != "" {
		fix = "write " + near
	}
	w.invalid(v, fix, "%q is not one of %s", clip(s), words)
}

// format reports a text for which valid returns errors.
func (w *walk) format(v tree.Value, valid func(string) []string) {
	if s, ok := v.Raw().(string); ok && s != "" {
		if why := valid(s); len(why) > 0 {
			text, _, _ := strings.Cut(why[0], " (e.g.") // a regular expression follows
			w.invalid(v, "write a valid one", "%q: %s", clip(s), text)
		}
	}
}

// unique reports the items of lists that have a text that an earlier one has.
func (w *walk) unique(what string, fields []tree.Value) {
	seen := map[string]bool{}
	for _, v := range fields {
		s, ok := v.Raw().(string)
		if !ok || template(s) {
			continue
		}
		if seen[s] {
			w.report(codeTwice, v, "give each its own", "%s %s is there twice", what, clip(s))
		}
		seen[s] = true
	}
}

// some returns the fields that are set.
func some(v tree.Value, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !v.Get(n).Set() })
}
