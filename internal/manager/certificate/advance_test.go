// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package certificate

import (
	"crypto/x509"
	"slices"
	"testing"
	"time"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func mustAdvance(t *testing.T, s state, names []string, now time.Time) (state, string, time.Time) {
	t.Helper()
	next, why, at, err := advance(s, names, now)
	if err != nil {
		t.Fatal(err)
	}
	return next, why, at
}

// trusts reports whether a client with the bundle takes what is served.
func trusts(t *testing.T, bundle []byte, s state, name string, now time.Time) bool {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		t.Fatal("the bundle is empty")
	}
	_, err := s.serving.Cert.Verify(x509.VerifyOptions{
		Roots:       pool,
		DNSName:     name,
		CurrentTime: now,
		KeyUsages:   []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return err == nil
}

// TestThreeYears walks through rotations: at each step a client that has not
// seen the last change yet, and a manager that has not either, get along with
// the others.
func TestThreeYears(t *testing.T) {
	const name = "mullion-webhook.mullion-system.svc"
	names := []string{name}
	now := start
	state, why, at := mustAdvance(t, state{}, names, now)
	if why == "" {
		t.Fatal("nothing was made")
	}
	authorities := map[string]bool{}
	servings, steps := 0, 0
	for ; now.Before(start.Add(3 * 365 * day)); steps++ {
		if steps > 1000 {
			t.Fatal("it does not come to rest")
		}
		before := state
		// In the middle of a pause nothing is to be done.
		middle := now.Add(at.Sub(now) / 2)
		if _, why, _ := mustAdvance(t, state, names, middle); why != "" && at.After(now) {
			t.Fatalf("%s: %s, before the time", middle, why)
		}
		now = at
		state, why, at = mustAdvance(t, state, names, now)
		if why == "" {
			t.Fatalf("%s: nothing was to be done", now)
		}
		if !before.serving.Cert.Equal(state.serving.Cert) {
			servings++
		}
		authorities[state.ca.Cert.Subject.CommonName] = true
		for who, ok := range map[string]bool{
			"new client, new manager": trusts(t, state.bundle(), state, name, now),
			"old client, new manager": trusts(t, before.bundle(), state, name, now),
			"new client, old manager": trusts(t, state.bundle(), before, name, now),
		} {
			if !ok {
				t.Errorf("%s, %s: %s: not trusted", now, why, who)
			}
		}
	}
	if len(authorities) < 4 || servings < 18 {
		t.Errorf("%d authorities, %d serving certificates in three years", len(authorities), servings)
	}
}

func TestAdvance(t *testing.T) {
	names := []string{"a.example", "127.0.0.1"}
	fresh, _, _ := mustAdvance(t, state{}, names, start)
	overlapping, _, _ := mustAdvance(t, fresh, names, fresh.ca.Cert.NotAfter.Add(-caRenew+time.Minute))
	// Its serving certificate ages in the meantime; that comes first.
	for range 3 {
		overlapping, _, _ = mustAdvance(t, overlapping, names, fresh.ca.Cert.NotAfter.Add(-caRenew+time.Minute))
	}
	for _, tc := range []struct {
		name  string
		state state
		names []string
		now   time.Time
		why   string
		ca    bool // the authority is another
	}{
		{"nothing to do", fresh, names, start.Add(day), "", false},
		{"in another order", fresh, []string{"127.0.0.1", "a.example"}, start.Add(day), "", false},
		{"serving ages", fresh, names, start.Add(servingLifetime - servingRenew + time.Minute),
			"the serving certificate ages", false},
		{"another address", fresh, []string{"b.example"}, start.Add(day), "the address of the webhooks changed", false},
		{"everything expired while no manager ran",
			fresh, names, start.Add(2 * caLifetime), "the authority is not valid any more, or not yet", true},
		{"the clock went back", fresh, names, start.Add(-2 * day), "the authority is not valid any more, or not yet",
			true},
		{"the clock went back a little", fresh, names, start.Add(-skew / 2), "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			next, why, at := mustAdvance(t, tc.state, tc.names, tc.now)
			if why != tc.why {
				t.Errorf("%q, want %q", why, tc.why)
			}
			if changed := !same(next.ca.Cert, tc.state.ca.Cert); changed != tc.ca {
				t.Errorf("another authority: %t", changed)
			}
			if at.Before(tc.now) {
				t.Errorf("next at %s, before now", at)
			}
			for _, n := range tc.names {
				if !trusts(t, next.bundle(), next, n, tc.now) {
					t.Errorf("%s is not served", n)
				}
			}
		})
	}
	if overlapping.next.Cert == nil {
		t.Error("no next authority was made")
	}
}

// TestManagersOfTwoAddresses: none takes the other's name away.
func TestManagersOfTwoAddresses(t *testing.T) {
	state, _, _ := mustAdvance(t, state{}, []string{"a.example"}, start)
	state, _, _ = mustAdvance(t, state, []string{"b.example"}, start)
	for _, names := range [][]string{{"a.example"}, {"b.example"}} {
		if _, why, _ := mustAdvance(t, state, names, start); why != "" {
			t.Errorf("%v: %s", names, why)
		}
	}
	if got := state.serving.Cert.DNSNames; !slices.Equal(got, []string{"a.example", "b.example"}) {
		t.Errorf("names: %v", got)
	}
}

func TestDataRoundTrip(t *testing.T) {
	state, _, _ := mustAdvance(t, state{}, []string{"a.example"}, start)
	for _, now := range []time.Time{start, state.ca.Cert.NotAfter.Add(-caRenew + time.Minute)} {
		state, _, _ = mustAdvance(t, state, []string{"a.example"}, now)
		data, err := state.data()
		if err != nil {
			t.Fatal(err)
		}
		got, err := parse(data)
		if err != nil || !got.equal(state) {
			t.Errorf("%v", err)
		}
	}
}

// FuzzParse: a damaged Secret is an error, or a state that can go on.
func FuzzParse(f *testing.F) {
	state, _, _, err := advance(state{}, []string{"a.example"}, start)
	if err != nil {
		f.Fatal(err)
	}
	data, err := state.data()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data[keyServingCert], data[keyServingKey], data[keyCACert], data[keyCAKey], []byte(nil), []byte(nil))
	f.Add(data[keyServingCert], data[keyServingKey], data[keyServingCert], data[keyServingKey], data[keyCACert],
		data[keyCAKey])
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), []byte(nil), []byte{0xff},
		[]byte("x"), []byte("y"), []byte("z"))
	f.Fuzz(func(t *testing.T, cert, key, caCert, caKey, next, old []byte) {
		s, err := parse(map[string][]byte{keyServingCert: cert, keyServingKey: key, keyCACert: caCert, keyCAKey: caKey,
			keyNextCert: next, keyNextKey: caKey, keyOldCert: old})
		if err != nil {
			return
		}
		if _, _, _, err := advance(s, []string{"a.example"}, start); err != nil {
			t.Error(err)
		}
	})
}
