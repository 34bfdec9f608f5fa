// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package join makes what a machine needs to become a node: a bootstrap token,
// the hash of the cluster's authority, and the kubeconfig with which it asks for
// its certificate. Who gets one is decided by internal/controlplane/approve.
package join

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mullion-k8s/mullion/internal/controlplane/approve"
	"github.com/mullion-k8s/mullion/internal/controlplane/plan"
)

// The form of a bootstrap token
// (https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/).
const (
	// alphabet has 36 letters, so the 16 of the secret part hold 82 bits; the
	// form leaves no room for more, which is why tokens live for an hour only.
	alphabet     = "abcdefghijklmnopqrstuvwxyz0123456789"
	idLength     = 6
	secretLength = 16

	namespace    = "kube-system"
	secretPrefix = "bootstrap-token-"
)

// DefaultTTL of a token: long enough to walk to another machine, short enough
// that a forgotten one does no harm.
const DefaultTTL = time.Hour

var (
	validToken = regexp.MustCompile(`^([a-z0-9]{6})\.([a-z0-9]{16})$`)
	validNode  = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
)

// Token is a bootstrap token. It prints without its secret; use Secret where
// the whole is wanted.
type Token struct{ ID, secret string }

// NewToken makes a random token.
func NewToken() Token { return Token{random(idLength), random(secretLength)} }

// ParseToken reads "ID.SECRET".
func ParseToken(s string) (Token, error) {
	m := validToken.FindStringSubmatch(s)
	if m == nil {
		return Token{}, errors.New("parse token: want six letters or digits, a dot and sixteen more") // not the text: it may be a secret
	}
	return Token{m[1], m[2]}, nil
}

// Secret is the whole token, "ID.SECRET".
func (t Token) Secret() string { return t.ID + "." + t.secret }

// String hides the secret part, so that a token can be logged.
func (t Token) String() string { return t.ID + ".<hidden>" }

// random letters without bias: bytes above the last multiple of 36 are drawn
// again.
func random(n int) string {
	out := make([]byte, 0, n)
	buf := make([]byte, 2*n)
	for len(out) < n {
		_, _ = rand.Read(buf) // it never fails: crypto/rand ends the program instead (Go 1.24)
		for _, b := range buf {
			if limit := 256 / len(alphabet) * len(alphabet); int(b) < limit && len(out) < n {
				out = append(out, alphabet[int(b)%len(alphabet)])
			}
		}
	}
	return string(out)
}

// Options of a token.
type Options struct {
	// TTL is how long it lives; 0 means DefaultTTL.
	TTL time.Duration
	// Node is the only node that may join with it, also if it exists already. ""
	// means any name that no node has yet.
	Node string
	// Description is for people who list the tokens.
	Description string
}

// Secret describes the object that makes the API server know a token (pure).
func Secret(t Token, o Options, now time.Time) (*corev1.Secret, error) {
	if o.TTL == 0 {
		o.TTL = DefaultTTL
	}
	if o.TTL < 0 {
		return nil, fmt.Errorf("make token: it would have expired %s ago", -o.TTL)
	}
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secretPrefix + t.ID, Namespace: namespace, Labels: map[string]string{"app.kubernetes.io/managed-by": "mullion"}},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id":                       t.ID,
			"token-secret":                   t.secret,
			"expiration":                     now.Add(o.TTL).UTC().Format(time.RFC3339),
			"usage-bootstrap-authentication": "true",
			"usage-bootstrap-signing":        "true",
			"auth-extra-groups":              plan.BootstrapGroup,
			"description":                    o.Description,
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
	s, err := Secret(t, o, time.Now())
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().Secrets(namespace).Create(ctx, s, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create token: %w", err)
	}
	return nil
}
