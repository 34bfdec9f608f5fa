// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/hns/emul"
	"github.com/mullion-k8s/mullion/internal/hns/wire"
	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/netplane/apply"
	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
	"github.com/mullion-k8s/mullion/internal/netplane/intent"
	"github.com/mullion-k8s/mullion/internal/netplane/tcpip"
	"github.com/mullion-k8s/mullion/internal/wine"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// Files through which serve reaches init's descriptors. serve opens them itself,
// so that it need not inherit the descriptors.
const (
	machineNetns = "/proc/1/fd/7" // the first of host.Spec.Descriptors
	fabricNetns  = "/proc/1/fd/8"
)

// Serve runs the host's own servers, the Host Networking Service and the
// container runtime, until the context is cancelled. It may be killed and run
// again at any time: containers and their network live on. It writes a line to out
// when the servers listen, for host.Reporter.
func Serve(ctx context.Context, bootFile string, out io.Writer, log *slog.Logger) error {
	f, err := os.Open(bootFile)
	if err != nil {
		return fmt.Errorf("serve host: %w", err)
	}
	defer f.Close()
	var b boot
	if err := host.ReadBoot(f, &b); err != nil {
		return fmt.Errorf("serve host: %w", err)
	}
	// The host may have been booted by an earlier version.
	if err := b.Config.complete(); err != nil {
		return fmt.Errorf("serve host: %w", err)
	}
	build, err := winver.Parse(b.Config.Build)
	if err != nil {
		return fmt.Errorf("serve host: %w", err)
	}
	plane, err := apply.New(apply.Config{NetnsDir: netnsDir, Uplink: fabric.Uplink, Log: log})
	if err != nil {
		return fmt.Errorf("serve host: %w", err)
	}
	defer plane.Close()
	// The routes come first, so that the network that HNS restores has them.
	joint := tcpip.NewJoint(plane.Apply)
	routes, err := openRoutes(ctx, b, plane, joint, log)
	if err != nil {
		return fmt.Errorf("serve host: %w", err)
	}
	service, err := openHNS(ctx, b, build, hostPlane{plane, joint}, log)
	if err != nil {
		return fmt.Errorf("serve host: %w", err)
	}
	defer func() {
		if err := service.Close(); err != nil {
			log.Error("store of HNS not closed", logkey.Error, err)
		}
	}()
	hnsListener, err := net.Listen("tcp", hnsAddress)
	if err != nil {
		return fmt.Errorf("serve HNS: %w", err)
	}
	routesListener, err := net.Listen("tcp", tcpip.Address)
	if err != nil {
		return errors.Join(fmt.Errorf("serve routes: %w", err), hnsListener.Close())
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return wrapf("serve routes", (&tcpip.Server{Service: routes, Log: log}).Serve(ctx, routesListener))
	})
	g.Go(func() error {
		return wrapf("serve HNS", (&wire.Server{API: service, Log: log}).Serve(ctx, hnsListener))
	})
	g.Go(func() error { return wrapf("serve CRI", serveCRI(ctx, b, build, service, out, log)) })
	return g.Wait()
}

func wrapf(what string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// hostPlane is the data plane, with the host's routes in all that is applied.
type hostPlane struct {
	*apply.Plane
	joint *tcpip.Joint
}

// Apply implements emul.DataPlane.
func (p hostPlane) Apply(ctx context.Context, want intent.Host) error {
	return p.joint.Apply(ctx, want)
}

// openRoutes opens the host's routing table.
func openRoutes(ctx context.Context, b boot, plane *apply.Plane, joint *tcpip.Joint,
	log *slog.Logger) (*tcpip.Service, error) {
	return tcpip.Open(ctx, tcpip.Config{
		File:     filepath.Join(nodeDir, "routes.json"),
		BootID:   b.BootID,
		Gateway:  b.Config.Gateway,
		Uplink:   fabric.Uplink,
		Adapters: plane.Adapters,
		Persistent: func() ([]tcpip.PersistentRoute, error) {
			names, err := wine.ValueNames(prefixDir, tcpip.PersistentRoutesKey)
			if err != nil {
				return nil, err
			}
			return tcpip.ParsePersistentRoutes(names, log), nil
		},
		SetRoutes: joint.SetRoutes,
		Log:       log,
	})
}

// openHNS restores the host's network from HNS's store.
func openHNS(ctx context.Context, b boot, build winver.Build, plane emul.DataPlane,
	log *slog.Logger) (*emul.Service, error) {
	announce := func(ctx context.Context, prefixes []netip.Prefix) {
		router := fabric.OpenRouter(fabricNetns)
		if b.Config.Network == agent.HostGateway {
			// The network between the nodes has no routes to pods. Each node has routes to the others, made by
			// flanneld; so has the machine, on which a control plane's node would run flanneld, too.
			router = fabric.OpenRouter(machineNetns)
		}
		if err := b.Config.Announce(ctx, router, prefixes); err != nil {
			log.Error("pod ranges not announced to the fabric", logkey.Error, err)
		}
	}
	return emul.Open(ctx, emul.Config{
		Dir:       filepath.Join(nodeDir, "hns"),
		Version:   emul.VersionOf(build.Number),
		BootID:    b.BootID,
		DataPlane: plane,
		Log:       log,
		OnNetwork: announce,
		GroupsOf:  wine.GroupsOf,
		NoLimits:  b.Config.NoLimits,
	})
}
