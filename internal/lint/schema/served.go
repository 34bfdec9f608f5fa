// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package schema

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// served holds the versions that API servers serve.
type served struct {
	types    map[schema.GroupVersionKind]reflect.Type
	versions map[schema.GroupVersion]bool
	groups   map[string]bool
	kinds    map[string][]schema.GroupVersion // of the name of a kind
}

func newServed() served {
	s := served{
		types:    scheme.Scheme.AllKnownTypes(),
		versions: map[schema.GroupVersion]bool{},
		groups:   map[string]bool{},
		kinds:    map[string][]schema.GroupVersion{},
	}
	for gvk := range s.types {
		if gvk.Version == "__internal" {
			continue
		}
		s.versions[gvk.GroupVersion()], s.groups[gvk.Group] = true, true
		s.kinds[gvk.Kind] = append(s.kinds[gvk.Kind], gvk.GroupVersion())
	}
	for _, versions := range s.kinds {
		slices.SortFunc(versions, func(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) })
	}
	return s
}

// The types declare since when and until when they are served, and their
// replacements. The API server uses the same methods: k8s.io/apiserver
// pkg/server/deleted_kinds.go.
type (
	introduced interface{ APILifecycleIntroduced() (major, minor int) }
	removed    interface{ APILifecycleRemoved() (major, minor int) }
	replaced   interface {
		APILifecycleReplacement() schema.GroupVersionKind
	}
)

// gone lists kinds that are no longer among the types, or never were, with the
// version that stopped serving them.
// https://kubernetes.io/docs/reference/using-api/deprecation-guide/
var gone = map[string]struct {
	in  policy.Version
	now string
}{
	"autoscaling/v2beta1 HorizontalPodAutoscaler":                      {25, "autoscaling/v2"},
	"autoscaling/v2beta2 HorizontalPodAutoscaler":                      {26, "autoscaling/v2"},
	"batch/v2alpha1 CronJob":                                           {21, "batch/v1"},
	"policy/v1beta1 PodSecurityPolicy":                                 {25, "Pod Security Admission"},
	"extensions/v1beta1 PodSecurityPolicy":                             {16, "Pod Security Admission"},
	"apiextensions.k8s.io/v1beta1 CustomResourceDefinition":            {22, "apiextensions.k8s.io/v1"},
	"apiregistration.k8s.io/v1beta1 APIService":                        {22, "apiregistration.k8s.io/v1"},
	"settings.k8s.io/v1alpha1 PodPreset":                               {20, "a mutating admission policy"},
	"networking.k8s.io/v1alpha1 ClusterCIDR":                           {31, "nothing"},
	"certificates.k8s.io/v1alpha1 CertificateSigningRequest":           {19, "certificates.k8s.io/v1"},
	"scheduling.k8s.io/v1alpha1 PriorityClass":                         {22, "scheduling.k8s.io/v1"},
	"rbac.authorization.k8s.io/v1alpha1 ClusterRole":                   {22, "rbac.authorization.k8s.io/v1"},
	"rbac.authorization.k8s.io/v1alpha1 ClusterRoleBinding":            {22, "rbac.authorization.k8s.io/v1"},
	"rbac.authorization.k8s.io/v1alpha1 Role":                          {22, "rbac.authorization.k8s.io/v1"},
	"rbac.authorization.k8s.io/v1alpha1 RoleBinding":                   {22, "rbac.authorization.k8s.io/v1"},
	"discovery.k8s.io/v1alpha1 EndpointSlice":                          {21, "discovery.k8s.io/v1"},
	"node.k8s.io/v1alpha1 RuntimeClass":                                {24, "node.k8s.io/v1"},
	"flowcontrol.apiserver.k8s.io/v1alpha1 FlowSchema":                 {24, "flowcontrol.apiserver.k8s.io/v1"},
	"flowcontrol.apiserver.k8s.io/v1alpha1 PriorityLevelConfiguration": {24, "flowcontrol.apiserver.k8s.io/v1"},
	"audit.k8s.io/v1beta1 Policy":                                      {24, "audit.k8s.io/v1"},
}

// version checks the version of an object, and returns the type that it is
// decoded into, or nil if there is no such type.
func (w *walk) version(object tree.Value, version, kind string) reflect.Type {
	at := object.Get("apiVersion")
	if template(version) || template(kind) || kind == "" || version == "" {
		return nil
	}
	gv, err := schema.ParseGroupVersion(version)
	if err != nil {
		w.report(codeVersion, at, "write GROUP/VERSION, for example apps/v1", "%v", err)
		return nil
	}
	v := w.checker.version
	if g, ok := gone[version+" "+kind]; ok {
		if v == 0 || v >= g.in {
			w.report(codeVersion, at, "use "+g.now, "%s %s is not served since Kubernetes %s", version, kind, g.in)
		}
		return nil
	}
	t, ok := w.checker.served.types[gv.WithKind(kind)]
	if !ok {
		w.unserved(object, gv, kind)
		return nil
	}
	made := reflect.New(t).Interface()
	if r, ok := made.(removed); ok {
		_, minor := r.APILifecycleRemoved()
		if in := policy.Version(minor); in <= current && (v == 0 || v >= in) {
			w.report(codeVersion, at, successor(made), "%s %s is not served since Kubernetes %s", version, kind, in)
			return nil
		}
	}
	if i, ok := made.(introduced); ok && v != 0 {
		if _, minor := i.APILifecycleIntroduced(); policy.Version(minor) > v {
			w.report(codeVersion, at, "use an older version of the kind, or upgrade the cluster",
				"%s %s is served from Kubernetes %s on; this cluster has %s", version, kind, policy.Version(minor), v)
		}
	}
	return t
}

func successor(made any) string {
	r, ok := made.(replaced)
	if !ok || r.APILifecycleReplacement().Empty() {
		return "remove it: it has no replacement"
	}
	now := r.APILifecycleReplacement()
	return fmt.Sprintf("use %s %s; fields may have changed", now.GroupVersion(), now.Kind)
}

// unserved reports a version that no API server has, unless it may be that of a
// custom resource, of an aggregated API, or of a program's settings file.
func (w *walk) unserved(object tree.Value, gv schema.GroupVersion, kind string) {
	s, v := w.checker.served, w.checker.version
	at, kinds := object.Get("apiVersion"), s.kinds[kind]
	switch {
	case s.groups[gv.Group] && v != 0 && v < current:
		return // an older Kubernetes may have served it
	case len(kinds) > 0 && (s.groups[gv.Group] || !strings.Contains(gv.Group, ".")):
		// A group of custom resources has a dot in its name.
		w.report(codeVersion, at, "write "+w.newest(kinds), "no API server serves %s %s", gv, kind)
	case s.groups[gv.Group]:
		names := map[string]bool{}
		for gvk := range s.types {
			if gvk.Group == gv.Group {
				names[gvk.Kind] = true
			}
		}
		if near := sameButCase(kind, names); near != "" {
			w.report(codeVersion, object.Get("kind"), "write "+near, "no API server serves %s %s", gv, kind)
		} else if gv.Group != "" {
			// Programs use version v1 of no group for their own settings.
			w.report(codeVersion, at, "kubectl api-resources lists the kinds", "no API server serves %s %s", gv, kind)
		}
	}
}

// newest returns the version of a kind to suggest: a stable one, if there is one.
func (w *walk) newest(versions []schema.GroupVersion) string {
	for _, gv := range versions {
		if !strings.Contains(gv.Version, "alpha") && !strings.Contains(gv.Version, "beta") {
			return gv.String()
		}
	}
	return versions[len(versions)-1].String()
}

func sameButCase(kind string, names map[string]bool) string {
	for name := range names {
		if strings.EqualFold(name, kind) || strings.EqualFold(name+"s", kind) {
			return name
		}
	}
	return ""
}

// current is the version of the types: go.mod and version.Kubernetes name it.
const current policy.Version = 36
