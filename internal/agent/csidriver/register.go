// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package csidriver

import (
	"context"
	"os"
	"sync/atomic"
	"time"

	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/mullion-k8s/mullion/internal/agent/storage"
	"github.com/mullion-k8s/mullion/internal/logkey"
)

// registerAgain is when a kubelet that did not notice the socket, or has it no longer,
// gets a new one.
const registerAgain = 15 * time.Second

// registration serves the kubelet's plugin watcher, as node-driver-registrar does.
type registration struct {
	registerapi.UnimplementedRegistrationServer
	driver   *Driver
	endpoint string
	known    atomic.Bool // the kubelet has accepted the driver
}

func (r *registration) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{
		Type: registerapi.CSIPlugin, Name: storage.Driver, Endpoint: r.endpoint, SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (r *registration) NotifyRegistrationStatus(_ context.Context, s *registerapi.RegistrationStatus) (
	*registerapi.RegistrationStatusResponse, error) {
	r.known.Store(s.GetPluginRegistered())
	if s.GetPluginRegistered() {
		r.driver.cfg.Log.Info("the storage driver is registered with the kubelet")
	} else {
		r.driver.cfg.Log.Warn("the kubelet refused the storage driver", logkey.Error, s.GetError())
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}

// register offers the driver to the kubelet until the context is cancelled. The
// kubelet watches for new sockets, so one that it missed is made again.
func (d *Driver) register(ctx context.Context, endpoint, path string) error {
	for ctx.Err() == nil {
		if err := d.offer(ctx, endpoint, path); err != nil {
			return err
		}
	}
	return nil
}

// offer serves one socket until it is of no use.
func (d *Driver) offer(ctx context.Context, endpoint, path string) error {
	l, err := listen(path)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r := &registration{driver: d, endpoint: endpoint}
	go func() {
		defer stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(registerAgain):
			}
			if _, err := os.Lstat(path); err != nil || !r.known.Load() {
				return
			}
		}
	}()
	s := d.newServer()
	registerapi.RegisterRegistrationServer(s, r)
	return serve(ctx, s, l)
}
