// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package pki

import (
	"bytes"
	"crypto/x509"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/durable/certpem"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

func testConfig() config.Config {
	return config.Config{
		APIVersion:  config.Version,
		Name:        "default",
		DataDir:     "/data",
		Addresses:   []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("10.89.0.1")},
		Port:        6443,
		ExtraSANs:   []string{"build.example.com", "192.0.2.7"},
		NodeCIDR:    netip.MustParsePrefix("10.89.0.0/24"),
		PodCIDR:     netip.MustParsePrefix("10.244.0.0/16"),
		ServiceCIDR: netip.MustParsePrefix("10.96.0.0/16"),
		DNSAddress:  netip.MustParseAddrPort("10.89.0.1:53"),

		MetricsAddress: netip.MustParseAddrPort("10.89.0.1:4443"),
	}.Default()
}

// store returns a store in a directory of its own whose clock can be moved.
func store(t *testing.T) (Store, *time.Time) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return Store{Dir: filepath.Join(t.TempDir(), "pki"), Now: func() time.Time { return now },
		Log: slog.New(slog.DiscardHandler)}, &now
}

func mustEnsure(t *testing.T, s Store, p Plan) []string {
	t.Helper()
	changed, err := s.Ensure(p)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

// contents maps the files of a directory to what is in them.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	m := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		m[e.Name()] = string(data)
	}
	return m
}

func TestPlan(t *testing.T) {
	testenv.Golden(t, "plan.txt", []byte(NewPlan(testConfig()).String()))
	c := testConfig()
	c.Datastore.Endpoints = []string{"https://etcd:2379"}
	c.DNSAddress, c.MetricsAddress = netip.AddrPort{}, netip.AddrPort{}
	testenv.Golden(t, "plan_external.txt", []byte(NewPlan(c).String()))
}

func TestEnsure(t *testing.T) {
	s, _ := store(t)
	p := NewPlan(testConfig())
	if got := mustEnsure(t, s, p); len(got) != len(p.Leaves) {
		t.Errorf("first run issued %v", got)
	}
	before := contents(t, s.Dir)
	if got := mustEnsure(t, s, p); len(got) != 0 {
		t.Errorf("second run issued %v", got)
	}
	after := contents(t, s.Dir)
	for name := range before {
		if before[name] != after[name] {
			t.Errorf("%s changed without a reason", name)
		}
		st, err := os.Stat(filepath.Join(s.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		public := strings.HasSuffix(name, ".crt") || strings.HasSuffix(name, ".pub")
		if strings.Contains(before[name], "PRIVATE KEY") && public {
			t.Errorf("%s holds a private key", name)
		}
		if mode := st.Mode().Perm(); !public && mode != 0o600 || mode&^0o644 != 0 {
			t.Errorf("%s has mode %v", name, mode)
		}
	}
	if st, err := os.Stat(s.Dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", st.Mode(), err)
	}
}

// TestCertificates checks the certificates as a peer would.
func TestCertificates(t *testing.T) {
	s, now := store(t)
	p := NewPlan(testConfig())
	mustEnsure(t, s, p)
	pools := map[string]*x509.CertPool{}
	for _, a := range p.Authorities {
		data, err := os.ReadFile(s.Cert(a.Name))
		if err != nil {
			t.Fatal(err)
		}
		pools[a.Name] = x509.NewCertPool()
		pools[a.Name].AppendCertsFromPEM(data)
	}
	for _, l := range p.Leaves {
		data, err := os.ReadFile(s.Leaf(l.Name))
		if err != nil {
			t.Fatal(err)
		}
		cert, err := certpem.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		usage := x509.ExtKeyUsageClientAuth
		if !l.Client {
			usage = x509.ExtKeyUsageServerAuth
		}
		for ca, pool := range pools {
			_, err := cert.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: *now,
				KeyUsages: []x509.ExtKeyUsage{usage}})
			if (err == nil) != (ca == l.Authority) {
				t.Errorf("%s against %s: %v", l.Name, ca, err)
			}
		}
		for _, name := range l.sans() {
			if err := cert.VerifyHostname(name); err != nil {
				t.Errorf("%s: %v", l.Name, err)
			}
		}
		if slices.Contains(cert.Subject.Organization, "system:masters") {
			t.Errorf("%s is in system:masters", l.Name)
		}
	}
}

func TestRenewal(t *testing.T) {
	s, now := store(t)
	p := NewPlan(testConfig())
	mustEnsure(t, s, p)
	begin := *now
	for _, tc := range []struct {
		name  string
		after time.Duration
		want  int
	}{
		{"two thirds of the life not over", leafLife - renewBefore - time.Hour, 0},
		{"two thirds over", leafLife - renewBefore + time.Hour, len(p.Leaves)},
		{"and at once again", leafLife - renewBefore + 2*time.Hour, 0},
		{"expired", 3 * leafLife, len(p.Leaves)},
		{"the last year of the authorities", authorityLife - time.Hour, len(p.Leaves)},
		{"a leaf cannot outlive its authority", authorityLife - time.Minute, 0},
	} {
		*now = begin.Add(tc.after)
		if got := mustEnsure(t, s, p); len(got) != tc.want {
			t.Errorf("%s: issued %v, want %d", tc.name, got, tc.want)
		}
	}
	for _, d := range []time.Duration{authorityLife + time.Hour, -24 * time.Hour} {
		*now = begin.Add(d)
		if _, err := s.Ensure(p); err == nil || !strings.Contains(err.Error(), "is the clock right?") {
			t.Errorf("clock at %v: err = %v", *now, err)
		}
	}
}

// TestClockWentBack: leaves issued in what turns out to be the future.
func TestClockWentBack(t *testing.T) {
	s, now := store(t)
	p := NewPlan(testConfig())
	begin := *now
	mustEnsure(t, s, p)
	*now = begin.Add(3 * leafLife)
	mustEnsure(t, s, p)
	*now = begin.Add(leafLife)
	if got := mustEnsure(t, s, p); len(got) != len(p.Leaves) {
		t.Errorf("issued %v, want all leaves", got)
	}
}

func TestPlanChanges(t *testing.T) {
	s, _ := store(t)
	c := testConfig()
	mustEnsure(t, s, NewPlan(c))
	c.ExtraSANs = append(c.ExtraSANs, "other.example.com")
	if got := mustEnsure(t, s, NewPlan(c)); !slices.Equal(got, []string{APIServer}) {
		t.Errorf("another name: issued %v", got)
	}
	p := NewPlan(c)
	p.Leaves[len(p.Leaves)-1].Organizations = []string{"x"}
	if got := mustEnsure(t, s, p); len(got) != 1 {
		t.Errorf("another group: issued %v", got)
	}
}

// TestDamage breaks every file in several ways, before and after the keys were
// put to use.
func TestDamage(t *testing.T) {
	p := NewPlan(testConfig())
	ways := map[string]func(path string, data []byte) error{
		"empty": func(path string, _ []byte) error { return os.WriteFile(path, nil, 0o600) },
		"half":  func(path string, data []byte) error { return os.WriteFile(path, data[:len(data)/2], 0o600) },
		"zeros": func(path string, data []byte) error {
			return os.WriteFile(path, bytes.Repeat([]byte{0}, len(data)), 0o600)
		},
		"missing": func(path string, _ []byte) error { return os.Remove(path) },
	}
	precious := []string{ClusterCA + ".crt", ClusterCA + ".key", ServiceAccount + ".key", Encryption + ".json"}
	template, _ := store(t)
	mustEnsure(t, template, p)
	files := contents(t, template.Dir)
	for name := range files {
		if name == marker {
			continue
		}
		for how, damage := range ways {
			for _, used := range []bool{false, true} {
				t.Run(name+"/"+how, func(t *testing.T) {
					s, _ := store(t)
					if err := os.MkdirAll(s.Dir, 0o700); err != nil {
						t.Fatal(err)
					}
					for n, data := range files {
						if n == marker && !used {
							continue
						}
						if err := os.WriteFile(filepath.Join(s.Dir, n), []byte(data), 0o600); err != nil {
							t.Fatal(err)
						}
					}
					if err := damage(filepath.Join(s.Dir, name), []byte(files[name])); err != nil {
						t.Fatal(err)
					}
					_, err := s.Ensure(p)
					if used && slices.Contains(precious, name) {
						if err == nil ||
							!strings.Contains(err.Error(),
								strings.TrimSuffix(strings.TrimSuffix(name, ".crt"), ".key")) {
							t.Fatalf("err = %v, want one that names the file", err)
						}
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					// Everything is whole again and stays.
					if got := mustEnsure(t, s, p); len(got) != 0 {
						t.Errorf("afterwards issued %v", got)
					}
				})
			}
		}
	}
}

func TestPrepare(t *testing.T) {
	s, _ := store(t)
	p := NewPlan(testConfig())
	mustEnsure(t, s, p)
	left := filepath.Join(s.Dir, ".kube-apiserver.pem.tmp-123")
	if err := os.WriteFile(left, []byte("half a k"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(s.Leaf(Admin), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(s.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	mustEnsure(t, s, p)
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("temporary file is still there: %v", err)
	}
	for path, want := range map[string]os.FileMode{s.Dir: 0o700, s.Leaf(Admin): 0o600} {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, st.Mode(), err)
		}
	}
	// A link in place of the directory could lead the keys anywhere.
	other := Store{Dir: filepath.Join(t.TempDir(), "link"), Now: s.Now, Log: s.Log}
	if err := os.Symlink(s.Dir, other.Dir); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Ensure(p); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("link: %v", err)
	}
}

func TestDistinctSerials(t *testing.T) {
	s, _ := store(t)
	p := NewPlan(testConfig())
	mustEnsure(t, s, p)
	seen := map[string]string{}
	for _, l := range p.Leaves {
		data, err := os.ReadFile(s.Leaf(l.Name))
		if err != nil {
			t.Fatal(err)
		}
		cert, err := certpem.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		serial := cert.SerialNumber.String()
		if other, dup := seen[serial]; dup || cert.SerialNumber.BitLen() < 64 {
			t.Errorf("serial %s of %s (also %q)", serial, l.Name, other)
		}
		seen[serial] = l.Name
	}
}

func FuzzParsePair(f *testing.F) {
	ca, err := selfSign(Authority{Name: "a", CommonName: "a"}, time.Now())
	if err != nil {
		f.Fatal(err)
	}
	keyPEM, err := certpem.EncodeKey(ca.Key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(slices.Concat(certpem.Encode(ca.Cert), keyPEM))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, err := parsePair(data, data); err == nil && (p.Cert == nil || p.Key == nil) {
			t.Error("no error and no pair")
		}
		_ = checkEncryption(data) // it must not panic
	})
}
