// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// Kind is a kind of objects. The group of Kubernetes' own kinds is empty.
type Kind struct{ Group, Name string }

// String is the kind as messages name it: "Workflow (argoproj.io)".
func (k Kind) String() string {
	if k.Group == "" {
		return k.Name
	}
	return k.Name + " (" + k.Group + ")"
}

// layout is the location of the pod in the objects of a kind.
type layout struct {
	template []string // path of the pod template
	fixed    bool     // the template has the schema of Kubernetes: fixes may edit it
	unknown  bool     // the containers are not in a pod template: they are not looked at
}

// kinds has the kinds whose pods are known. Other custom resources are searched
// for pod templates, which are judged, but never fixed. SidecarSet adds its
// containers to pods of others, which name the operating system.
var kinds = map[Kind]layout{
	{"", "Pod"}:                   {fixed: true},
	{"", "PodTemplate"}:           {template: []string{"template"}, fixed: true},
	{"", "ReplicationController"}: {template: []string{"spec", "template"}, fixed: true},
	{"", "ReplicaSet"}:            {template: []string{"spec", "template"}, fixed: true},
	{"", "Deployment"}:            {template: []string{"spec", "template"}, fixed: true},
	{"", "StatefulSet"}:           {template: []string{"spec", "template"}, fixed: true},
	{"", "DaemonSet"}:             {template: []string{"spec", "template"}, fixed: true},
	{"", "Job"}:                   {template: []string{"spec", "template"}, fixed: true},
	{"", "CronJob"}:               {template: []string{"spec", "jobTemplate", "spec", "template"}, fixed: true},

	{"apps.kruise.io", "CloneSet"}:    {template: []string{"spec", "template"}, fixed: true},
	{"apps.kruise.io", "DaemonSet"}:   {template: []string{"spec", "template"}, fixed: true},
	{"apps.kruise.io", "StatefulSet"}: {template: []string{"spec", "template"}, fixed: true},
	{"argoproj.io", "Rollout"}:        {template: []string{"spec", "template"}, fixed: true},
	{"keda.sh", "ScaledJob"}:          {template: []string{"spec", "jobTargetRef", "template"}, fixed: true},

	// Knative refuses nodeSelector and tolerations unless a flag allows them.
	{"serving.knative.dev", "Configuration"}: {template: []string{"spec", "template"}},
	{"serving.knative.dev", "Service"}:       {template: []string{"spec", "template"}},

	{"apps.kruise.io", "SidecarSet"}:               {unknown: true},
	{"argoproj.io", "ClusterWorkflowTemplate"}:     {unknown: true},
	{"argoproj.io", "CronWorkflow"}:                {unknown: true},
	{"argoproj.io", "Workflow"}:                    {unknown: true},
	{"argoproj.io", "WorkflowTemplate"}:            {unknown: true},
	{"kubevirt.io", "VirtualMachine"}:              {unknown: true},
	{"kubevirt.io", "VirtualMachineInstance"}:      {unknown: true},
	{"opentelemetry.io", "OpenTelemetryCollector"}: {unknown: true},
	{"tekton.dev", "ClusterTask"}:                  {unknown: true},
	{"tekton.dev", "Pipeline"}:                     {unknown: true},
	{"tekton.dev", "PipelineRun"}:                  {unknown: true},
	{"tekton.dev", "StepAction"}:                   {unknown: true},
	{"tekton.dev", "Task"}:                         {unknown: true},
	{"tekton.dev", "TaskRun"}:                      {unknown: true},
}

// kindOf returns the kind of an object.
func kindOf(apiVersion, kind string) Kind {
	if IsBuiltin(apiVersion) {
		return Kind{Name: kind}
	}
	group, _, _ := strings.Cut(apiVersion, "/")
	return Kind{group, kind}
}

// IsBuiltin reports whether the group is one of Kubernetes' own.
func IsBuiltin(apiVersion string) bool {
	group, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		return true
	}
	return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io") && strings.Count(group, ".") == 2
}

// find finds the pods of an object, or else notes that it has containers
// elsewhere.
func (o *Object) find() {
	kind := kindOf(o.APIVersion, o.Kind)
	known, ok := kinds[kind]
	switch {
	case known.unknown:
		o.unseen = true
	case ok:
		o.add(o.Get(known.template...), kind == Kind{Name: "Pod"})
	case kind.Group != "":
		o.search(o.Value, 0)
		o.unseen = len(o.Pods) == 0 && holdsContainers(o.Value, 0)
	}
}

// search finds pod templates in a custom resource: maps with a spec whose
// containers are a list of maps that name images.
func (o *Object) search(v tree.Value, depth int) {
	if depth > maxDepth {
		return
	}
	switch v.Raw().(type) {
	case map[string]any:
		if slices.ContainsFunc(v.Find("spec", "containers").Items(), hasImage) {
			o.add(v, false)
			return
		}
		for _, k := range v.Keys() {
			o.search(v.Get(k), depth+1)
		}
	case []any:
		for _, e := range v.Items() {
			o.search(e, depth+1)
		}
	}
}

// holdsContainers reports whether a custom resource has containers anywhere, in
// a field that has one of the usual names.
func holdsContainers(v tree.Value, depth int) bool {
	if depth > maxDepth {
		return false
	}
	for _, k := range v.Keys() {
		below := v.Get(k)
		switch k {
		case "container", "script":
			if hasImage(below) {
				return true
			}
		case "containers", "initContainers", "additionalContainers", "sidecars", "steps":
			if slices.ContainsFunc(below.Items(), hasImage) {
				return true
			}
		}
		if holdsContainers(below, depth+1) {
			return true
		}
	}
	return slices.ContainsFunc(v.Items(), func(e tree.Value) bool { return holdsContainers(e, depth+1) })
}

// hasImage reports whether a value names an image, as a container does.
func hasImage(v tree.Value) bool { return v.Find("image").Str() != "" }

// Unseen returns the kinds of the objects that have containers which the rules
// do not see, because they are not in a pod template; one for each object.
func (p *Parsed) Unseen() []Kind {
	var out []Kind
	for _, o := range p.items {
		if o.unseen {
			out = append(out, kindOf(o.APIVersion, o.Kind))
		}
	}
	return out
}

// Uneditable returns the paths of the objects whose pods are not whole pod
// templates, so that a fix could write fields that their schemas do not have.
func (p *Parsed) Uneditable() []tree.Path {
	var out []tree.Path
	for _, o := range p.items {
		if len(o.Pods) > 0 && !kinds[kindOf(o.APIVersion, o.Kind)].fixed {
			out = append(out, o.Path())
		}
	}
	return out
}
