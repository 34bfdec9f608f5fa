// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package csidriver is the CSI driver of the class mullion-local on a node: Identity and
// Node services, and the registration with the kubelet, over AF_UNIX sockets. It is a
// part of the node agent on Windows and of process 1 of a Linux worker.
//
// A volume is a directory of the node, where Disks mounts a file system of the volume's size.
// Publishing it makes a link at the target on Windows, as CSI drivers do there, and a bind
// mount on Linux. Which cluster a volume belongs to, and where it is published, is in a
// record next to it, out of reach of the pods. Volumes whose PersistentVolume is gone go to a trash (storage.Decide).
//
// See docs/internals/storage.md.
package csidriver

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mullion-k8s/mullion/internal/logkey"
)

// Config configures a Driver.
type Config struct {
	// Node is the node's name.
	Node string
	// Dir has the volumes, their records and the trash.
	Dir string
	// KubeletDir is the kubelet's root directory: targets and sockets lie below it.
	KubeletDir string
	// Cluster has the state of volumes in the cluster.
	Cluster Cluster
	// Disks bounds volumes; if it is nil, each may take all of the disk with Dir.
	Disks Disks
	Log   *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Driver serves the volumes of one node.
type Driver struct {
	cfg Config
	mu  sync.Mutex // guards the records and the directories of volumes
}

// New returns a driver. Run starts it.
func New(c Config) *Driver {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Driver{cfg: c}
}

// Run serves until the context is cancelled. Volumes stay published after it.
func (d *Driver) Run(ctx context.Context) error {
	if err := d.makeDirs(); err != nil {
		return err
	}
	endpoint, registration := d.sockets()
	service, err := listen(endpoint)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		s := d.newServer()
		csi.RegisterIdentityServer(s, identity{})
		csi.RegisterNodeServer(s, nodeService{driver: d})
		return serve(ctx, s, service)
	})
	group.Go(func() error { return d.register(ctx, endpoint, registration) })
	group.Go(func() error { return d.look(ctx) })
	return group.Wait()
}

// newServer returns a server that a panic does not end: on Linux it would take the
// whole host with it.
func (d *Driver) newServer() *grpc.Server {
	return grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo,
		handler grpc.UnaryHandler) (_ any, err error) {
		defer func() {
			if p := recover(); p != nil {
				d.cfg.Log.Error("panic", logkey.Method, info.FullMethod, logkey.Error,
					fmt.Sprintf("%v\n%s", p, debug.Stack()))
				err = status.Errorf(codes.Internal, "panic: %v", p)
			}
		}()
		return handler(ctx, req)
	}))
}
