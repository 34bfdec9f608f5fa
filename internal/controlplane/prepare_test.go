// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controlplane

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/controlplane/pki"
	"github.com/mullion-k8s/mullion/internal/controlplane/plan"
)

func testConfig(t *testing.T) config.Config {
	return config.Config{
		APIVersion:  config.Version,
		Name:        "default",
		DataDir:     t.TempDir(),
		Addresses:   []netip.Addr{netip.MustParseAddr("127.0.0.1")},
		Port:        6443,
		NodeCIDR:    netip.MustParsePrefix("10.89.0.0/24"),
		PodCIDR:     netip.MustParsePrefix("10.244.0.0/16"),
		ServiceCIDR: netip.MustParsePrefix("10.96.0.0/16"),
	}.Default()
}

// TestEtcdThatNeverBecameReady: a data directory is thrown away only if the
// very first start did not get as far as being ready.
func TestEtcdThatNeverBecameReady(t *testing.T) {
	c := testConfig(t)
	e := &etcd{cfg: c, log: slog.New(slog.DiscardHandler)}
	prepare := func() {
		t.Helper()
		if err := e.prepare(); err != nil {
			t.Fatal(err)
		}
	}
	exists := func(path string) bool {
		_, err := os.Stat(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return err == nil
	}
	prepare()
	if !exists(bootstrapping(c)) {
		t.Fatal("the first start is not marked")
	}
	data := filepath.Join(c.Etcd(), "member")
	if err := os.WriteFile(data, []byte("half a database"), 0o600); err != nil {
		t.Fatal(err)
	}
	prepare() // killed before it was ready
	if exists(data) || !exists(bootstrapping(c)) {
		t.Error("what the first start left is still there, or the second is not marked")
	}
	if err := os.WriteFile(data, []byte("a database"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(bootstrapping(c)); err != nil { // it was ready
		t.Fatal(err)
	}
	prepare()
	if !exists(data) || exists(bootstrapping(c)) {
		t.Error("a data directory in use was touched")
	}
}

// TestAdminKubeconfigFollows: the administrator's file is renewed with the
// certificate and repaired when damaged.
func TestAdminKubeconfigFollows(t *testing.T) {
	c := testConfig(t)
	now := time.Now()
	x := &certificates{
		cfg:  c,
		plan: pki.NewPlan(c),
		log:  slog.New(slog.DiscardHandler),
		now:  func() time.Time { return now },
	}
	read := func() []byte {
		t.Helper()
		if err := x.renew(); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(c.AdminKubeconfig())
		if err != nil {
			t.Fatal(err)
		}
		if cfg, err := clientcmd.RESTConfigFromKubeConfig(data); err != nil || cfg.Host != "https://127.0.0.1:6443" ||
			cfg.Insecure {
			t.Fatalf("kubeconfig: %v, %v", cfg, err)
		}
		if st, err := os.Stat(c.AdminKubeconfig()); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", st.Mode(), err)
		}
		return data
	}
	first := read()
	if !bytes.Equal(read(), first) {
		t.Error("it changed without a reason")
	}
	now = now.AddDate(0, 9, 0)
	second := read()
	if bytes.Equal(second, first) {
		t.Error("it was not renewed with the certificate")
	}
	if err := os.WriteFile(c.AdminKubeconfig(), first[:len(first)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(read(), second) {
		t.Error("it was not repaired")
	}
}

// TestPlanIsComplete: every component of the plan can be run.
func TestPlanIsComplete(t *testing.T) {
	c := testConfig(t)
	c.DNSAddress = netip.MustParseAddrPort("10.89.0.1:53")
	p, err := plan.New(c, plan.Machine{})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{plan: p, log: slog.New(slog.DiscardHandler), ended: make(chan struct{})}
	if err := s.prepare(); err != nil {
		t.Fatal(err)
	}
	cs, err := s.components(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(cs) != len(p.Components) {
		t.Errorf("%d components, want %d", len(cs), len(p.Components))
	}
	for _, x := range cs {
		if x.Run == nil {
			t.Errorf("%s cannot be run", x.Name)
		}
	}
	if s.api.argv == nil {
		t.Error("the API server has no command line")
	}
}
