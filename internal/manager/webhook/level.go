// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package webhook

import "github.com/mullion-k8s/mullion/internal/policy"

// Labels of a namespace that choose, like the labels of Pod Security Admission,
// which findings are refused, which are shown to the user as warnings, and which
// are written into the audit log.
const (
	enforceLabel = "admission.mullion.dev/enforce"
	warnLabel    = "admission.mullion.dev/warn"
	auditLabel   = "admission.mullion.dev/audit"
)

// The values of the labels.
const (
	levelNone      = "none"
	levelCannotRun = "cannot-run" // errors: a test shows that the object fails
	levelStrict    = "strict"     // warnings too: it runs, but not as written
)

// levels holds the levels of a namespace.
type levels struct{ enforce, warn, audit string }

// defaultLevels returns the levels of namespaces without labels.
func defaultLevels(a policy.Admission) levels {
	switch a {
	case policy.AdmissionWarn:
		return levels{enforce: levelNone, warn: levelStrict, audit: levelNone}
	case policy.AdmissionOff:
		return levels{enforce: levelNone, warn: levelNone, audit: levelNone}
	}
	return levels{enforce: levelCannotRun, warn: levelStrict, audit: levelNone}
}

// with returns the levels that hold where a namespace has labels. A value that is
// not a level is ignored.
func (l levels) with(labels map[string]string) levels {
	read := func(label, otherwise string) string {
		switch v := labels[label]; v {
		case levelNone, levelCannotRun, levelStrict:
			return v
		}
		return otherwise
	}
	return levels{
		enforce: read(enforceLabel, l.enforce),
		warn:    read(warnLabel, l.warn),
		audit:   read(auditLabel, l.audit),
	}
}

// silent reports whether no finding has an effect.
func (l levels) silent() bool { return l == levels{levelNone, levelNone, levelNone} }

// Refuses reports whether findings of a severity are refused in a namespace with
// labels, in a cluster with an admission.
func Refuses(a policy.Admission, labels map[string]string, s policy.Severity) bool {
	return includes(defaultLevels(a).with(labels).enforce, s)
}

// includes reports whether a level is about findings of a severity.
func includes(level string, s policy.Severity) bool {
	switch level {
	case levelStrict:
		return s >= policy.Warning
	case levelCannotRun:
		return s == policy.Error
	}
	return false
}
