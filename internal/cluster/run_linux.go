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
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	apiwatch "k8s.io/apimachinery/pkg/watch"
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

// stopProgram is the time for a program to end after SIGTERM. The control plane and the
// hosts promise 10 s; the rest is for a busy machine.
const stopProgram = 20 * time.Second

// tokenLife is the time for a host to join after its start. A new token is made at each
// start of a host.
const tokenLife = time.Hour

// ErrRunning is returned by Run if another supervisor runs the cluster.
var ErrRunning = errors.New("the cluster's supervisor is already running")

// Run is the supervisor: it brings up everything of the cluster's plan and blocks until
// the context is cancelled and all of it is gone. A SIGHUP makes it check for hosts that
// were added to cluster.json.
func Run(ctx context.Context, l Layout, bin Binaries, log *slog.Logger) (err error) {
	running, err := durable.TryLock(l.lock(), durable.Exclusive)
	if _, locked := errors.AsType[*durable.LockedError](err); locked {
		return ErrRunning
	}
	if err != nil {
		return err
	}
	defer running.Unlock()
	r := &run{layout: l, bin: bin, log: log, spawner: supervise.NewSpawner()}
	first, err := r.plan()
	if err != nil {
		return err
	}
	unclaim, err := takeAll(first.Config.nameClaim(), first.Config.networkClaim())
	if err != nil {
		return err
	}
	defer unclaim()
	// With the socket, Start has succeeded; it reports the errors above as its own.
	r.publish(nil)
	closeSocket, err := r.socket.Open(l.run(), log)
	if err != nil {
		return err
	}
	defer closeSocket()
	for _, dir := range first.Directories {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	// Remove the remains of an earlier supervisor that was killed.
	if err := r.removeFabric(ctx, first); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.removeFabric(context.WithoutCancel(ctx), first)) }()
	var events sync.WaitGroup
	defer events.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := supervise.New(supervise.Config{Components: r.components(first), OnChange: r.publish, Log: log,
		OnFrozen: func(name, message string, _ bool) {
			if name != ServerName {
				events.Go(func() { r.warn(ctx, name, message) })
			}
		}})
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
	socket  supervise.Socket[State]

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
	c, err := newClient(r.layout, 0) // a watch has no limit
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

// reload adds the hosts that are new in cluster.json, and stops the hosts that were
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
	// The next host at this address has other pods. With host-gw the machine has the route to them.
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

// publish gives the state to the commands that wait.
func (r *run) publish(st []supervise.Status) {
	r.socket.Publish(State{PID: os.Getpid(), Components: st})
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
	var pid atomic.Int64
	return supervise.Component{Name: prog.Name, Needs: prog.Needs, Changed: &r.socket.Reported,
		Alive: notStopped(func() []int { return []int{int(pid.Load())} }),
		Run: func(ctx context.Context) error {
			if err := durable.WriteDocument(r.layout.serverConfig(), p.Server); err != nil {
				return err
			}
			return r.child(ctx, prog, &pid)
		},
		Ready: func(context.Context) error {
			st, err := config.ReadStatus(p.Server.StatusFile())
			if errors.Is(err, os.ErrNotExist) || err == nil && st.PID != int(pid.Load()) {
				return errors.New("starting")
			}
			if err == nil && !st.Ready {
				return errors.New(progress(st.Components))
			}
			return err
		}}
}

// progress names the components of the control plane that are not ready yet.
func progress(cs []config.ComponentStatus) string {
	for _, c := range cs {
		if c.State != string(supervise.Ready) {
			return c.Name + " " + c.State
		}
	}
	return "starting"
}

// node returns the component of the i-th host. It does not wait for the control plane:
// the host boots meanwhile, and its kubelet retries until the control plane accepts it.
func (r *run) node(p Plan, i int) supervise.Component {
	node, prog := p.Nodes[i], p.Programs[i+1]
	var pid atomic.Int64
	var object atomic.Pointer[corev1.Node]
	ready := func() error { return r.nodeReady(node, int(pid.Load()), object.Load()) }
	return supervise.Component{Name: node.Name, Needs: prog.Needs, Uses: prog.Uses, Changed: &r.socket.Reported,
		Run: func(ctx context.Context) error {
			tok, err := r.prepare(ctx, node)
			if err != nil {
				return err
			}
			defer object.Store(nil)
			g, ctx := errgroup.WithContext(ctx)
			g.Go(func() error {
				if err := r.admit(ctx, node, tok); err != nil {
					return err
				}
				return r.watchNode(ctx, node.Name, &object, ready)
			})
			if _, windows := node.Document.(winhost.Config); windows && !p.Config.NoAdmission {
				g.Go(func() error { return r.recordStandIns(ctx, p) })
			}
			g.Go(func() error { return r.child(ctx, prog, &pid) })
			return g.Wait()
		},
		Ready: func(context.Context) error { return ready() },
		Alive: notStopped(func() []int {
			// Without a status there is no process 1 yet.
			st, _ := host.ReadStatus(node.Status)
			return []int{int(pid.Load()), st.InitPID}
		})}
}

// prepare writes the files that a host reads at its start.
func (r *run) prepare(ctx context.Context, node Node) (token.Token, error) {
	if err := os.MkdirAll(node.Dir, 0o700); err != nil {
		return token.Token{}, fmt.Errorf("make directory: %w", err)
	}
	// The host would return the same error, but on a full disk its files cannot even be written.
	if err := host.CheckSpace(node.Dir); err != nil {
		return token.Token{}, err
	}
	// The control plane makes its keys first of all.
	if err := supervise.Await(ctx, &r.socket.Reported, retryPause, func() error {
		_, err := os.Stat(node.CAFile)
		return err
	}); err != nil {
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

// request calls f with a client until it succeeds: the reports of a control plane that starts show when a request may
// succeed. One may also fail later, without a report.
func (r *run) request(ctx context.Context, f func(context.Context, kubernetes.Interface) error) error {
	return supervise.Await(ctx, &r.socket.Reported, retryPause, func() error {
		client, err := r.client()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, requestLimit)
		defer cancel()
		return f(ctx, client)
	})
}

// retryPause is the longest pause between two attempts of a request.
const retryPause = time.Second

// admit makes the host's token known to the control plane, as soon as it is reachable.
func (r *run) admit(ctx context.Context, node Node, tok token.Token) error {
	return r.request(ctx, func(ctx context.Context, client kubernetes.Interface) error {
		return token.Register(ctx, client, tok, token.Options{TTL: tokenLife, Node: node.Name})
	})
}

// watchNode keeps the Node object of a host up to date until the host is ready. It begins with the present object.
func (r *run) watchNode(ctx context.Context, name string, object *atomic.Pointer[corev1.Node],
	ready func() error) error {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	return supervise.Await(ctx, nil, retryPause, func() error { // an API server that is away cannot notify us
		client, err := r.client()
		if err != nil {
			return err
		}
		watch, err := client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{FieldSelector: selector})
		if err != nil {
			return err
		}
		defer watch.Stop()
		for event := range watch.ResultChan() {
			node, _ := event.Object.(*corev1.Node) // nil: an error, after which the watch ends
			if event.Type == apiwatch.Deleted {
				node = nil
			}
			object.Store(node)
			r.socket.Reported.Ring()
			if ready() == nil {
				return nil
			}
		}
		return errors.New("the watch has ended")
	})
}

// recordStandIns records the stand-in images whose names do not include a build for
// placement: no registry has them. It records the images of all hosts at once, because
// images of one name differ from build to build.
func (r *run) recordStandIns(ctx context.Context, p Plan) error {
	images, err := standInRecords(p.Config)
	if err != nil {
		return err
	}
	return r.request(ctx, func(ctx context.Context, client kubernetes.Interface) error {
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

// nodeReady returns nil if the host's process says that it runs, and its Node object that it is ready.
func (r *run) nodeReady(node Node, pid int, object *corev1.Node) error {
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
	if object == nil {
		object = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	}
	return Explain(r.layout, node.Name, readySince(object, st.Since))
}
