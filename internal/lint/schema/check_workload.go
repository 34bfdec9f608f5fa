// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package schema

import (
	"strconv"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// deployment checks the spec of a Deployment.
func (w *walk) deployment(v tree.Value) {
	w.workload(v)
	strategy := v.Get("strategy")
	w.oneOf(strategy.Find("type"), "Recreate", "RollingUpdate")
	rolling := strategy.Get("rollingUpdate")
	if strategy.Find("type").Str() == "Recreate" && rolling.Set() {
		w.report(codeExclusive, rolling, "remove it, or write type: RollingUpdate",
			"the strategy Recreate has no rollingUpdate")
	}
	if zero(rolling.Get("maxSurge")) && zero(rolling.Get("maxUnavailable")) {
		w.report(codeExclusive, rolling.Get("maxUnavailable"), "raise one of them",
			"maxSurge and maxUnavailable are 0: no pod could be replaced")
	}
	deadline, ok := number(v.Find("progressDeadlineSeconds").Raw())
	if least, _ := number(v.Find("minReadySeconds").Raw()); ok && deadline <= least {
		w.invalid(v.Get("progressDeadlineSeconds"), "raise it", "%v is not above minReadySeconds %v", deadline, least)
	}
}

func zero(v tree.Value) bool { return isZero(v) || v.Str() == "0%" }

// workload checks the spec of a kind that keeps pods running.
func (w *walk) workload(v tree.Value) {
	w.missing(v, "selector", "template")
	w.oneOf(v.Find("template", "spec", "restartPolicy"), "Always", "")
	w.notNegative(v.Find("replicas"))
	selector, labels := v.Get("selector"), v.Find("template", "metadata", "labels").Strings()
	if !selector.Set() {
		return
	}
	match, expressions := selector.Find("matchLabels"), selector.Find("matchExpressions")
	if match.Len() == 0 && expressions.Len() == 0 {
		w.report(codeSelector, selector, "write matchLabels with labels of the template",
			"an empty selector would select all pods")
		return
	}
	for key, value := range match.Strings() {
		if labels[key] != value && !template(key) && !template(value) && !template(labels[key]) {
			w.report(codeSelector, match.Get(key), "give the template the same labels",
				"the selector needs the label %s: %s, but the template has %s", key, value, described(labels, key))
		}
	}
	w.labels(match)
}

func described(labels map[string]string, key string) string {
	if value, ok := labels[key]; ok {
		return key + ": " + value
	}
	return "no label " + key
}

// stateful checks the spec of a StatefulSet, whose claims become volumes with their
// names.
func (w *walk) stateful(v tree.Value) {
	w.workload(v)
	for _, claim := range v.Find("volumeClaimTemplates").Items() {
		w.missing(claim.Get("metadata"), "name")
	}
}

// job checks the spec of a Job.
func (w *walk) job(v tree.Value) {
	w.missing(v, "template")
	policy := v.Find("template", "spec", "restartPolicy")
	if spec := v.Find("template", "spec"); spec.Set() && !policy.Set() {
		w.report(codeMissing, spec.Get("restartPolicy"), "write restartPolicy: Never or OnFailure",
			"the pods of a Job need restartPolicy: the default, Always, is not for Jobs")
	}
	w.oneOf(policy, "Never", "OnFailure")
	w.notNegative(v.Find("backoffLimit"))
	w.notNegative(v.Find("completions"))
	w.notNegative(v.Find("parallelism"))
	w.oneOf(v.Find("completionMode"), "NonIndexed", "Indexed")
}

// cronJob checks the spec of a CronJob.
func (w *walk) cronJob(v tree.Value) {
	w.missing(v, "schedule", "jobTemplate")
	w.oneOf(v.Find("concurrencyPolicy"), "Allow", "Forbid", "Replace", "")
	schedule := v.Get("schedule")
	if strings.HasPrefix(schedule.Str(), "@") {
		return
	}
	if s := schedule.Str(); s != "" && len(strings.Fields(s)) != 5 {
		w.invalid(schedule, "write five fields: minute, hour, day, month, day of the week",
			"%q has %d fields, and a schedule has 5", clip(s), len(strings.Fields(s)))
		return
	}
	most := []int{59, 23, 31, 12, 6}
	for i, field := range strings.Fields(schedule.Str()) {
		before, _, _ := strings.Cut(field, "/") // a step may be larger
		for _, digits := range strings.FieldsFunc(before, func(r rune) bool { return r < '0' || r > '9' }) {
			if n, err := strconv.Atoi(digits); i < len(most) && (err != nil || n > most[i]) {
				w.invalid(schedule, "correct the field", "%s in %q is above %d", digits, clip(schedule.Str()), most[i])
			}
		}
	}
}

func (w *walk) notNegative(v tree.Value) {
	if n, ok := number(v.Raw()); ok && n < 0 {
		w.invalid(v, "write 0 or more", "%v is negative", n)
	}
}
