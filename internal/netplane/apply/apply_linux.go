// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/nftables"

	"github.com/mullion-k8s/mullion/internal/fault"
	"github.com/mullion-k8s/mullion/internal/fault/undo"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/netplane/compile"
	"github.com/mullion-k8s/mullion/internal/netplane/intent"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
)

// Config holds the names and paths that a Plane works on.
type Config struct {
	// NetnsDir is where HCN namespaces are mounted, one file each. It is made if
	// absent. Required.
	NetnsDir string
	// Uplink is the name of the host's adapter; empty means "eth0".
	Uplink string
	// Netns is the network namespace of the host; empty means the process's own.
	Netns string
	// Table is the name of the nftables table; empty means compile.TableName.
	Table string
	// Log may be nil.
	Log *slog.Logger
}

func (c *Config) validate() error {
	if c.NetnsDir == "" {
		return errors.New("no directory for network namespaces")
	}
	return nil
}

// Plane is the data plane of one host.
type Plane struct {
	cfg   Config
	log   *slog.Logger
	space *kernel.Space

	mu sync.Mutex
	// plan is the plan that was applied last, or an empty one. guarded by mu
	plan *compile.Plan
	// trusted: the kernel matches plan. guarded by mu
	trusted bool
	// elements is the socket of changeElements, nil before it is used. guarded by mu
	elements *nftables.Conn
}

// New opens the host's network namespace. It makes no changes.
func New(cfg Config) (*Plane, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("open data plane: %w", err)
	}
	cfg.Uplink = cmp.Or(cfg.Uplink, "eth0")
	cfg.Table = cmp.Or(cfg.Table, compile.TableName)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	space, err := kernel.Open(cfg.Netns)
	if err != nil {
		return nil, fmt.Errorf("open data plane: %w", err)
	}
	return &Plane{cfg: cfg, log: cfg.Log, space: space, plan: &compile.Plan{}}, nil
}

// Close releases the Plane's handles. The network stays as it is.
func (p *Plane) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.closeElements(); err != nil {
		p.log.Debug("close netlink", logkey.Error, err)
	}
	p.space.Close()
}

// Apply makes the host's network match want, and returns once it does. The
// caller must not change want's slices afterwards. A compile.ConflictError in
// the chain of the error means that two objects exclude each other; in that case
// the host is unchanged.
func (p *Plane) Apply(ctx context.Context, want intent.Host) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	start := time.Now()
	plan, err := compile.Compile(want, p.plan)
	if err != nil {
		return fmt.Errorf("apply network: %w", err)
	}
	before, trusted := p.plan, p.trusted
	p.trusted = false // until this call has ended well
	if err := p.transition(ctx, before, plan, trusted); err != nil {
		return fmt.Errorf("apply network: %w", err)
	}
	p.plan, p.trusted = plan, true
	p.log.Debug("network applied", logkey.Duration, time.Since(start))
	return nil
}

// transition leads from one plan to the next. If the old one cannot be trusted,
// it looks at the kernel instead.
func (p *Plane) transition(ctx context.Context, old, plan *compile.Plan, trusted bool) (err error) {
	if err := p.addLinks(ctx, old, plan, trusted); err != nil {
		return err
	}
	if err := fault.Point(ctx, "netplane.apply.after-table"); err != nil {
		return err
	}
	if err := p.forget(ctx, old, plan, trusted); err != nil {
		return err
	}
	if err := fault.Point(ctx, "netplane.apply.before-removal"); err != nil {
		return err
	}
	return p.removeOthers(ctx, old, plan, trusted)
}

// addLinks makes the new objects, up to and including the transaction of the table,
// and undoes its changes if a step fails.
func (p *Plane) addLinks(ctx context.Context, old, plan *compile.Plan, trusted bool) (err error) {
	var back undo.Stack
	defer back.OnError(ctx, &err)
	if err := p.applySysctls(old, plan, trusted); err != nil {
		return err
	}
	for _, l := range newLinks(old, plan, trusted) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.ensureLink(ctx, l, &back); err != nil {
			return err
		}
		if err := fault.Point(ctx, "netplane.apply.after-link"); err != nil {
			return err
		}
	}
	if err := p.addRoutes(old, plan, trusted, &back); err != nil {
		return err
	}
	if err := p.addProxies(old, plan, trusted, &back); err != nil {
		return err
	}
	if err := fault.Point(ctx, "netplane.apply.before-table"); err != nil {
		return err
	}
	return p.applyTable(ctx, old, plan, trusted)
}

func (p *Plane) applySysctls(old, plan *compile.Plan, trusted bool) error {
	if trusted && slices.Equal(old.Sysctls, plan.Sysctls) {
		return nil
	}
	return p.space.Do(func() error {
		for _, s := range plan.Sysctls {
			if err := kernel.WriteSysctl(s.Path, s.Value); err != nil {
				return err
			}
		}
		return nil
	})
}

// applyTable brings the table up to date in one transaction.
func (p *Plane) applyTable(ctx context.Context, old, plan *compile.Plan, trusted bool) error {
	if trusted {
		ops := plan.Diff(old)
		if len(ops) == 0 {
			return nil
		}
		err := p.changeTable(ctx, plan, ops)
		if err == nil || ctx.Err() != nil {
			return err
		}
		// Another program changed or removed the table.
		p.log.Warn("table was changed by another program, replacing it", logkey.Error, err)
	}
	return p.space.Nft(ctx, compile.Script(p.cfg.Table, plan.Table.Replace()))
}

// changeTable carries out operations on the table. Elements of sets, which change most often, do not wait for the
// start of nft: kube-proxy creates thousands of load balancers, one after the other.
func (p *Plane) changeTable(ctx context.Context, plan *compile.Plan, ops []compile.Op) error {
	table := &nftables.Table{Family: nftables.TableFamilyINet, Name: p.cfg.Table}
	if changes, ok := elementChanges(table, plan, ops); ok {
		return p.changeElements(changes)
	}
	return p.space.Nft(ctx, compile.Script(p.cfg.Table, ops))
}
