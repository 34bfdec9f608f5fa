// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package emul

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mullion-k8s/mullion/internal/fault"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/netplane/intent"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// DataPlane implements the objects of the service. All methods may be called again
// with the same arguments.
type DataPlane interface {
	// CreateNamespace makes the network compartment of an HCN namespace.
	CreateNamespace(ctx context.Context, id string) error
	// DeleteNamespace removes it; it is not an error if it does not exist.
	DeleteNamespace(ctx context.Context, id string) error
	// Namespaces lists all existing compartments, including compartments that
	// others created, by the IDs of their namespaces in upper or lower case.
	Namespaces(ctx context.Context) ([]string, error)
	// NamespacePath is the file by which the compartment can be entered.
	NamespacePath(id string) string
	// Apply makes the network of the host be as wanted, and returns when it is.
	Apply(ctx context.Context, want intent.Host) error
	// Stats are the counters of an attached endpoint.
	Stats(ctx context.Context, endpointID string) (intent.Stats, error)
	// Uplink is the host's adapter.
	Uplink(ctx context.Context) (intent.Uplink, error)
}

// Config configures a Service.
type Config struct {
	// Dir holds the store. It is made if needed. One service at a time uses it.
	Dir string
	// Version that the service reports and by which some features are refused.
	// Zero means the version of Windows Server 2019: VersionOf(17763).
	Version schema.Version
	// BootID names the boot of the emulated host. When it differs from the one in
	// the store, networks with the flag EnableNonPersistent and all compartments
	// are gone, as after a reboot of Windows. Empty: never.
	BootID string
	// DataPlane is required.
	DataPlane DataPlane
	// OnNetwork, if set, receives the prefixes of all L2Bridge and L2Tunnel networks, except
	// the nodes' own: other nodes must route them to this host. It is called when the service
	// opens and after each change of the networks, one call at a time.
	OnNetwork func(ctx context.Context, prefixes []netip.Prefix)
	// GroupsOf returns the Unix groups of the accounts whose security identifiers begin
	// with sid; the policy L4WFPPROXY leaves their programs alone. nil means no groups.
	GroupsOf func(sid string) []uint32
	// NoLimits lifts restrictions of Windows that have no good reason; see limits.
	NoLimits bool
	// Log is required.
	Log *slog.Logger
}

// Service is the emulated HNS. It implements hns.API and is safe for concurrent
// use.
type Service struct {
	cfg    Config
	uplink intent.Uplink

	current atomic.Pointer[state]

	// mu serialises mutations.
	mu      sync.Mutex
	journal *journal // guarded by mu
	// departed are remote subnets that stay in the data plane a little longer. guarded by mu
	departed []departure
	fading   bool // guarded by mu; departed is being emptied
	// lingering is the constant; tests shorten it.
	lingering time.Duration
	flushing  bool // guarded by mu; a flush is due

	closed   chan struct{}
	flushes  sync.WaitGroup
	closing  sync.Once
	closeErr error // guarded by closing
}

// Open reads the store, makes the data plane match it and returns the
// service.
func Open(ctx context.Context, cfg Config) (*Service, error) {
	if cfg.DataPlane == nil || cfg.Log == nil || cfg.Dir == "" {
		return nil, errors.New("open HNS: Dir, DataPlane and Log are required")
	}
	if cfg.Version == (schema.Version{}) {
		cfg.Version = VersionOf(17763)
	}
	uplink, err := cfg.DataPlane.Uplink(ctx)
	if err != nil {
		return nil, fmt.Errorf("open HNS: find uplink: %w", err)
	}
	j, st, err := openJournal(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("open HNS: %w", err)
	}
	s := &Service{cfg: cfg, uplink: uplink, journal: j, closed: make(chan struct{}), lingering: lingering}
	s.current.Store(st)
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open HNS: %w", err), s.Close())
	}
	return s, nil
}

// start brings the store and the data plane to where they agree.
func (s *Service) start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	tx := newTxn(s.current.Load())
	if tx.globals.get(globalBoot) == nil || s.cfg.BootID != "" && tx.globals.get(globalBoot).Values[0] != s.cfg.BootID {
		reboot(tx, s.cfg.BootID)
	}
	ensureHostNamespace(tx)
	if err := s.write(ctx, tx); err != nil {
		return err
	}
	st := s.current.Load()
	for ns := range st.namespaces.all {
		if compartment(ns) {
			if err := s.cfg.DataPlane.CreateNamespace(ctx, ns.ID); err != nil {
				return fmt.Errorf("restore namespaces: %w", err)
			}
		}
	}
	if err := s.cfg.DataPlane.Apply(ctx, compile(st, s.uplink, nil, s.cfg.limits(), s.cfg.GroupsOf)); err != nil {
		return fmt.Errorf("restore networks: %w", err)
	}
	s.sweep(ctx)
	s.announce(ctx)
	return nil
}

// reboot removes the objects that do not survive a restart of Windows.
func reboot(tx *txn, bootID string) {
	for n := range tx.networks.all {
		if n.Flags&schema.EnableNonPersistent != 0 {
			dropNetwork(tx, n.ID)
		}
	}
	for ns := range tx.namespaces.all {
		if !ns.BuiltIn {
			dropNamespace(tx, ns)
		}
	}
	tx.setGlobal(globalBoot, &global{Values: []string{bootID}})
}

// Close releases the store, after the last call has ended. The data plane stays as it is: containers keep
// their network while the service is away.
func (s *Service) Close() error {
	s.closing.Do(func() {
		close(s.closed)
		s.flushes.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.closeErr = s.journal.close()
	})
	return s.closeErr
}

// flushLater syncs the journal soon, if that is not due already.
// Preconditions: mu is held.
func (s *Service) flushLater() {
	if s.flushing {
		return
	}
	s.flushing = true
	s.flushes.Go(func() {
		select {
		case <-time.After(flushDelay):
		case <-s.closed:
		}
		s.mu.Lock()
		s.flushing = false
		s.mu.Unlock()
		// Without the lock, so that no call waits for a slow disk.
		if err := s.journal.file.Sync(); err != nil {
			s.cfg.Log.Error("journal is not safe from a power cut", logkey.Error, err)
		}
	})
}

// mutate runs one mutation: change gets a copy of the state, which becomes the
// state if the data plane and the journal accept it.
func (s *Service) mutate(ctx context.Context, change func(tx *txn) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	tx := newTxn(s.current.Load())
	if err := change(tx); err != nil {
		return err
	}
	if len(tx.changes) == 0 {
		return nil
	}
	departed := s.departures(&tx.state)
	if tx.plane {
		if err := s.apply(ctx, &tx.state, departed); err != nil {
			return err
		}
	}
	if err := s.write(ctx, tx); err != nil {
		if tx.plane {
			s.revert(ctx)
		}
		return err
	}
	s.departed = departed
	s.fadeLater()
	if tx.networksChanged {
		s.announce(ctx)
	}
	return nil
}

// apply applies st to the data plane, and on failure the published state again.
// Preconditions: mu is held.
func (s *Service) apply(ctx context.Context, st *state, departed []departure) error {
	err := s.cfg.DataPlane.Apply(ctx, compile(st, s.uplink, departed, s.cfg.limits(), s.cfg.GroupsOf))
	if err == nil {
		err = fault.Point(ctx, "hns.apply.after")
	}
	if err != nil {
		s.revert(ctx)
		return hresult.Errorf(hresult.Fail, "apply to data plane: %w", err)
	}
	return nil
}

// revert makes the data plane match the published state after a failed mutation.
// Its own errors can only be logged; the next mutation applies the whole state
// again.
// Preconditions: mu is held.
func (s *Service) revert(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	old := compile(s.current.Load(), s.uplink, s.departed, s.cfg.limits(), s.cfg.GroupsOf)
	if err := s.cfg.DataPlane.Apply(ctx, old); err != nil {
		s.cfg.Log.Error("data plane differs from the store until the next change", logkey.Error, err)
	}
}

// write makes the transaction durable and publishes it.
// Preconditions: mu is held.
func (s *Service) write(ctx context.Context, tx *txn) error {
	if len(tx.changes) == 0 {
		return nil
	}
	changes, err := tx.encode()
	if err != nil {
		return hresult.Errorf(hresult.Unexpected, "%w", err)
	}
	if err := fault.Point(ctx, "hns.write.before"); err != nil {
		return hresult.Errorf(hresult.Fail, "%w", err)
	}
	if err := s.journal.append(changes, tx.networksChanged); err != nil {
		return hresult.Errorf(writeCode(err), "%w", err)
	}
	if !tx.networksChanged {
		s.flushLater()
	}
	st := tx.state
	s.current.Store(&st)
	if err := s.journal.compact(&st); err != nil {
		s.cfg.Log.Warn("journal stays long until the next change", logkey.Error, err)
	}
	return nil
}

// announce reports the prefixes that lead to this host to OnNetwork.
// Preconditions: mu is held.
func (s *Service) announce(ctx context.Context) {
	if s.cfg.OnNetwork == nil {
		return
	}
	prefixes := []netip.Prefix{}
	for n := range s.current.Load().networks.all {
		if n.Type == schema.L2Bridge || n.Type == schema.L2Tunnel {
			for _, sub := range subnets(n) {
				if !sub.prefix.Overlaps(s.uplink.Address) { // every router has a route to the nodes' own network
					prefixes = append(prefixes, sub.prefix)
				}
			}
		}
	}
	s.cfg.OnNetwork(ctx, prefixes)
}
