// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netpolicy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Selector is a LabelSelector. The empty one selects everything.
type Selector struct {
	MatchLabels      map[string]string `json:"matchLabels"`
	MatchExpressions []Requirement     `json:"matchExpressions"`
}

// Requirement is a LabelSelectorRequirement.
type Requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values"`
}

// matches reports whether the labels satisfy all requirements. An unknown operator never
// matches: a policy then allows less, not more.
func (s *Selector) matches(labels map[string]string) bool {
	for k, v := range s.MatchLabels {
		if have, ok := labels[k]; !ok || have != v {
			return false
		}
	}
	for i := range s.MatchExpressions {
		if !s.MatchExpressions[i].matches(labels) {
			return false
		}
	}
	return true
}

func (r *Requirement) matches(labels map[string]string) bool {
	v, ok := labels[r.Key]
	switch r.Operator {
	case "In":
		return ok && slices.Contains(r.Values, v)
	case "NotIn":
		return !ok || !slices.Contains(r.Values, v)
	case "Exists":
		return ok
	case "DoesNotExist":
		return !ok
	}
	return false
}

// key identifies a selector: selectors with one key select the same.
func (s *Selector) key() string {
	if s == nil {
		return "-"
	}
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		fmt.Fprintf(&b, "%q=%q,", k, s.MatchLabels[k])
	}
	for _, r := range s.MatchExpressions {
		fmt.Fprintf(&b, "%q %s %q,", r.Key, r.Operator, r.Values)
	}
	return b.String()
}
