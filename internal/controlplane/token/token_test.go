// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package token

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"

	"github.com/mullion-k8s/mullion/internal/controlplane/approve"
	"github.com/mullion-k8s/mullion/internal/controlplane/plan"
)

func newToken(t *testing.T) Token {
	t.Helper()
	tok, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestToken(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		tok := newToken(t)
		if seen[tok.ID] {
			t.Errorf("ID %s twice", tok.ID)
		}
		seen[tok.ID] = true
		if !bootstraputil.IsValidBootstrapToken(tok.Secret()) || !strings.HasPrefix(tok.Secret(), tok.ID+".") {
			t.Fatalf("token %q", tok.Secret())
		}
		for _, s := range []string{tok.String(), fmt.Sprint(tok), fmt.Sprintf("%v %s", tok, tok)} {
			if strings.Contains(s, tok.secret) {
				t.Errorf("%q shows the secret", s)
			}
		}
	}
}

func TestRegister(t *testing.T) {
	client := fake.NewClientset()
	tok := newToken(t)
	for range 2 { // twice is not an error
		if err := Register(t.Context(), client, tok, Options{Node: "win-1", TTL: time.Minute}); err != nil {
			t.Fatal(err)
		}
	}
	s, err := client.CoreV1().Secrets("kube-system").Get(t.Context(), "bootstrap-token-"+tok.ID, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Annotations[approve.NodeAnnotation] != "win-1" || s.StringData["token-secret"] != tok.secret ||
		s.StringData["auth-extra-groups"] != plan.BootstrapGroup {
		t.Errorf("secret %+v", s)
	}
	for _, o := range []Options{{TTL: -time.Second}, {}, {TTL: time.Hour, Node: "a b"},
		{TTL: time.Hour, Node: "../x"}} {
		if err := Register(t.Context(), client, newToken(t), o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s, err = secret(tok, Options{TTL: time.Hour}, now)
	if err != nil || s.StringData["expiration"] != "2026-01-01T01:00:00Z" {
		t.Errorf("life of an hour: %v, %v", s.StringData["expiration"], err)
	}
}
