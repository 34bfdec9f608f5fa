// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package servertest_test

import (
	"errors"
	"io/fs"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/controlplane/controlplanetest"
	"github.com/mullion-k8s/mullion/internal/controlplane/pki"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestExternalEtcd uses an etcd that is not the control plane's own.
func TestExternalEtcd(t *testing.T) {
	testenv.Need(t, testenv.Built)
	dir := t.TempDir()
	keys := pki.Store{Dir: filepath.Join(dir, "pki"), Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	if _, err := keys.Ensure(pki.Plan{
		Authorities: []pki.Authority{{Name: "ca", CommonName: "external etcd"}},
		Leaves: []pki.Leaf{
			{Name: "server", Authority: "ca", CommonName: "etcd",
				Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}},
			{Name: "client", Authority: "ca", CommonName: "client", Client: true},
		},
	}); err != nil {
		t.Fatal(err)
	}
	endpoint := url.URL{Scheme: "https", Host: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"),
		controlplanetest.FreePort(t)).String()}
	peer := url.URL{Scheme: "https", Host: "127.0.0.1:2380"} // a name only
	e := embed.NewConfig()
	e.Dir, e.LogLevel = filepath.Join(dir, "etcd"), "error"
	e.ListenPeerUrls, e.AdvertisePeerUrls = nil, []url.URL{peer}
	e.ListenClientUrls, e.AdvertiseClientUrls = []url.URL{endpoint}, []url.URL{endpoint}
	e.InitialCluster = e.Name + "=" + peer.String()
	e.ClientTLSInfo = transport.TLSInfo{
		CertFile:       keys.Leaf("server"),
		KeyFile:        keys.Leaf("server"),
		TrustedCAFile:  keys.Cert("ca"),
		ClientCertAuth: true,
	}
	etcd, err := embed.StartEtcd(e)
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	<-etcd.Server.ReadyNotify()

	s := controlplanetest.New(t, func(c *config.Config) {
		c.Datastore = config.Datastore{
			Endpoints: []string{endpoint.String()},
			CAFile:    keys.Cert("ca"),
			CertFile:  keys.Leaf("client"),
			KeyFile:   keys.Leaf("client"),
		}
	})
	s.Start()
	s.Ready()
	if _, err := s.Admin().CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if _, err := os.Stat(s.Config.Etcd()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it made an etcd of its own: %v", err)
	}
	s.Start()
	s.Ready()
	if _, err := s.Admin().CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	s.Stop()
}
