// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package registration

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"

	"github.com/mullion-k8s/mullion/internal/fault"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestGolden shows the configurations as the API server gets them.
func TestGolden(t *testing.T) {
	bundle := []byte("-----BEGIN CERTIFICATE-----\n")
	for name, c := range map[string]Config{
		"url": {URL: "https://127.0.0.1:9443", Namespace: "mullion-system", CABundle: bundle},
		"service": {Service: Service{Namespace: "mullion-system", Name: "mullion-webhook"}, Namespace: "mullion-system",
			CABundle: bundle, RulesFailurePolicy: admissionregistrationv1.Fail, NoGMSA: true,
			Owner: &metav1.OwnerReference{
				APIVersion: "rbac.authorization.k8s.io/v1",
				Kind:       "ClusterRole",
				Name:       "mullion",
				UID:        "u",
			}},
	} {
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
		var b strings.Builder
		for _, o := range []any{c.Mutating(), c.Validating()} {
			text, err := yaml.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			b.WriteString("---\n" + string(text))
		}
		testenv.Golden(t, name+".yaml", []byte(b.String()))
	}
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name string
		c    Config
		want string
	}{
		{"nothing", Config{Namespace: "n"}, "either a URL or a Service"},
		{"both", Config{Namespace: "n", URL: "https://a", Service: Service{"n", "s"}}, "either a URL or a Service"},
		{"http", Config{Namespace: "n", URL: "http://a"}, "want https://HOST:PORT"},
		{"path", Config{Namespace: "n", URL: "https://a/b"}, "want https://HOST:PORT"},
		{"user", Config{Namespace: "n", URL: "https://u:p@a"}, "want https://HOST:PORT"},
		{"not a URL", Config{Namespace: "n", URL: "https://a:b:c"}, "address of the webhooks"},
		{"half a Service", Config{Namespace: "n", Service: Service{Name: "s"}}, "needs a namespace and a name"},
		{"no namespace", Config{URL: "https://a"}, "namespace is not set"},
		{"policy", Config{Namespace: "n", URL: "https://a", RulesFailurePolicy: "Maybe"}, "want Ignore or Fail"},
	} {
		if err := tc.c.Validate(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func newTestKeeper(client *fake.Clientset, answers func(context.Context, []byte) error) *Keeper {
	return NewKeeper(KeeperConfig{
		Client:  client,
		Config:  Config{URL: "https://127.0.0.1:9443", Namespace: "n"},
		Answers: answers,
		Log:     slog.New(slog.DiscardHandler),
	})
}

// TestKeeper: nothing is registered before the webhooks answer; what another
// client changes or removes comes back; a new bundle is applied.
func TestKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var up atomic.Bool
		k := newTestKeeper(client, func(context.Context, []byte) error {
			if !up.Load() {
				return errors.New("connection refused")
			}
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- k.Run(ctx) }()
		hooks := client.AdmissionregistrationV1().MutatingWebhookConfigurations()
		settle := func() {
			time.Sleep(2 * retryMax)
			synctest.Wait()
		}
		bundle := func() string {
			got, err := hooks.Get(ctx, Name, metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			return string(got.Webhooks[0].ClientConfig.CABundle)
		}
		settle()
		if err := k.Registered(); !errors.Is(err, errNoBundle) {
			t.Errorf("without certificates: %v", err)
		}
		k.Trust([]byte("one"))
		settle()
		if err := k.Registered(); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("before the webhooks answer: %v", err)
		}
		if _, err := hooks.Get(ctx, Name, metav1.GetOptions{}); err == nil {
			t.Error("registered before the webhooks answer")
		}
		up.Store(true)
		settle()
		if err := k.Registered(); err != nil || bundle() != "one" {
			t.Errorf("%v, %s", err, bundle())
		}
		k.Trust([]byte("two"))
		settle()
		if bundle() != "two" {
			t.Errorf("after a rotation: %s", bundle())
		}
		got, err := hooks.Get(ctx, Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got.Webhooks[0].ClientConfig.CABundle = []byte("three")
		if _, err := hooks.Update(ctx, got, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		settle()
		if bundle() != "two" {
			t.Errorf("after an edit: %s", bundle())
		}
		if err := hooks.Delete(ctx, Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		settle()
		if bundle() != "two" {
			t.Errorf("after a removal: %s", bundle())
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if bundle() != "two" {
			t.Error("the registration did not outlive the keeper")
		}
	})
}

// TestApplyFaults: a round that fails half-way is made whole by the next.
func TestApplyFaults(t *testing.T) {
	for _, point := range []string{"registration.validating", "registration.mutating"} {
		client := fake.NewClientset()
		k := newTestKeeper(client, nil)
		k.Trust([]byte("x"))
		if err := k.apply(fault.With(t.Context(), fault.NewSet(point))); !errors.Is(err, fault.ErrInjected) {
			t.Errorf("%s: %v", point, err)
		}
		if _, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), Name,
			metav1.GetOptions{}); err == nil {
			t.Errorf("%s: mutating is there without validating", point)
		}
		if err := k.apply(t.Context()); err != nil {
			t.Errorf("%s: again: %v", point, err)
		}
	}
}

func TestOwner(t *testing.T) {
	client := fake.NewClientset()
	k := newTestKeeper(client, nil)
	var owner *metav1.OwnerReference
	k.cfg.Owner = func(context.Context) (*metav1.OwnerReference, error) {
		if owner == nil {
			return nil, errors.New("it is gone")
		}
		return owner, nil
	}
	k.Trust([]byte("x"))
	if err := k.apply(t.Context()); err == nil || !strings.Contains(err.Error(), "it is gone") {
		t.Errorf("without the owner: %v", err)
	}
	owner = &metav1.OwnerReference{
		APIVersion: "rbac.authorization.k8s.io/v1",
		Kind:       "ClusterRole",
		Name:       "mullion",
		UID:        "u",
	}
	if err := k.apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), Name,
		metav1.GetOptions{})
	if err != nil || len(got.OwnerReferences) != 1 || got.OwnerReferences[0].UID != "u" {
		text, _ := json.Marshal(got) // for the message only
		t.Errorf("%v\n%s", err, text)
	}
}
