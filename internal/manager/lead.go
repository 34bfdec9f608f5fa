// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package manager

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/manager/controller/localvolume"
	"github.com/mullion-k8s/mullion/internal/manager/controller/podlimit"
	"github.com/mullion-k8s/mullion/internal/manager/controller/podreason"
	"github.com/mullion-k8s/mullion/internal/manager/controller/runtimeclass"
	"github.com/mullion-k8s/mullion/internal/manager/controller/windowsnode"
	"github.com/mullion-k8s/mullion/internal/manager/inventory"
)

// The times of the election equal the times of Kubernetes' own components
// (k8s.io/component-base config/v1alpha1, RecommendedDefaultLeaderElectionConfiguration).
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// lead runs the controllers, once this manager is the one that may.
func (m *Manager) lead(ctx context.Context) error {
	if !m.cfg.LeaderElection {
		m.leads.Store(true)
		defer m.leads.Store(false)
		return m.control(ctx)
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find a name for the election: %w", err)
	}
	identity := host + "_" + strings.ToLower(rand.Text()[:8])
	log := m.cfg.Log.With(logkey.Component, componentControllers)
	// The lease is kept until the controllers have ended: the manager that takes it over must
	// not meet their last writes. So the election outlives the context.
	electing, giveBack := context.WithCancel(context.WithoutCancel(ctx))
	defer giveBack()
	var began atomic.Bool
	defer context.AfterFunc(ctx, func() {
		if !began.Load() {
			giveBack()
		}
	})()
	ended := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: m.cfg.Namespace, Name: inventory.Lease},
			Client:     m.client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration:   leaseDuration,
		RenewDeadline:   renewDeadline,
		RetryPeriod:     retryPeriod,
		ReleaseOnCancel: true,
		Name:            inventory.Lease,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				began.Store(true)
				m.leads.Store(true)
				defer m.leads.Store(false)
				log.Info("leading: the controllers run here", logkey.Name, identity)
				leading, stop := context.WithCancel(leading)
				defer stop()
				defer context.AfterFunc(ctx, stop)()
				ended <- m.control(leading)
				giveBack()
			},
			OnStoppedLeading: func() {}, // Run returns then
		},
	})
	if err != nil {
		return fmt.Errorf("stand for election: %w", err)
	}
	elector.Run(electing)
	if began.Load() {
		if err := <-ended; err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return errors.New("the lease was lost")
}

// control runs the controllers until one ends.
func (m *Manager) control(ctx context.Context) error {
	log := m.cfg.Log.With(logkey.Component, componentControllers)
	group, ctx := errgroup.WithContext(ctx)
	factory := informers.NewSharedInformerFactory(m.client, 0)
	group.Go(func() error {
		return runtimeclass.New(m.client, runtimeclass.Config{Log: log, Informers: factory}).Run(ctx)
	})
	group.Go(func() error {
		return windowsnode.New(m.client, windowsnode.Config{Log: log, Taint: m.cfg.WindowsTaint,
			Informers: factory}).Run(ctx)
	})
	group.Go(func() error {
		return podreason.New(m.client, podreason.Config{Log: log, Facts: m.facts, Informers: factory}).Run(ctx)
	})
	group.Go(func() error { return podlimit.New(m.client, log).Run(ctx) })
	if m.cfg.Storage {
		group.Go(func() error {
			return localvolume.New(m.client, localvolume.Config{Namespace: m.cfg.Namespace, Log: log,
				Informers: factory}).Run(ctx)
		})
	}
	err := group.Wait()
	factory.Shutdown()
	return err
}
