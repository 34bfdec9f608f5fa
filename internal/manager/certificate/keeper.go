// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package certificate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/mullion-k8s/mullion/internal/fault"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

const (
	// attempts is how often one round may lose against another manager before
	// it waits. Each loss means that the other one has written.
	attempts = 5
	// retryMin and retryMax bound the wait after an error.
	retryMin = 500 * time.Millisecond
	retryMax = 30 * time.Second
	// lookEvery bounds the time between two checks, because clocks are set and
	// machines sleep.
	lookEvery = 6 * time.Hour
)

// Config configures a Keeper.
type Config struct {
	Client          kubernetes.Interface
	Namespace, Name string   // of the Secret
	Hosts           []string // DNS names and addresses of the serving certificate
	// OnChange is called with every new bundle of authorities, before a
	// certificate that only it trusts is served. It must not block and may be
	// nil.
	OnChange func(bundle []byte)
	// Owner returns the owner of the Secret; nil means no owner.
	Owner func(ctx context.Context) (*metav1.OwnerReference, error)
	Log   *slog.Logger
}

// Keeper keeps the certificates.
type Keeper struct {
	cfg   Config
	state atomic.Pointer[state]
}

// New returns a Keeper.
func New(c Config) *Keeper { return &Keeper{cfg: c} }

// Certificate returns the serving certificate, for tls.Config.GetCertificate.
func (k *Keeper) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if s := k.state.Load(); s != nil {
		return s.tls(), nil
	}
	return nil, errors.New("there is no certificate yet")
}

// Bundle returns the authorities to trust, in PEM; nil before the first Ensure.
func (k *Keeper) Bundle() []byte {
	if s := k.state.Load(); s != nil {
		return s.bundle()
	}
	return nil
}

// Run keeps the certificates until the context is cancelled.
func (k *Keeper) Run(ctx context.Context) error {
	var changed supervise.Bell
	factory := informers.NewSharedInformerFactoryWithOptions(k.cfg.Client, 0, informers.WithNamespace(k.cfg.Namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", k.cfg.Name).String()
		}))
	informer := factory.Core().V1().Secrets().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed.Ring() }, UpdateFunc: func(any, any) { changed.Ring() },
		DeleteFunc: func(any) { changed.Ring() },
	}); err != nil {
		return fmt.Errorf("watch Secret %s: %w", k.cfg.Name, err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	retry := retryMin
	for {
		rung := changed.Next()
		at, err := k.ensure(ctx)
		wait := min(time.Until(at), lookEvery)
		if err != nil {
			wait, retry = retry, min(2*retry, retryMax)
			if ctx.Err() == nil {
				k.cfg.Log.Warn("certificates of the webhooks: trying again", logkey.Error, err, logkey.Wait, wait)
			}
		} else {
			retry = retryMin
		}
		select {
		case <-ctx.Done():
			return nil
		case <-rung:
		case <-time.After(wait):
		}
	}
}

// ensure does one round: it reads the Secret, writes changes that are due, and
// serves the result. It returns the time of the next check.
func (k *Keeper) ensure(ctx context.Context) (time.Time, error) {
	var err error
	for range attempts {
		var at time.Time
		if at, err = k.round(ctx); err == nil {
			return at, nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			break
		}
	}
	return time.Time{}, err
}

func (k *Keeper) round(ctx context.Context) (time.Time, error) {
	api := k.cfg.Client.CoreV1().Secrets(k.cfg.Namespace)
	if err := fault.Point(ctx, "certificate.read"); err != nil {
		return time.Time{}, err
	}
	secret, err := api.Get(ctx, k.cfg.Name, metav1.GetOptions{})
	found := err == nil
	if err != nil && !apierrors.IsNotFound(err) {
		return time.Time{}, fmt.Errorf("read Secret %s/%s: %w", k.cfg.Namespace, k.cfg.Name, err)
	}
	var state state
	switch mine := k.state.Load(); {
	case found:
		if state, err = parse(secret.Data); err != nil {
			k.cfg.Log.Warn("the Secret of the webhooks' certificates is damaged; writing a new one",
				logkey.Namespace, k.cfg.Namespace, logkey.Name, k.cfg.Name, logkey.Error, err)
			if mine != nil {
				state = *mine
			}
		}
	case mine != nil:
		// The Secret was removed; the API server still trusts the served certificate.
		state = *mine
	}
	next, why, at, err := advance(state, k.cfg.Hosts, time.Now())
	if err != nil {
		return time.Time{}, fmt.Errorf("make certificates: %w", err)
	}
	data, err := next.data()
	if err != nil {
		return time.Time{}, err
	}
	if !found || why != "" || !holds(secret.Data, data) {
		if err := k.write(ctx, secret, found, data); err != nil {
			return time.Time{}, err
		}
		k.cfg.Log.Info("certificates of the webhooks written", logkey.Namespace, k.cfg.Namespace, logkey.Name,
			k.cfg.Name, logkey.Reason, why)
	}
	k.use(next)
	return at, nil
}

// holds reports whether the Secret already has the data. It ignores other keys.
func holds(have, want map[string][]byte) bool {
	for key, v := range want {
		if string(have[key]) != string(v) {
			return false
		}
	}
	return true
}

func (k *Keeper) write(ctx context.Context, secret *corev1.Secret, found bool, data map[string][]byte) error {
	if err := fault.Point(ctx, "certificate.write"); err != nil {
		return err
	}
	api := k.cfg.Client.CoreV1().Secrets(k.cfg.Namespace)
	var err error
	if found {
		secret = secret.DeepCopy()
		secret.Data = data
		_, err = api.Update(ctx, secret, metav1.UpdateOptions{})
	} else {
		secret = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: k.cfg.Name, Labels: inventory.Labels()},
			Type:       corev1.SecretTypeTLS, Data: data,
		}
		if k.cfg.Owner != nil {
			owner, err := k.cfg.Owner(ctx)
			if err != nil {
				return err
			}
			secret.OwnerReferences = []metav1.OwnerReference{*owner}
		}
		_, err = api.Create(ctx, secret, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write Secret %s/%s: %w", k.cfg.Namespace, k.cfg.Name, err)
	}
	return nil
}

// use serves a state, after passing its bundle to OnChange.
func (k *Keeper) use(s state) {
	mine := k.state.Load()
	if mine != nil && mine.equal(s) {
		return
	}
	if k.cfg.OnChange != nil && (mine == nil || string(mine.bundle()) != string(s.bundle())) {
		k.cfg.OnChange(s.bundle())
	}
	k.state.Store(&s)
}

// Rules returns the rights that a Keeper needs in its namespace. The name of a
// new Secret cannot be restricted.
func Rules(secret string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{secret},
			Verbs: []string{"get", "list", "update", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create"}},
	}
}
