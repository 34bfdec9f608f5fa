// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
)

func scaleRules() []Rule {
	return []Rule{{
		Code:     "WIN240",
		Title:    "an autoscaler whose target does not exist",
		Severity: policy.Warning,
		Field:    "spec.scaleTargetRef",
		Why: "The controller looks up the target by group and kind, in any version. Without a match, and for " +
			"kinds like DaemonSet, the number of pods never changes: FailedGetScale, no matches for kind.",
		Fix: "write apiVersion: apps/v1 and kind: Deployment, or the target's",
		Sources: []string{"k8s.io/kubernetes pkg/controller/podautoscaler/horizontal.go: reconcileAutoscaler",
			"github.com/kedacore/keda apis/keda/v1alpha1/gvkr.go"},
		kinds:  []string{"HorizontalPodAutoscaler", "ScaledObject"},
		object: checkScaleTarget,
	}}
}

// checkScaleTarget checks the group and the kind of a target, if the group is one of
// Kubernetes' own. KEDA fills in missing fields; the HorizontalPodAutoscaler does not.
func checkScaleTarget(o *policy.Object, r reporter) {
	ref := o.Get("spec", "scaleTargetRef")
	version, kind := ref.Get("apiVersion"), ref.Get("kind")
	completes := strings.HasPrefix(o.APIVersion, "keda.sh/")
	if o.Kind == "ScaledObject" && !completes || version.Str() == "" && completes || kind.Str() == "" ||
		!policy.IsBuiltin(version.Str()) || strings.ContainsAny(version.Str()+kind.Str(), "${}<>") {
		return
	}
	for _, known := range []struct {
		kind, version string
		scales        bool
	}{
		{"Deployment", "apps/v1", true}, {"ReplicaSet", "apps/v1", true}, {"StatefulSet", "apps/v1", true},
		{"ReplicationController", "v1", true},
		{"DaemonSet", "apps/v1", false}, {"Job", "batch/v1", false}, {"CronJob", "batch/v1", false},
	} {
		switch {
		case kind.Str() != known.kind && kind.Str() != strings.ToLower(known.kind): // both are found
		case !known.scales:
			r.at(kind, "a %s has no number of replicas to set", known.kind).
				Fix = "scale a Deployment or a StatefulSet"
		case group(version.Str()) == group(known.version):
		case group(version.Str()) != "":
			r.at(version, "there is no kind %s in the group of %s", kind.Str(), version.Str()).
				Fix = "write apiVersion: " + known.version
		case o.Facts.Kubernetes != 0 && o.Facts.Kubernetes < refusesNoGroup:
			r.at(version, "there is no kind %s without a group", kind.Str()).Fix = "write apiVersion: " + known.version
		}
	}
}

// refusesNoGroup is the version whose API server refuses a target without a group:
// there, a rule about refusals by every cluster reports it.
const refusesNoGroup = 36

// group returns the group of an apiVersion, or "" for the core group.
func group(apiVersion string) string {
	g, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		return ""
	}
	return g
}
