// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package servertest_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"os"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/controlplane/pki"
)

// TestRenewal replaces certificates under a running control plane.
func TestRenewal(t *testing.T) {
	s := newServer(t, nil)
	s.start()
	s.ready()
	served := func() []byte {
		conn, err := tls.Dial("tcp", s.cfg.LocalURL()[len("https://"):], &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].Raw
	}
	before := served()
	old, err := os.ReadFile(s.cfg.AdminKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	// A certificate that is gone is made anew like one that expires.
	keys := pki.Store{Dir: s.cfg.PKI()}
	for _, leaf := range []string{pki.APIServer, pki.Admin, pki.Etcd, pki.APIServerEtcd, pki.ControllerManager} {
		if err := os.Remove(keys.Leaf(leaf)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t.Context(), t, "new serving certificate", func(context.Context) error {
		if bytes.Equal(served(), before) {
			return errors.New("still the old one")
		}
		return nil
	})
	eventually(t.Context(), t, "new kubeconfig", func(context.Context) error {
		now, err := os.ReadFile(s.cfg.AdminKubeconfig())
		if err == nil && bytes.Equal(now, old) {
			err = errors.New("still the old one")
		}
		return err
	})
	if _, err := s.admin().CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	s.stop()
}
