// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package schema

import "github.com/mullion-k8s/mullion/internal/policy/tree"

// nodeExpression checks an expression about the labels of nodes.
func (w *walk) nodeExpression(v tree.Value) {
	w.expression(v, "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
}

// labelExpression checks an expression about the labels of objects.
func (w *walk) labelExpression(v tree.Value) {
	w.expression(v, "In", "NotIn", "Exists", "DoesNotExist")
}

func (w *walk) expression(v tree.Value, operators ...string) {
	w.missing(v, "key", "operator")
	w.oneOf(v.Find("operator"), operators...)
	values := v.Get("values")
	switch v.Find("operator").Str() {
	case "In", "NotIn":
		if values.Len() == 0 {
			w.report(codeMissing, values, "add values", "the operator %s needs values", v.Find("operator").Str())
		}
	case "Exists", "DoesNotExist":
		if values.Len() > 0 {
			w.report(codeExclusive, values, "remove the values, or write In", "the operator %s takes no values",
				v.Find("operator").Str())
		}
	}
}

// weight checks a preferred term.
func (w *walk) weight(v tree.Value) {
	if n, ok := number(v.Find("weight").Raw()); ok && (n < 1 || n > 100) || !v.Find("weight").Set() {
		w.report(codeValue, v.Get("weight"), "write 1 to 100", "the weight of a preferred term is 1 to 100")
	}
}

// podAffinity checks a term about other pods.
func (w *walk) podAffinity(v tree.Value) { w.missing(v, "topologyKey") }

// spread checks a constraint of topology.
func (w *walk) spread(v tree.Value) {
	w.missing(v, "maxSkew", "topologyKey", "whenUnsatisfiable")
	w.oneOf(v.Find("whenUnsatisfiable"), "DoNotSchedule", "ScheduleAnyway")
	if n, ok := number(v.Find("maxSkew").Raw()); ok && n < 1 {
		w.invalid(v.Get("maxSkew"), "write 1 or more", "%v is less than 1", n)
	}
}
