// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/mullion-k8s/mullion/internal/cgroup"
	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/fault"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// clearLimit bounds the wait for the processes of a host that were killed. The
// kernel takes longest for a process that is freeing a lot of memory.
const clearLimit = 5 * time.Second

// ErrRunning is returned if the host is already running.
var ErrRunning = errors.New("the host is already running")

// Run boots a host and blocks until it has ended. It returns nil if the context
// was cancelled, and an error if the host ended by itself. It first cleans up after
// an earlier run of the host.
func Run(ctx context.Context, c Spec, log *slog.Logger) (err error) {
	p := &Parent{spec: c, log: log, status: Status{
		Name: c.Name, Build: c.Build, Product: c.Product, Address: c.Address.Addr().String(),
		PID: os.Getpid(), Phase: Preparing, Since: time.Now(),
	}}
	release, err := p.lock()
	if err != nil {
		return err
	}
	defer release()
	defer func() {
		p.update(func(s *Status) {
			s.Phase, s.Since, s.InitPID = Stopped, time.Now(), 0
			if err != nil {
				s.Step = err.Error()
			}
		})
	}()
	boot, err := p.prepare(ctx)
	defer func() { _ = p.disk.Close() }() // unless process 1 has it; nil and closed files refuse
	if err != nil {
		return fmt.Errorf("prepare host %s: %w", c.Name, err)
	}
	// From now on this process waits. It would keep the memory of the preparation
	// (10 MB, or 30 MB if it has made Wine's templates) for as long as the host
	// runs.
	debug.FreeOSMemory()
	if err := p.run(ctx, boot); err != nil {
		return fmt.Errorf("run host %s: %w", c.Name, err)
	}
	return nil
}

// Parent is the process outside of the host.
type Parent struct {
	// Machine, Ceilings and Size are known when Spec.Prepare is called.
	Machine  Machine
	Ceilings Ceilings
	Size     Size

	spec Spec
	log  *slog.Logger
	disk *os.File // a mount, until process 1 has it

	mu     sync.Mutex
	status Status // guarded by mu
}

// update changes the status and writes it down.
func (p *Parent) update(change func(*Status)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.status)
	if err := supervise.WriteStatus(p.spec.Status, p.status); err != nil {
		p.log.Warn("status not written", logkey.Error, err)
	}
}

// Step sets the current step of the preparation, which users see.
func (p *Parent) Step(text string) { p.update(func(s *Status) { s.Step = text }) }

// lock makes sure that one process at a time uses the host's directory.
func (p *Parent) lock() (release func(), err error) {
	if err := os.MkdirAll(p.spec.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make host directory: %w", err)
	}
	l, err := durable.TryLock(filepath.Join(p.spec.Dir, "lock"), durable.Exclusive)
	if held, ok := errors.AsType[*durable.LockedError](err); ok {
		return nil, fmt.Errorf("lock %s: %w (process %d)", p.spec.Dir, ErrRunning, held.PID)
	}
	if err != nil {
		return nil, fmt.Errorf("lock host directory: %w", err)
	}
	return l.Unlock, nil
}

// prepare makes everything that needs no namespace.
func (p *Parent) prepare(ctx context.Context) (boot any, err error) {
	if err := CheckSpace(p.spec.Dir); err != nil {
		return nil, err
	}
	if p.Machine, err = measure(p.spec.Dir); err != nil {
		return nil, err
	}
	// Leftovers of a killed parent use the disk: its processes died with it, or are
	// dying.
	hs, err := cgroup.Find()
	if err != nil {
		return nil, err
	}
	if err := hs.Group(clusterGroup(p.spec.Cluster)).Child(p.spec.Name).Clear(ctx, clearLimit); err != nil {
		return nil, err
	}
	p.Step("disk")
	if p.disk, err = openDisk(ctx, p.spec, p.Machine); err != nil {
		return nil, err
	}
	if p.Machine.DiskBytes, err = sizeOfDisk(p.disk); err != nil {
		return nil, err
	}
	p.Ceilings = CeilingsOf(p.Machine, p.spec.Limits, p.spec.Hosts)
	turn := int(p.spec.Address.Addr().As4()[3])
	p.Ceilings.Host, p.Size = cpuLimits(p.Ceilings.Host, p.Machine, sizeOf(p.Machine, p.Ceilings.Host),
		p.spec.PinCPUs, turn)
	for _, d := range []string{RootDir(p.spec.Dir), filepath.Join(p.spec.Dir, "logs")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("make host directory: %w", err)
		}
	}
	return p.spec.Prepare(ctx, p)
}

// RootDir is where process 1 builds the root file system, in the host's directory.
func RootDir(dir string) string { return filepath.Join(dir, "root") }

// run boots the host and stays until it has ended.
func (p *Parent) run(ctx context.Context, boot any) (err error) {
	c := p.spec
	hs, err := cgroup.Find()
	if err != nil {
		return err
	}
	all := hs.Group(allGroup)
	group := hs.Group(clusterGroup(c.Cluster)).Child(c.Name)
	if err := errors.Join(all.Make(p.Ceilings.All), group.Make(p.Ceilings.Host), group.Allow(c.Devices)); err != nil {
		return errors.Join(err, group.Clear(ctx, clearLimit))
	}
	p.Step("namespaces")
	in, err := startInit(c, p.disk)
	_ = p.disk.Close() // process 1 has it
	if err != nil {
		return errors.Join(err, group.Clear(ctx, clearLimit))
	}
	defer func() { err = errors.Join(err, group.Clear(ctx, clearLimit)) }()
	hostCtx, ended := context.WithCancel(ctx)
	defer func() {
		ended() // no report is heeded any more
		// Another host takes over.
		gone := context.WithoutCancel(ctx)
		err := errors.Join(p.router().SetShared(gone, c.Address.Addr(), nil), p.announceServices(gone, nil))
		if err != nil {
			p.log.Warn("the host is down, and may still be a way to others' pods", logkey.Error, err)
		}
	}()
	if err := p.connect(hostCtx, boot, in, group); err != nil {
		return errors.Join(err, in.kill())
	}
	p.update(func(s *Status) { s.Phase, s.Step, s.InitPID, s.Since = Running, "", in.pid(), time.Now() })
	p.log.Info("host booted", logkey.Node, c.Name, logkey.PID, in.pid())
	fatal := make(chan string, 1)
	go p.listen(hostCtx, in.reports, fatal)
	var short error
	select {
	case short = <-shortOfSpace(hostCtx, c.Dir):
		// While there is room for the kernel's dirty pages.
	case <-in.ended:
		select {
		case why := <-fatal:
			return errors.New(why)
		default:
			return fmt.Errorf("process 1 ended: %w", in.err)
		}
	case <-ctx.Done():
	}
	p.update(func(s *Status) { s.Phase, s.Since = Stopping, time.Now() })
	p.log.Info("host is shutting down", logkey.Node, c.Name)
	return errors.Join(short, in.stop())
}

// connect gives process 1 everything that must come from outside and lets it start.
func (p *Parent) connect(ctx context.Context, boot any, in *initProcess, group cgroup.Group) error {
	c := p.spec
	if err := group.Enter(in.pid()); err != nil {
		return err
	}
	if err := fault.Point(ctx, "host.boot.after-cgroup"); err != nil {
		return err
	}
	p.Step("network")
	cable, err := fabric.New(fabric.Config{
		Name:       c.Cluster,
		Dir:        filepath.Dir(c.Fabric),
		NodeNet:    c.Address.Masked(),
		PodNet:     c.PodCIDR,
		ServiceNet: c.ServiceCIDR,
		IPv6:       c.IPv6,
	})
	if err != nil {
		return err
	}
	if plan := cable.Plan(); plan.Namespace != c.Fabric || plan.Router.Addr() != c.Gateway {
		return fmt.Errorf("connect to fabric: configuration says %s with gateway %s, the cluster's is %s with %s",
			c.Fabric, c.Gateway, plan.Namespace, plan.Router.Addr())
	}
	netns := fmt.Sprintf("/proc/%d/ns/net", in.pid())
	if err := cable.Connect(ctx, fabric.Attachment{
		Node: c.Name, Netns: netns, Address: c.Address, Address6: c.IPv6Address,
	}); err != nil {
		return err
	}
	// Routes of the last boot; the host announces its new routes.
	if err := errors.Join(p.announce(ctx, nil),
		p.router().SetShared(ctx, c.Address.Addr(), nil)); err != nil {
		return err
	}
	if c.Services {
		if err := p.announceServices(ctx, ipv6.List(c.ServiceCIDR, c.IPv6.ServiceCIDR)); err != nil {
			p.log.Warn("the machine does not reach addresses of Services", logkey.Error, err)
		}
	}
	if err := fault.Point(ctx, "host.boot.after-network"); err != nil {
		return err
	}
	if c.Connected != nil {
		if err := c.Connected(ctx, netns); err != nil {
			return err
		}
	}
	doc, err := json.Marshal(boot)
	if err != nil {
		return fmt.Errorf("marshal boot document: %w", err)
	}
	if _, err := in.boot.Write(append([]byte{'!'}, doc...)); err != nil {
		return fmt.Errorf("send boot document: %w", err)
	}
	return in.boot.Close()
}

// router returns the router with the routes to the host's pods.
func (p *Parent) router() *fabric.Router {
	return fabric.OpenRouter(cmp.Or(p.spec.Router, p.spec.Fabric))
}

// announce makes the host the owner of exactly these ranges of pods.
func (p *Parent) announce(ctx context.Context, ranges []netip.Prefix) error {
	return p.spec.Announce(ctx, p.router(), ranges)
}

// announceServices makes the host one of the machine's ways to exactly these ranges of Services.
func (p *Parent) announceServices(ctx context.Context, ranges []netip.Prefix) (err error) {
	machine := fabric.OpenRouter("")
	for _, own := range ipv6.List(p.spec.Address, p.spec.IPv6Address) {
		err = errors.Join(err, machine.SetServices(ctx, own.Addr(), ranges))
	}
	return err
}

// Announce makes the host the owner of exactly these ranges of pods, each by the host's address of its family.
func (c Config) Announce(ctx context.Context, router *fabric.Router, ranges []netip.Prefix) (err error) {
	for _, own := range ipv6.List(c.Address, c.IPv6Address) {
		err = errors.Join(err, router.SetPrefixes(ctx, own.Addr(), ranges))
	}
	return err
}

// reportLimit bounds a report of process 1: a few kB.
const reportLimit = 1 << 20

// listen takes the reports of process 1 into the status until it has ended, and
// announces the routes to the host's pods to the fabric.
func (p *Parent) listen(ctx context.Context, reports io.Reader, fatal chan<- string) {
	var announced, shared []netip.Prefix
	// An error of reading is the end of process 1.
	_, _ = io.Copy(&lines{limit: reportLimit, each: func(line []byte) {
		var r report
		if json.Unmarshal(line, &r) != nil {
			return // cut off by a kill
		}
		if r.Fatal != "" {
			fatal <- r.Fatal // the last report
			return
		}
		p.update(func(s *Status) { s.Components, s.Agent = r.Components, r.Agent })
		if slices.Equal(r.PodRanges, announced) && slices.Equal(r.Shared, shared) {
			return
		}
		err := errors.Join(p.announce(ctx, r.PodRanges), p.router().SetShared(ctx, p.spec.Address.Addr(), r.Shared))
		if err != nil {
			p.log.Error("pod ranges not announced to the fabric", logkey.Error, err)
			return // until the next report
		}
		announced, shared = r.PodRanges, r.Shared
	}}, reports)
}
