// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package certificate

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mullion-k8s/mullion/internal/fault"
)

func newKeeper(client kubernetes.Interface, onChange func([]byte)) *Keeper {
	return New(Config{
		Client:    client,
		Namespace: "ns",
		Name:      "s",
		Hosts:     []string{"a.example"},
		OnChange:  onChange,
		Log:       slog.New(slog.DiscardHandler),
	})
}

func secret(t *testing.T, client kubernetes.Interface) *corev1.Secret {
	t.Helper()
	s, err := client.CoreV1().Secrets("ns").Get(t.Context(), "s", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRaces: of two keepers that find nothing one writes, and both serve that.
func TestRaces(t *testing.T) {
	elsewhere := fake.NewClientset()
	other := newKeeper(elsewhere, nil)
	if _, err := other.ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The other keeper's Secret comes between this one's read and write.
	written := secret(t, elsewhere)
	client := fake.NewClientset()
	var once sync.Once
	client.PrependReactor("create", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		var err error
		once.Do(func() {
			err = client.Tracker().Create(corev1.SchemeGroupVersion.WithResource("secrets"), written, "ns")
		})
		return err != nil, nil, err
	})
	k := newKeeper(client, nil)
	if _, err := k.ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if string(k.Bundle()) != string(other.Bundle()) || len(k.Bundle()) == 0 {
		t.Error("they trust different authorities")
	}
}

// TestConflicts: who loses an update reads again, and gives up at some time.
func TestConflicts(t *testing.T) {
	client := fake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}})
	left := 2
	client.PrependReactor("update", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		if left == 0 {
			return false, nil, nil
		}
		left--
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "s", errors.New("changed"))
	})
	k := newKeeper(client, nil)
	if _, err := k.ensure(t.Context()); err != nil {
		t.Error(err)
	}
	left = 1000
	if err := client.CoreV1().Secrets("ns").Delete(t.Context(), "s", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Secrets("ns").Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.ensure(t.Context()); !apierrors.IsConflict(err) || left != 1000-attempts {
		t.Errorf("%v after %d attempts", err, 1000-left)
	}
}

// TestFaults fails a round at each of its points: the error comes out, what was
// served goes on being served, and the next round succeeds.
func TestFaults(t *testing.T) {
	for _, found := range []bool{false, true} {
		points := []string{"certificate.read", "certificate.write"}
		for _, p := range points {
			client := fake.NewClientset()
			if found {
				if _, err := client.CoreV1().Secrets("ns").Create(t.Context(),
					&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			k := newKeeper(client, nil)
			set := fault.NewSet(p)
			if _, err := k.ensure(fault.With(t.Context(), set)); !errors.Is(err, fault.ErrInjected) {
				t.Errorf("%s: %v", p, err)
			}
			if k.Bundle() != nil {
				t.Errorf("%s: something is served that was not written", p)
			}
			if _, err := k.ensure(t.Context()); err != nil || k.Bundle() == nil {
				t.Errorf("%s: again: %v", p, err)
			}
		}
	}
}

// TestRun keeps certificates for 300 days, with a Secret that is removed and
// damaged on the way. No restart, and never nothing to serve.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var mu sync.Mutex
		var bundle []byte
		k := newKeeper(client, func(b []byte) {
			mu.Lock()
			defer mu.Unlock()
			bundle = b
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- k.Run(ctx) }()
		begin := time.Now()
		seen := map[string]bool{}
		for time.Since(begin) < 300*day {
			time.Sleep(5 * day)
			synctest.Wait()
			c, err := k.Certificate(nil)
			if err != nil {
				t.Fatal(err)
			}
			seen[c.Leaf.SerialNumber.String()] = true
			if left := time.Until(c.Leaf.NotAfter); left < servingRenew-day {
				t.Fatalf("after %s: the certificate ends in %s", time.Since(begin), left)
			}
			mu.Lock()
			b := string(bundle)
			mu.Unlock()
			if b != string(k.Bundle()) || !trusts(t, []byte(b), *k.state.Load(), "a.example", time.Now()) {
				t.Fatal("what is served is not what is trusted")
			}
		}
		if len(seen) < 5 {
			t.Errorf("%d certificates", len(seen))
		}
		before := secret(t, client).Data
		if err := client.CoreV1().Secrets("ns").Delete(ctx, "s", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if string(secret(t, client).Data[keyCACert]) != string(before[keyCACert]) {
			t.Error("a removed Secret was not put back as it was")
		}
		s := secret(t, client)
		s.Data = map[string][]byte{keyCAKey: []byte("x")}
		if _, err := client.CoreV1().Secrets("ns").Update(ctx, s, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if string(secret(t, client).Data[keyCACert]) != string(before[keyCACert]) {
			t.Error("a damaged Secret was not put right")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestAnswersDown: an API server that does not answer is asked again, less and
// less often, and what is served stays.
func TestAnswersDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		k := newKeeper(client, nil)
		if _, err := k.ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		asked := 0
		client.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			asked++
			return true, nil, errors.New("down")
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- k.Run(ctx) }()
		time.Sleep(time.Hour)
		if c, err := k.Certificate(nil); err != nil || c == nil {
			t.Error(err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if asked < 60 || asked > 200 {
			t.Errorf("asked %d times in an hour", asked)
		}
	})
}
