// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package registration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/mullion-k8s/mullion/internal/fault"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// fieldManager owns the fields that the keeper applies.
const fieldManager = "mullion-manager"

const (
	// retryMin and retryMax bound the wait after an error; a webhook that does
	// not answer yet is one.
	retryMin = 100 * time.Millisecond
	retryMax = 10 * time.Second
	// settle is the least time between two rounds: if something else keeps
	// changing the configurations, both take turns slowly.
	settle = 200 * time.Millisecond
)

// errNoBundle: the certificates do not exist yet.
var errNoBundle = errors.New("there is no certificate yet")

// KeeperConfig configures a Keeper.
type KeeperConfig struct {
	Client kubernetes.Interface
	// Config is the configuration to apply; the keeper fills in CABundle and
	// Owner in.
	Config Config
	// Owner finds the owner; nil: no owner.
	Owner func(ctx context.Context) (*metav1.OwnerReference, error)
	// Answers reports whether the webhooks answer, with a certificate that the bundle
	// trusts, at the address that the API server will use. The webhooks are not
	// registered before.
	Answers func(ctx context.Context, bundle []byte) error
	Log     *slog.Logger
}

// Keeper applies the configurations and keeps them so.
type Keeper struct {
	cfg     KeeperConfig
	changed supervise.Bell

	mu       sync.Mutex
	bundle   []byte // guarded by mu
	answered bool   // guarded by mu
	state    error  // nil once applied; guarded by mu
}

// NewKeeper makes a keeper.
func NewKeeper(c KeeperConfig) *Keeper {
	return &Keeper{cfg: c, state: errNoBundle}
}

// Trust sets the bundle of authorities; it is applied soon.
func (k *Keeper) Trust(bundle []byte) {
	k.mu.Lock()
	k.bundle = bundle
	k.mu.Unlock()
	k.changed.Ring()
}

// Registered returns nil once the configurations are applied, and until then
// the reason why they are not.
func (k *Keeper) Registered() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state
}

// Run keeps the configurations until the context is cancelled; then they stay
// as they are.
func (k *Keeper) Run(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(k.cfg.Client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", Name).String()
		}))
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { k.changed.Ring() }, UpdateFunc: func(any, any) { k.changed.Ring() },
		DeleteFunc: func(any) { k.changed.Ring() },
	}
	for _, informer := range []cache.SharedIndexInformer{
		factory.Admissionregistration().V1().MutatingWebhookConfigurations().Informer(),
		factory.Admissionregistration().V1().ValidatingWebhookConfigurations().Informer(),
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("watch webhook configurations: %w", err)
		}
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	retry := retryMin
	for {
		rung := k.changed.Next()
		err := k.apply(ctx)
		k.mu.Lock()
		k.state = err
		k.mu.Unlock()
		var again <-chan time.Time
		if err != nil {
			again, retry = time.After(retry), min(2*retry, retryMax)
			if ctx.Err() == nil && !errors.Is(err, errNoBundle) {
				k.cfg.Log.Warn("register the webhooks: trying again", logkey.Error, err)
			}
		} else {
			retry = retryMin
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again:
			continue
		case <-rung:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(settle):
		}
	}
}

// apply does one round: it writes both configurations by server-side apply.
func (k *Keeper) apply(ctx context.Context) error {
	k.mu.Lock()
	bundle, answered := k.bundle, k.answered
	k.mu.Unlock()
	if len(bundle) == 0 {
		return errNoBundle
	}
	if !answered && k.cfg.Answers != nil {
		if err := k.cfg.Answers(ctx, bundle); err != nil {
			return fmt.Errorf("query the webhooks: %w", err)
		}
		k.mu.Lock()
		k.answered = true
		k.mu.Unlock()
	}
	c := k.cfg.Config
	c.CABundle = bundle
	if k.cfg.Owner != nil {
		var err error
		if c.Owner, err = k.cfg.Owner(ctx); err != nil {
			return err
		}
	}
	options := metav1.PatchOptions{FieldManager: fieldManager, Force: new(true)}
	// Validating first: so every mutated object is judged afterwards.
	if err := fault.Point(ctx, "registration.validating"); err != nil {
		return err
	}
	api := k.cfg.Client.AdmissionregistrationV1()
	body, err := json.Marshal(c.Validating())
	if err != nil {
		return fmt.Errorf("encode the validating webhooks: %w", err)
	}
	if _, err := api.ValidatingWebhookConfigurations().Patch(ctx, Name, types.ApplyPatchType, body,
		options); err != nil {
		return fmt.Errorf("apply ValidatingWebhookConfiguration %s: %w", Name, err)
	}
	if err := fault.Point(ctx, "registration.mutating"); err != nil {
		return err
	}
	if body, err = json.Marshal(c.Mutating()); err != nil {
		return fmt.Errorf("encode the mutating webhooks: %w", err)
	}
	if _, err := api.MutatingWebhookConfigurations().Patch(ctx, Name, types.ApplyPatchType, body, options); err != nil {
		return fmt.Errorf("apply MutatingWebhookConfiguration %s: %w", Name, err)
	}
	return nil
}

// Rules are the rights that the keeper needs in the whole cluster: over its own
// two objects.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{
		APIGroups:     []string{"admissionregistration.k8s.io"},
		Resources:     []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"},
		ResourceNames: []string{Name},
		// A server-side apply of a missing object is a create with a name; list and
		// watch select the one name.
		Verbs: []string{"create", "list", "patch", "watch"},
	}}
}
