// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package certificate

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"slices"
	"time"

	"github.com/mullion-k8s/mullion/internal/durable/certpem"
)

const (
	day = 24 * time.Hour

	// caLifetime and servingLifetime: short, because renewal is automatic.
	caLifetime      = 365 * day
	servingLifetime = 90 * day
	// servingRenew is how long before its end a serving certificate is replaced: a
	// manager may be down for that long.
	servingRenew = 30 * day
	// caRenew is the same for the authority: it must outlive the certificates that it signs.
	caRenew = servingLifetime + servingRenew
	// skew is how far in the past the validity of a new certificate begins: the
	// clocks of API servers differ from the manager's.
	skew = time.Hour
	// overlap is how long two authorities are trusted before and after the new one
	// begins to sign. API servers see a changed bundle and managers a changed
	// Secret by their watches, within seconds.
	overlap = time.Hour
)

// advance returns the next state, the reason (for the log; "" without a
// change), and the latest time of the next call. names are the DNS names and
// addresses of the serving certificate. It is a pure function except for the
// keys that it generates.
func advance(s state, names []string, now time.Time) (next state, why string, at time.Time, err error) {
	switch {
	case s.ca.Cert == nil:
		next, err = begin(names, now)
		why = "there are no certificates"
	case !valid(s.ca.Cert, now) || !now.Before(s.ca.Cert.NotAfter.Add(-servingRenew)):
		// Too late for an orderly change, or the clock was wrong when it was made.
		next, err = begin(names, now)
		why = "the authority is not valid any more, or not yet"
	case s.next.Cert != nil && !valid(s.next.Cert, now):
		next, why = state{serving: s.serving, ca: s.ca, old: s.old}, "the next authority is not valid yet"
	case s.next.Cert != nil && !now.Before(made(s.next.Cert).Add(overlap)):
		next = state{ca: s.next, old: s.ca.Cert}
		next.serving, err = issue(next.ca, names, now)
		why = "the next authority is known by now"
	case !valid(s.serving.Cert, now) || !now.Before(s.serving.Cert.NotAfter.Add(-servingRenew)):
		next = s
		next.serving, err = issue(s.ca, names, now)
		why = "the serving certificate ages"
	case !covers(s.serving.Cert, names):
		next = s
		// The names that it has stay: during a change of the address managers of both
		// kinds run, and neither may remove the other's name.
		next.serving, err = issue(s.ca, append(hosts(s.serving.Cert), names...), now)
		why = "the address of the webhooks changed"
	case s.old != nil && !now.Before(made(s.serving.Cert).Add(overlap)):
		next, why = s, "no certificate of the old authority is in use"
		next.old = nil
	case s.next.Cert == nil && !now.Before(s.ca.Cert.NotAfter.Add(-caRenew)):
		next = s
		next.next, err = newAuthority(now)
		why = "the authority ages"
	default:
		next = s
	}
	if err != nil {
		return state{}, "", time.Time{}, err
	}
	return next, why, due(next, now), nil
}

// due returns when the next change is due.
func due(s state, now time.Time) time.Time {
	times := []time.Time{s.serving.Cert.NotAfter.Add(-servingRenew)}
	if s.next.Cert != nil {
		times = append(times, made(s.next.Cert).Add(overlap))
	} else {
		times = append(times, s.ca.Cert.NotAfter.Add(-caRenew))
	}
	if s.old != nil {
		times = append(times, made(s.serving.Cert).Add(overlap))
	}
	at := slices.MinFunc(times, time.Time.Compare)
	if at.Before(now) {
		return now
	}
	return at
}

func valid(c *x509.Certificate, now time.Time) bool {
	return !now.Before(c.NotBefore) && now.Before(c.NotAfter)
}

// made returns when a certificate was made.
func made(c *x509.Certificate) time.Time { return c.NotBefore.Add(skew) }

func covers(c *x509.Certificate, names []string) bool {
	return !slices.ContainsFunc(names, func(n string) bool { return c.VerifyHostname(n) != nil })
}

// hosts are the names and addresses of a certificate.
func hosts(c *x509.Certificate) []string {
	out := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		out = append(out, ip.String())
	}
	return out
}

func begin(names []string, now time.Time) (state, error) {
	ca, err := newAuthority(now)
	if err != nil {
		return state{}, err
	}
	serving, err := issue(ca, names, now)
	return state{ca: ca, serving: serving}, err
}

func newAuthority(now time.Time) (pair, error) {
	return certpem.Sign(&x509.Certificate{
		Subject:               pkix.Name{CommonName: "mullion webhooks " + now.UTC().Format("2006-01-02T15:04:05Z")},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(caLifetime),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, nil)
}

func issue(ca pair, names []string, now time.Time) (pair, error) {
	names = slices.Clone(names)
	t := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "mullion-webhook"},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(servingLifetime),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	slices.Sort(names)
	for _, n := range slices.Compact(names) {
		if ip := net.ParseIP(n); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, n)
		}
	}
	return certpem.Sign(t, &ca)
}
