// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lookup

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// problem is the reason why an image is unknown, in words for the user who
// creates a pod. It reveals no more about the manager's network than a
// kubelet's event would; the log has the cause.
type problem struct {
	text        string // "does not answer"; follows "the registry HOST"
	unreachable bool   // no answer at all: another image would fare no better
	denied      bool   // other credentials may help
}

// Outcome is the outcome of a lookup in a registry.
type Outcome string

// The outcomes.
const (
	Found       Outcome = "found"
	Denied      Outcome = "denied"      // with the credentials that there were
	Unreachable Outcome = "unreachable" // no answer, or an untrusted one
	Failed      Outcome = "failed"      // an answer without data about the image
)

// Outcomes lists all of them.
func Outcomes() []Outcome { return []Outcome{Found, Denied, Unreachable, Failed} }

func (p problem) outcome() Outcome {
	switch {
	case p.denied:
		return Denied
	case p.unreachable:
		return Unreachable
	}
	return Failed
}

// invalid is an error about a registry's answer; its text quotes little of it,
// and only printable characters.
type invalid struct{ text string }

func (e *invalid) Error() string { return "not valid: " + e.text }

func invalidf(format string, args ...any) error { return &invalid{fmt.Sprintf(format, args...)} }

// clip shortens untrusted text to a number of bytes, for users.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// errRefused is wrapped by errors about connections that are not made, for
// safety.
var errRefused = errors.New("refused")

// explain returns the problem for an error.
func explain(err error) problem {
	var sent *invalid
	switch {
	case errors.As(err, &sent):
		return problem{text: "sends an invalid answer: " + sent.text}
	case errors.Is(err, errRefused):
		return problem{text: "is at, or leads to, an address that is not queried"}
	case errors.Is(err, errDefect):
		return problem{text: "was not understood"}
	}
	if text := explainCertificate(err); text != "" {
		return problem{text: text, unreachable: true}
	}
	if answer, ok := errors.AsType[*transport.Error](err); ok {
		return explainStatus(answer.StatusCode)
	}
	return problem{text: explainConnection(err), unreachable: true}
}

func explainStatus(code int) problem {
	switch {
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return problem{text: "denies access to it, or does not have it (imagePullSecrets of the pod and its service " +
			"account were used)", denied: true}
	case code == http.StatusNotFound:
		return problem{text: "does not have it"}
	case code == http.StatusTooManyRequests:
		return problem{text: "limits how often it accepts requests"}
	case code >= http.StatusInternalServerError:
		return problem{text: fmt.Sprintf("fails (HTTP status %d)", code)}
	}
	return problem{text: fmt.Sprintf("answers with the HTTP status %d", code)}
}

func explainCertificate(err error) string {
	var (
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		expired   x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &authority):
		return "shows a certificate of an unknown authority"
	case errors.As(err, &hostname), errors.As(err, &expired):
		return "shows a certificate that is not valid"
	}
	return ""
}

func explainConnection(err error) string {
	var record tls.RecordHeaderError
	var lookup *net.DNSError
	switch {
	case errors.As(err, &record):
		return "does not speak HTTPS (plain HTTP must be allowed for it)"
	case errors.As(err, &lookup) && lookup.IsNotFound:
		return "is not known to DNS"
	case errors.Is(err, context.DeadlineExceeded):
		return "does not answer in time"
	}
	return "does not answer"
}
