// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package token makes bootstrap tokens, with which a machine requests its certificate as
// a node. Package approve decides about the request.
package token

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"

	"github.com/mullion-k8s/mullion/internal/controlplane/approve"
	"github.com/mullion-k8s/mullion/internal/controlplane/plan"
)

var validNode = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

// Token is a bootstrap token. It prints without its secret; use Secret where
// the whole is wanted.
type Token struct{ ID, secret string }

// New makes a random token.
func New() (Token, error) {
	whole, err := bootstraputil.GenerateBootstrapToken()
	if err != nil {
		return Token{}, fmt.Errorf("make token: %w", err)
	}
	id, secret, _ := strings.Cut(whole, ".")
	return Token{id, secret}, nil
}

// Secret returns the whole token, "ID.SECRET".
func (t Token) Secret() string { return bootstraputil.TokenFromIDAndSecret(t.ID, t.secret) }

// String hides the secret part, so that a token can be logged.
func (t Token) String() string { return t.ID + ".<hidden>" }

// Options of a token.
type Options struct {
	// TTL is its lifetime. The form of a token leaves room for 82 bits of secret, so it
	// should not be long.
	TTL time.Duration
	// Node is the only node that may join with it, also if it exists already. ""
	// means any name that no node has yet.
	Node string
}

// secret describes the Secret that registers a token with the API server
// (https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/).
func secret(t Token, o Options, now time.Time) (*corev1.Secret, error) {
	if o.TTL <= 0 {
		return nil, fmt.Errorf("make token: it would live for %s", o.TTL)
	}
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:      bootstraputil.BootstrapTokenSecretName(t.ID),
			Namespace: metav1.NamespaceSystem,
			Labels:    map[string]string{"app.kubernetes.io/managed-by": "mullion"},
		},
		Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			bootstrapapi.BootstrapTokenIDKey:               t.ID,
			bootstrapapi.BootstrapTokenSecretKey:           t.secret,
			bootstrapapi.BootstrapTokenExpirationKey:       now.Add(o.TTL).UTC().Format(time.RFC3339),
			bootstrapapi.BootstrapTokenUsageAuthentication: "true",
			bootstrapapi.BootstrapTokenUsageSigningKey:     "true",
			bootstrapapi.BootstrapTokenExtraGroupsKey:      plan.BootstrapGroup,
		},
	}
	if o.Node != "" {
		if !validNode.MatchString(o.Node) {
			return nil, fmt.Errorf("make token: %q is not a node's name", o.Node)
		}
		s.Annotations = map[string]string{approve.NodeAnnotation: o.Node}
	}
	return s, nil
}

// Register makes a token known to the cluster. It may have been made before, for
// a node that starts while its control plane does. Registering twice is not an
// error.
func Register(ctx context.Context, client kubernetes.Interface, t Token, o Options) error {
	s, err := secret(t, o, time.Now())
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Secrets(s.Namespace).Create(ctx, s, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create token: %w", err)
	}
	return nil
}
