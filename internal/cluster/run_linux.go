// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/controlplane/token"
	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/manager/facts"
	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
	"github.com/mullion-k8s/mullion/internal/standin"
	"github.com/mullion-k8s/mullion/internal/supervise"
	"github.com/mullion-k8s/mullion/internal/winhost"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// stopProgram is how long a program may take to end after SIGTERM. The control
// plane and the hosts promise 10 s; the rest is for a busy machine.
const stopProgram = 20 * time.Second

// tokenLife is how long a host may take to join after it was started. A new
// token is made at each start of a host.
const tokenLife = time.Hour

// ErrRunning is returned by Run if another supervisor runs the cluster.
var ErrRunning = errors.New("the cluster's supervisor is already running")

// Run is the supervisor: it brings up everything of the cluster's plan and
// blocks until the context is cancelled and all of it is gone. A SIGHUP makes
// it look for hosts that were added to cluster.json.
func Run(ctx context.Context, l Layout, bin Binaries, log *slog.Logger) (err error) {
	running, err := durable.TryLock(l.lock(), durable.Exclusive)
	if _, locked := errors.AsType[*durable.LockedError](err); locked {
		return ErrRunning
	}
	if err != nil {
		return err
	}
	defer running.Unlock()
	r := &run{layout: l, bin: bin, log: log, spawner: supervise.NewSpawner(), started: time.Now()}
	first, err := r.plan()
	if err != nil {
		return err
	}
	unclaim, err := takeAll(first.Config.nameClaim(), first.Config.networkClaim())
	if err != nil {
		return err
	}
	defer unclaim()
	for _, dir := range first.Directories {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	// What an earlier supervisor left behind when it was killed.
	if err := r.removeFabric(ctx, first); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.removeFabric(context.WithoutCancel(ctx), first)) }()
	s, err := supervise.New(supervise.Config{Components: r.components(first), OnChange: r.publish, Log: log})
	if err != nil {
		return err
	}
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	go r.reload(ctx, s, hup, first)
	return s.Run(ctx)
}

// run is one life of the supervisor.
type run struct {
	layout  Layout
	bin     Binaries
	log     *slog.Logger
	spawner *supervise.Spawner
	started time.Time

	mu    sync.Mutex
	admin kubernetes.Interface // guarded by mu; nil until the kubeconfig exists
}

// client creates the client once: reading certificates for every request would
// cost more than the request.
func (r *run) client() (kubernetes.Interface, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.admin != nil {
		return r.admin, nil
	}
	c, err := Client(r.layout)
	if err == nil {
		r.admin = c
	}
	return c, err
}

func (r *run) plan() (Plan, error) {
	c, err := Load(r.layout)
	if err != nil {
		return Plan{}, err
	}
	return Describe(r.layout, c, r.bin)
}

// reload adds the hosts that are new in cluster.json, and ends those that were
// removed.
func (r *run) reload(ctx context.Context, s *supervise.Supervisor, hup <-chan os.Signal, known Plan) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
		}
		now, err := r.plan()
		if err != nil {
			r.log.Error("cannot read the changed cluster; it stays as it is", logkey.Error, err)
			continue
		}
		for _, n := range known.Nodes {
			if !slices.ContainsFunc(now.Nodes, func(k Node) bool { return k.Name == n.Name }) {
				r.end(ctx, s, known, n)
			}
		}
		for i, n := range now.Nodes {
			if slices.ContainsFunc(known.Nodes, func(k Node) bool { return k.Name == n.Name }) {
				continue
			}
			if err := s.Add(r.node(now, i)); err != nil {
				r.log.Error("cannot add host", logkey.Node, n.Name, logkey.Error, err)
			}
		}
		known = now
	}
}

// end ends a host that was removed from the cluster.
func (r *run) end(ctx context.Context, s *supervise.Supervisor, p Plan, n Node) {
	if err := s.Remove(n.Name); err != nil {
		r.log.Error("cannot end host", logkey.Node, n.Name, logkey.Error, err)
		return
	}
	// The next host at this address has other pods. With host-gw the machine knows the way to them.
	routers := []string{p.Fabric.Namespace}
	if p.Config.Mode() == agent.HostGateway {
		routers = append(routers, "")
	}
	for _, namespace := range routers {
		err := fabric.OpenRouter(namespace).SetPrefixes(ctx, n.Address.Addr(), []netip.Prefix{})
		if err != nil {
			r.log.Warn("routes of a removed host are left", logkey.Node, n.Name, logkey.Error, err)
		}
	}
}

// publish writes the state. A write that fails is repeated by the next change.
func (r *run) publish(st []supervise.Status) {
	s := State{PID: os.Getpid(), Started: r.started, Components: st}
	if err := s.write(r.layout); err != nil {
		r.log.Warn("cannot publish state", logkey.Error, err)
	}
}

func (r *run) components(p Plan) []supervise.Component {
	cs := []supervise.Component{
		{Name: FabricName, Once: true, Run: func(ctx context.Context) error { return r.makeFabric(ctx, p) }},
		r.server(p),
	}
	for i := range p.Nodes {
		cs = append(cs, r.node(p, i))
	}
	return cs
}

// server returns the control plane's component.
func (r *run) server(p Plan) supervise.Component {
	prog := p.Programs[0]
	var pid process
	return supervise.Component{Name: prog.Name, Needs: prog.Needs,
		Run: func(ctx context.Context) error {
			if err := durable.WriteDocument(r.layout.serverConfig(), p.Server); err != nil {
				return err
			}
			return r.child(ctx, prog, &pid)
		},
		Ready: func(context.Context) error {
			st, err := config.ReadStatus(p.Server.StatusFile())
			if errors.Is(err, os.ErrNotExist) || err == nil && st.PID != pid.get() {
				return errors.New("starting")
			}
			if err == nil && !st.Ready {
				return errors.New(progress(st.Components))
			}
			return err
		}}
}

// progress says which parts of the control plane are not ready yet.
func progress(cs []config.ComponentStatus) string {
	for _, c := range cs {
		if c.State != string(supervise.Ready) {
			return c.Name + " " + c.State
		}
	}
	return "starting"
}

// node returns the component of the i-th host. It does not wait for the control
// plane: the host boots meanwhile, and its kubelet asks until it is let in.
func (r *run) node(p Plan, i int) supervise.Component {
	node, prog := p.Nodes[i], p.Programs[i+1]
	var pid process
	return supervise.Component{Name: node.Name, Needs: prog.Needs, Uses: prog.Uses,
		Run: func(ctx context.Context) error {
			tok, err := r.prepare(ctx, node)
			if err != nil {
				return err
			}
			g, ctx := errgroup.WithContext(ctx)
			g.Go(func() error { return r.admit(ctx, node, tok) })
			if _, windows := node.Document.(winhost.Config); windows && !p.Config.NoAdmission {
				g.Go(func() error { return r.recordStandIns(ctx, p) })
			}
			g.Go(func() error { return r.child(ctx, prog, &pid) })
			return g.Wait()
		},
		Ready: func(ctx context.Context) error { return r.nodeReady(ctx, node, pid.get()) }}
}

// prepare writes what a host reads when it starts.
func (r *run) prepare(ctx context.Context, node Node) (token.Token, error) {
	if err := os.MkdirAll(node.Dir, 0o700); err != nil {
		return token.Token{}, fmt.Errorf("make directory: %w", err)
	}
	// The control plane makes its keys first of all.
	if err := wait(ctx, func() error { _, err := os.Stat(node.CAFile); return err }); err != nil {
		return token.Token{}, err
	}
	tok, err := token.New()
	if err != nil {
		return tok, err
	}
	if err := durable.WriteFile(node.TokenFile, []byte(tok.Secret()), 0o600); err != nil {
		return tok, err
	}
	return tok, durable.WriteDocument(r.layout.nodeConfig(node.Name), node.Document)
}

// admit makes the host's token known to the control plane, as soon as that
// can be told.
func (r *run) admit(ctx context.Context, node Node, tok token.Token) error {
	return wait(ctx, func() error {
		client, err := r.client()
		if err != nil {
			return err
		}
		return token.Register(ctx, client, tok, token.Options{TTL: tokenLife, Node: node.Name})
	})
}

// recordStandIns tells placement about the stand-in images whose names do not
// include a build: no registry knows them. It records the images of all hosts at
// once, because images of one name differ from build to build.
func (r *run) recordStandIns(ctx context.Context, p Plan) error {
	images, err := standInRecords(p.Config)
	if err != nil {
		return err
	}
	return wait(ctx, func() error {
		client, err := r.client()
		if err != nil {
			return err
		}
		return facts.RecordLoaded(ctx, client, "", images)
	})
}

// standInRecords returns the records that recordStandIns writes.
func standInRecords(c Config) ([]facts.Loaded, error) {
	builds, err := c.builds()
	if err != nil {
		return nil, err
	}
	var images []facts.Loaded
	for i, host := range builds {
		if !c.has(nodeName(i)) {
			continue
		}
		for _, n := range standin.Names(host) {
			l := facts.Loaded{Reference: n.Reference, OS: "windows", Arch: "amd64", OSVersion: n.Build.OSVersion()}
			if _, told := winver.FromTag(n.Reference); !told && !slices.Contains(images, l) {
				images = append(images, l)
			}
		}
	}
	return images, nil
}

// wait calls f until it returns nil or the context ends.
func wait(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (r *run) nodeReady(ctx context.Context, node Node, pid int) error {
	st, err := host.ReadStatus(node.Status)
	if errors.Is(err, os.ErrNotExist) || err == nil && st.PID != pid {
		return errors.New("starting")
	}
	if err != nil {
		return err
	}
	if st.Phase != host.Running {
		return errors.New(string(st.Phase) + " " + st.Step)
	}
	client, err := r.client()
	if err != nil {
		return err
	}
	return NodeReady(ctx, client, node.Name, st.Since)
}
