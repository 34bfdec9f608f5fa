// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package install

import (
	"context"
	"crypto/x509"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// authoritiesKey is the key in the ConfigMap: the same as `kubectl create
// configmap --from-file=ca.crt` makes, and as the file's name in a folder of
// containerd's certs.d.
const authoritiesKey = "ca.crt"

// AuthoritiesError reports a ConfigMap of registries' authorities that does not
// exist, so that the manager's pods would never start, or that has no effect.
type AuthoritiesError struct{ Namespace, Name, Problem string }

func (e *AuthoritiesError) Error() string {
	return fmt.Sprintf("read the authorities of registries: ConfigMap %s/%s %s", e.Namespace, e.Name, e.Problem)
}

// authorities checks the ConfigMap that the configuration names. The user who
// installs need not be allowed to read it.
func (c *Cluster) authorities(ctx context.Context, cfg Config) error {
	if cfg.RegistryCerts == "" {
		return nil
	}
	refuse := func(problem string) error { return &AuthoritiesError{cfg.Namespace, cfg.RegistryCerts, problem} }
	o, err := c.get(ctx, configMaps, cfg.Namespace, cfg.RegistryCerts)
	switch {
	case apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return err
	case o == nil:
		return refuse("does not exist")
	}
	pem := tree.Root(o.Object).Find("data", authoritiesKey).Str()
	if pem == "" {
		return refuse("has no key " + authoritiesKey)
	}
	if !x509.NewCertPool().AppendCertsFromPEM([]byte(pem)) {
		return refuse(authoritiesKey + " holds no certificate in PEM")
	}
	return nil
}
