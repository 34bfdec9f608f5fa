// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package servertest_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"os"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mullion-k8s/mullion/internal/controlplane/controlplanetest"
	"github.com/mullion-k8s/mullion/internal/controlplane/pki"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestRenewal replaces certificates under a running control plane.
func TestRenewal(t *testing.T) {
	s := controlplanetest.Run(t, nil)
	served := func() []byte { return served(t, s, &tls.Config{InsecureSkipVerify: true})[0].Raw }
	before := served()
	old, err := os.ReadFile(s.Config.AdminKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	// A missing certificate is replaced like one that expires.
	keys := pki.Store{Dir: s.Config.PKI()}
	for _, leaf := range []string{pki.APIServer, pki.Admin, pki.Etcd, pki.APIServerEtcd, pki.ControllerManager} {
		if err := os.Remove(keys.Leaf(leaf)); err != nil {
			t.Fatal(err)
		}
	}
	s.Signal(syscall.SIGHUP)
	testenv.Eventually(t, "new serving certificate", func() error {
		if bytes.Equal(served(), before) {
			return errors.New("still the old one")
		}
		return nil
	})
	testenv.Eventually(t, "new kubeconfig", func() error {
		now, err := os.ReadFile(s.Config.AdminKubeconfig())
		if err == nil && bytes.Equal(now, old) {
			err = errors.New("still the old one")
		}
		return err
	})
	if _, err := s.Admin().CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}
