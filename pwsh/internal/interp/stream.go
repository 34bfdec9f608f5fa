// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package interp

import (
	"io"
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// pref returns the value of a preference variable.
func (r *Runner) pref(name string) any {
	if v := r.scope.lookup(strings.ToLower(name)); v != nil {
		return v.Value
	}
	return preferences[name]
}

// maxErrors is the length of $Error. Source: about_Preference_Variables,
// $MaximumErrorCount.
const maxErrors = 256

// remember puts an error in front of $Error.
func (r *Runner) remember(rec *ErrorRecord) {
	if len(r.errors.Items) > 0 && r.errors.Items[0] == any(rec) {
		return
	}
	r.errors.Items = append([]any{rec}, r.errors.Items...)
	if len(r.errors.Items) > maxErrors {
		r.errors.Items = r.errors.Items[:maxErrors]
	}
}

// WriteErrorRecord sends an error to the error stream.
func (r *Runner) WriteErrorRecord(rec *ErrorRecord) error {
	r.remember(rec)
	r.ok = false
	return r.showError(rec)
}

// showError sends an error to the error stream without remembering it.
func (r *Runner) showError(rec *ErrorRecord) error {
	if r.streams.err != nil {
		return r.streams.err(rec)
	}
	if err := r.display.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(r.h.Stderr, r.FormatError(rec))
	return hostError(err)
}

// StreamRecord is an item of the warning, verbose, debug or information stream.
type StreamRecord struct {
	Kind    string // warning, verbose, debug, information
	Message any
}

// TypeName returns the .NET name.
func (s *StreamRecord) TypeName() string {
	return "System.Management.Automation." + strings.ToUpper(s.Kind[:1]) + s.Kind[1:] + "Record"
}

// Text returns the message.
func (s *StreamRecord) Text() string { return value.String(s.Message) }

// WriteStream sends a message to a stream, according to its preference variable.
func (r *Runner) WriteStream(kind string, msg any) error {
	name := strings.ToUpper(kind[:1]) + kind[1:] + "Preference"
	switch strings.ToLower(value.String(r.pref(name))) {
	case "silentlycontinue", "ignore", "0", "4":
		if kind != "information" || r.streams.info == nil {
			return nil
		}
	case "stop", "1":
		if err := r.message(kind, msg); err != nil {
			return err
		}
		return &Thrown{Script: true,
			Record: r.record(r.fail("System.Management.Automation.ActionPreferenceStopException",
				"ActionPreferenceStop", "OperationStopped", nil,
				"The running command stopped because the preference variable \"%s\" or common parameter is set to "+
					"Stop: %s", name, value.String(msg)), nil, "")}
	}
	return r.message(kind, msg)
}

// Message writes to a stream regardless of its preference.
func (r *Runner) Message(kind string, msg any) error { return r.message(kind, msg) }

func (r *Runner) message(kind string, msg any) error {
	f := map[string]func(any) error{"warning": r.streams.warn, "verbose": r.streams.verbose, "debug": r.streams.debug,
		"information": r.streams.info}[kind]
	if f != nil {
		return f(&StreamRecord{kind, msg})
	}
	prefix := strings.ToUpper(kind) + ": "
	if kind == "information" {
		prefix = ""
	}
	return r.Host(prefix + value.String(msg) + "\n")
}

// HostOut writes text for Write-Host: to the information stream where that is
// redirected, else to the console.
func (r *Runner) HostOut(text, end string) error {
	if r.streams.info != nil {
		return r.streams.info(&StreamRecord{"information", text})
	}
	return r.Host(text + end)
}
