// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package tcpip

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

// Config configures a Service.
type Config struct {
	// File holds the routes and settings.
	File string
	// BootID names the boot of the host.
	BootID string
	// Gateway is the next hop of the default route that the host boots with.
	Gateway netip.Addr
	// Uplink is the name of the adapter that the default route uses.
	Uplink string
	// Adapters lists the host's adapters as they are now.
	Adapters func(context.Context) ([]intent.Adapter, error)
	// Persistent lists the persistent routes; it is called once per boot.
	Persistent func() ([]PersistentRoute, error)
	// SetRoutes makes the data plane have these routes, and no others of this kind.
	SetRoutes func(context.Context, []intent.HostRoute) error
	// Log is required.
	Log *slog.Logger
}

// Service is the routing table of a host and the settings of its adapters. It is
// safe for concurrent use.
type Service struct {
	cfg Config

	mu  sync.Mutex
	doc document // guarded by mu
}

// Open reads the file and gives its routes to the data plane.
func Open(ctx context.Context, cfg Config) (*Service, error) {
	doc, err := load(cfg.File)
	if err != nil {
		return nil, fmt.Errorf("open routing table: %w (remove the file to start with an empty table)", err)
	}
	s := &Service{cfg: cfg, doc: doc}
	if doc.Boot != cfg.BootID {
		if doc.Routes, err = s.booted(ctx); err != nil {
			return nil, fmt.Errorf("open routing table: %w", err)
		}
		doc.Boot = cfg.BootID
		if err := durable.WriteDocument(cfg.File, doc); err != nil {
			return nil, fmt.Errorf("open routing table: %w", err)
		}
		s.doc = doc
	}
	list, err := s.present(ctx)
	if err != nil {
		return nil, fmt.Errorf("open routing table: %w", err)
	}
	if err := cfg.SetRoutes(ctx, hostRoutes(s.doc, list)); err != nil {
		return nil, fmt.Errorf("open routing table: %w", err)
	}
	return s, nil
}

// booted returns the routes that a host has after its boot. A persistent route
// that cannot be made is reported and left out, as on Windows.
func (s *Service) booted(ctx context.Context) ([]route, error) {
	persistent, err := s.cfg.Persistent()
	if err != nil {
		return nil, err
	}
	list, err := s.present(ctx)
	if err != nil {
		return nil, err
	}
	var routes []route
	for _, p := range persistent {
		r, err := p.route(list, s.cfg.Uplink)
		if err == nil {
			err = checkRoute(r)
		}
		if err == nil && len(routes) < maxRoutes && !slices.ContainsFunc(routes, r.same) {
			routes = append(routes, r)
		}
		if err != nil {
			s.cfg.Log.Warn("persistent route not added", logkey.Network, p.Destination.String(), logkey.Error, err)
		}
	}
	return routes, nil
}

// routes returns the whole table in the order of `route print`.
func (s *Service) routes(ctx context.Context) ([]tableRow, error) {
	list, err := s.present(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return table(s.doc, list, s.cfg.Gateway, s.cfg.Uplink), nil
}

// add adds a route. With onLink the next hop must be in a subnet of the adapter,
// as CreateIpForwardEntry demands and CreateIpForwardEntry2 does not.
func (s *Service) add(ctx context.Context, row tableRow, onLink bool) error {
	return s.change(ctx, func(d *document, list []adapter) error {
		r, a, err := find(list, row)
		if err != nil {
			return err
		}
		if err := checkRoute(r); err != nil {
			return err
		}
		if onLink && !r.NextHop.IsUnspecified() && !a.covers(r.NextHop) {
			return refuse(invalidParameter, "next hop %s is in no subnet of adapter %d", r.NextHop, a.Index)
		}
		row.NextHop = r.NextHop
		if slices.ContainsFunc(table(*d, list, s.cfg.Gateway, s.cfg.Uplink), row.same) {
			return refuse(objectAlreadyExists, "route to %s by %s exists", r.Destination, r.NextHop)
		}
		if len(d.Routes) == maxRoutes {
			return refuse(genFailure, "the table holds %d routes", maxRoutes)
		}
		d.Routes = append(slices.Clone(d.Routes), r)
		return nil
	})
}

// remove removes a route.
func (s *Service) remove(ctx context.Context, row tableRow) error {
	return s.change(ctx, func(d *document, list []adapter) error {
		i, err := s.entry(d, list, row)
		if err == nil {
			d.Routes = slices.Delete(slices.Clone(d.Routes), i, i+1)
		}
		return err
	})
}

// setMetric changes the metric of a route.
func (s *Service) setMetric(ctx context.Context, row tableRow) error {
	return s.change(ctx, func(d *document, list []adapter) error {
		i, err := s.entry(d, list, row)
		if err == nil {
			d.Routes = slices.Clone(d.Routes)
			d.Routes[i].Metric = row.Metric
		}
		return err
	})
}

// entry finds a route that programs may change: one that they have added.
func (s *Service) entry(d *document, list []adapter, row tableRow) (int, error) {
	r, _, err := find(list, row)
	if err != nil {
		return 0, err
	}
	if i := slices.IndexFunc(d.Routes, r.same); i >= 0 {
		return i, nil
	}
	row.NextHop = r.NextHop
	if slices.ContainsFunc(table(document{}, list, s.cfg.Gateway, s.cfg.Uplink), row.same) {
		return 0, refuse(accessDenied, "route to %s belongs to the emulated host", row.Destination)
	}
	return 0, refuse(notFound, "no route to %s by %s", row.Destination, row.NextHop)
}

// adapters returns the host's adapters with their settings.
func (s *Service) adapters(ctx context.Context) ([]adapterRow, error) {
	list, err := s.present(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]adapterRow, len(list))
	for i, a := range list {
		out[i] = adapterRow{Index: a.Index, MTU: a.MTU, Loopback: a.Loopback, settings: a.settings, metric: a.metric()}
	}
	return out, nil
}

// setAdapter changes the settings of an adapter.
func (s *Service) setAdapter(ctx context.Context, index int, c adapterChange) error {
	return s.change(ctx, func(d *document, list []adapter) error {
		i := slices.IndexFunc(list, func(a adapter) bool { return a.Index == index })
		if i < 0 {
			return refuse(notFound, "no adapter %d", index)
		}
		if c.MTU != 0 && c.MTU != list[i].MTU {
			return refuse(notSupported, "MTU of adapter %d is fixed", index)
		}
		adapters := map[string]settings{list[i].Link: {}}
		maps.Copy(adapters, d.Adapters)
		adapters[list[i].Link] = c.of(list[i].settings)
		d.Adapters = adapters
		return nil
	})
}

// change does one change: check it, record it, apply it to the data plane. A change
// that the data plane cannot make is taken back.
func (s *Service) change(ctx context.Context, f func(d *document, list []adapter) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, err := s.presentLocked(ctx)
	if err != nil {
		return err
	}
	doc := s.doc
	if err := f(&doc, list); err != nil {
		return err
	}
	if err := durable.WriteDocument(s.cfg.File, doc); err != nil {
		return fmt.Errorf("change routing table: %w", err)
	}
	for i := range list {
		list[i].settings = doc.Adapters[list[i].Link]
	}
	if err := s.cfg.SetRoutes(ctx, hostRoutes(doc, list)); err != nil {
		return errors.Join(fmt.Errorf("change routing table: %w", err), durable.WriteDocument(s.cfg.File, s.doc))
	}
	s.doc = doc
	return nil
}

func (s *Service) present(ctx context.Context) ([]adapter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.presentLocked(ctx)
}

// presentLocked joins the adapters as they are with their settings.
// Preconditions: mu is held.
func (s *Service) presentLocked(ctx context.Context) ([]adapter, error) {
	found, err := s.cfg.Adapters(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]adapter, len(found))
	for i, a := range found {
		list[i] = adapter{Adapter: a, settings: s.doc.Adapters[a.Link]}
	}
	return list, nil
}
