// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/mullion-k8s/mullion/internal/cgroup"
	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/fault"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
	"github.com/mullion-k8s/mullion/internal/standin"
	"github.com/mullion-k8s/mullion/internal/wine"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// clearLimit bounds the wait for the processes of a host that were killed. The
// kernel takes longest for a process that is freeing a lot of memory.
const clearLimit = 5 * time.Second

// ErrRunning is returned if the host is already running.
var ErrRunning = errors.New("the host is already running")

// Run boots a host and blocks until it has ended. It returns nil if the context
// was cancelled, and an error if the host ended by itself. It first cleans up what
// an earlier run of the host left behind.
func Run(ctx context.Context, c Config, log *slog.Logger) (err error) {
	build, err := winver.Parse(c.Build)
	if err != nil {
		return err
	}
	p := &parent{cfg: c, log: log, status: Status{
		Name: c.Name(), Build: build.OSVersion(), Product: build.ProductName, Address: c.Agent.Node.Address.String(),
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
	b, err := p.prepare(ctx, build)
	if err != nil {
		return fmt.Errorf("prepare host %s: %w", c.Name(), err)
	}
	// From now on this process waits. It would keep what reading the templates left
	// (10 MB, or 30 MB if it has made them) for as long as the host runs.
	debug.FreeOSMemory()
	if err := p.run(ctx, b); err != nil {
		return fmt.Errorf("run host %s: %w", c.Name(), err)
	}
	return nil
}

// parent is the process outside of the host.
type parent struct {
	cfg Config
	log *slog.Logger

	mu     sync.Mutex
	status Status // guarded by mu
}

// update changes the status and writes it down.
func (p *parent) update(change func(*Status)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.status)
	if err := p.status.write(p.cfg.Status); err != nil {
		p.log.Warn("status not written", logkey.Error, err)
	}
}

func (p *parent) step(text string) { p.update(func(s *Status) { s.Step = text }) }

// lock makes sure that one process at a time uses the host's directory.
func (p *parent) lock() (release func(), err error) {
	if err := os.MkdirAll(p.cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make host directory: %w", err)
	}
	l, err := durable.TryLock(filepath.Join(p.cfg.Dir, "lock"), durable.Exclusive)
	if held, ok := errors.AsType[*durable.LockedError](err); ok {
		return nil, fmt.Errorf("lock %s: %w (process %d)", p.cfg.Dir, ErrRunning, held.PID)
	}
	if err != nil {
		return nil, fmt.Errorf("lock host directory: %w", err)
	}
	return l.Unlock, nil
}

// prepare does everything that needs no namespace.
func (p *parent) prepare(ctx context.Context, build winver.Build) (b boot, err error) {
	c := p.cfg
	b = boot{Config: c, BootID: rand.Text()}
	release, err := holdCache(ctx, c.Cache)
	if err != nil {
		return b, err
	}
	defer release()
	p.step("Wine")
	rt, err := wine.OpenRuntime(ctx, c.Cache, filepath.Join(c.Bin, "native"), p.log)
	if err != nil {
		return b, err
	}
	prefix, err := rt.HostPrefix(ctx, build)
	if err != nil {
		return b, err
	}
	b.Runtime, b.Prefix = filepath.Base(rt.Dir), filepath.Base(prefix)
	if _, err := rt.ContainerRoot(ctx, build); err != nil {
		return b, err
	}
	p.step("stand-in images")
	standIns, err := standin.Prepare(ctx, c.Cache, programsOf(c.Bin), p.log)
	if err != nil {
		return b, err
	}
	if err := recordUse(c.Dir, b.Runtime, b.Prefix, standIns.Name()); err != nil {
		return b, err
	}
	p.step("files")
	if err := p.directories(b.Prefix); err != nil {
		return b, err
	}
	if b.CA, err = os.ReadFile(c.CAFile); err != nil {
		return b, fmt.Errorf("read CA certificate: %w", err)
	}
	if c.TokenFile != "" {
		token, err := os.ReadFile(c.TokenFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return b, fmt.Errorf("read bootstrap token: %w", err)
		}
		b.Token = strings.TrimSpace(string(token))
	}
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		switch strings.ToUpper(name) {
		case "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR":
			b.Environ = append(b.Environ, e)
		}
	}
	b.Cgroups, err = cgroup.Find()
	return b, err
}

// directories makes what the mounts need. The overlay's upper directory belongs
// to one template: over another one it would be a mixture of two Windows
// installations, so then the host starts over, as a reinstalled server does.
func (p *parent) directories(template string) error {
	c := p.cfg
	mark := filepath.Join(c.Dir, "prefix", "template")
	old, err := os.ReadFile(mark)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read template of the host: %w", err)
	}
	if err == nil && string(old) != template {
		p.log.Info("host is reinstalled", logkey.Reason, "its Wine template changed", logkey.Path, template)
		for _, d := range []string{"prefix", "cri", "hns"} {
			if err := os.RemoveAll(filepath.Join(c.Dir, d)); err != nil {
				return fmt.Errorf("remove former installation: %w", err)
			}
		}
	}
	for _, d := range []string{upperDir(c), workDir(c), rootDir(c), filepath.Join(c.Dir, "logs")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return fmt.Errorf("make host directory: %w", err)
		}
	}
	// C:\ itself is listable, as on Windows; the directory above is not.
	if err := os.Chmod(upperDir(c), 0o755); err != nil {
		return fmt.Errorf("make host directory: %w", err)
	}
	return os.WriteFile(mark, []byte(template), 0o600)
}

// run boots the host and stays until it has ended.
func (p *parent) run(ctx context.Context, b boot) (err error) {
	c := p.cfg
	all := b.Cgroups.Group(allGroup)
	group := b.Cgroups.Group(clusterGroup(c.Cluster)).Child(c.Name())
	// What a killed parent left: its processes died with it, or are dying.
	if err := group.Clear(ctx, clearLimit); err != nil {
		return err
	}
	m, err := measure(c.Dir)
	if err != nil {
		return err
	}
	limits := ceilingsOf(m, c.Limits)
	b.Ceilings = limits.Pod
	if err := errors.Join(all.Make(limits.All), group.Make(limits.Host)); err != nil {
		return errors.Join(err, group.Clear(ctx, clearLimit))
	}
	p.step("namespaces")
	in, err := startInit(c)
	if err != nil {
		return errors.Join(err, group.Clear(ctx, clearLimit))
	}
	defer func() { err = errors.Join(err, group.Clear(ctx, clearLimit)) }()
	if err := p.connect(ctx, b, in, group); err != nil {
		return errors.Join(err, in.kill())
	}
	p.update(func(s *Status) { s.Phase, s.Step, s.InitPID, s.Since = Running, "", in.pid(), time.Now() })
	p.log.Info("host booted", logkey.Node, c.Name(), logkey.PID, in.pid())
	fatal := make(chan string, 1)
	go p.listen(in.reports, fatal)
	select {
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
	p.log.Info("host is shutting down", logkey.Node, c.Name())
	return in.stop()
}

// connect gives init everything that must come from outside and lets it start.
func (p *parent) connect(ctx context.Context, b boot, in *initProcess, group cgroup.Group) error {
	c := p.cfg
	if err := group.Enter(in.pid()); err != nil {
		return err
	}
	if err := fault.Point(ctx, "winhost.boot.after-cgroup"); err != nil {
		return err
	}
	p.step("network")
	cable, err := fabric.New(fabric.Config{
		Name:       c.Cluster,
		Dir:        filepath.Dir(c.Fabric),
		NodeNet:    c.network(),
		PodNet:     c.Agent.Cluster.PodCIDR,
		ServiceNet: c.Agent.Cluster.ServiceCIDR,
	})
	if err != nil {
		return err
	}
	if plan := cable.Plan(); plan.Namespace != c.Fabric || plan.Router.Addr() != c.Gateway {
		return fmt.Errorf("connect to fabric: configuration says %s with gateway %s, the cluster's is %s with %s",
			c.Fabric, c.Gateway, plan.Namespace, plan.Router.Addr())
	}
	netns := fmt.Sprintf("/proc/%d/ns/net", in.pid())
	if err := cable.Connect(ctx, fabric.Attachment{Node: c.Name(), Netns: netns, Address: c.Address()}); err != nil {
		return err
	}
	// Routes of the last boot; HNS announces those of this one.
	if err := fabric.OpenRouter(c.Fabric).SetPrefixes(ctx, c.Agent.Node.Address, []netip.Prefix{}); err != nil {
		return err
	}
	if err := fault.Point(ctx, "winhost.boot.after-network"); err != nil {
		return err
	}
	doc, err := json.Marshal(b)
	if err != nil {
		return fmt.Errorf("marshal boot document: %w", err)
	}
	if _, err := in.boot.Write(append([]byte{'!'}, doc...)); err != nil {
		return fmt.Errorf("send boot document: %w", err)
	}
	return in.boot.Close()
}

// listen takes init's reports into the status until init has ended.
func (p *parent) listen(reports io.Reader, fatal chan<- string) {
	lines := bufio.NewReader(reports)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var r report
		if json.NewDecoder(bytes.NewReader(line)).Decode(&r) != nil {
			continue // a line cut off by a kill
		}
		if r.Fatal != "" {
			fatal <- r.Fatal
			return
		}
		p.update(func(s *Status) { s.Components, s.Agent = r.Components, r.Agent })
	}
}
