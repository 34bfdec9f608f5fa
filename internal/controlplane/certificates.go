// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/controlplane/pki"
	"github.com/mullion-k8s/mullion/internal/controlplane/plan"
	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/durable/certpem"
	"github.com/mullion-k8s/mullion/internal/logkey"
)

// lookAtCertificates is the interval at which the running process checks for certificates
// to renew. They are renewed four months before they expire, so any interval is fine that
// copes with a machine that sleeps.
const lookAtCertificates = time.Hour

// certificates keeps the certificates fresh. Every reader of them picks up a new
// file by itself: kube-apiserver and client-go watch or re-read theirs, etcd
// reads its own at each handshake.
type certificates struct {
	cfg  config.Config
	plan pki.Plan
	look <-chan os.Signal
	log  *slog.Logger
	now  func() time.Time
}

func (c *certificates) run(ctx context.Context) error {
	tick := time.NewTicker(lookAtCertificates)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-c.look:
		}
		if err := c.renew(); err != nil {
			// The certificates in use are still good for months.
			c.log.Error("cannot renew certificates, will try again", logkey.Error, err, logkey.Wait, lookAtCertificates)
		}
	}
}

// renew replaces the certificates that are about to expire, and updates the
// administrator's kubeconfig.
func (c *certificates) renew() error {
	s := pki.Store{Dir: c.cfg.PKI(), Now: c.now, Log: c.log}
	changed, err := s.Ensure(c.plan)
	if err != nil {
		return err
	}
	for _, name := range changed {
		c.log.Info("issued a certificate", logkey.Name, name)
	}
	ca, err := os.ReadFile(s.Cert(pki.ClusterCA))
	if err != nil {
		return fmt.Errorf("write admin kubeconfig: %w", err)
	}
	admin, err := os.ReadFile(s.Leaf(pki.Admin))
	if err != nil {
		return fmt.Errorf("write admin kubeconfig: %w", err)
	}
	cert, key, err := split(admin)
	if err != nil {
		return fmt.Errorf("write admin kubeconfig: read %s: %w", s.Leaf(pki.Admin), err)
	}
	want, err := plan.AdminKubeconfig(c.cfg, ca, cert, key)
	if err != nil {
		return err
	}
	have, err := os.ReadFile(c.cfg.AdminKubeconfig())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write admin kubeconfig: %w", err)
	}
	if bytes.Equal(have, want) {
		return nil
	}
	return durable.WriteFile(c.cfg.AdminKubeconfig(), want, 0o600)
}

// split takes the client's own certificate and its key out of a leaf's file.
func split(leaf []byte) (cert, key []byte, err error) {
	c, err := certpem.Parse(leaf)
	if err != nil {
		return nil, nil, err
	}
	k, err := certpem.ParseKey(leaf)
	if err != nil {
		return nil, nil, err
	}
	key, err = certpem.EncodeKey(k)
	return certpem.Encode(c), key, err
}
