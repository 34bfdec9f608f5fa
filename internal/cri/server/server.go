// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cgroup"
	"github.com/mullion-k8s/mullion/internal/cri/cni"
	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/cri/mount"
	"github.com/mullion-k8s/mullion/internal/cri/oci"
	"github.com/mullion-k8s/mullion/internal/cri/runc"
	"github.com/mullion-k8s/mullion/internal/cri/store"
	"github.com/mullion-k8s/mullion/internal/cri/stream"
	"github.com/mullion-k8s/mullion/internal/fault"
	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/winsys/winpath"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// Images is the image store; image.Store implements it.
type Images interface {
	List() []*image.Image
	Get(ref string) (*image.Image, error)
	Acquire(ref, owner string) (*image.Image, error)
	Release(owner string) error
	Holders(id string) []string
	Pull(ctx context.Context, ref string, auth *image.Auth) (*image.Image, error)
	Remove(ctx context.Context, ref string) error
	FsInfo() (image.FsInfo, error)
}

// Namespaces are the host's HCN namespaces; emul.Service implements it.
type Namespaces interface {
	CreateNamespace(ctx context.Context) (id string, err error)
	DeleteNamespace(ctx context.Context, id string) error
	NamespacePath(id string) string
	Namespaces() []string
	AddContainer(ctx context.Context, namespaceID, containerID string) error
	RemoveContainer(ctx context.Context, namespaceID, containerID string) error
	NamespaceStats(ctx context.Context, id string) ([]hns.EndpointStats, error)
}

// Config holds the parts and settings of a Server.
type Config struct {
	// StateDir holds records, writable layers and exit codes. It survives.
	StateDir string
	// RunDir holds runc's state. It must be empty after a restart of the
	// emulated host, whose processes end then: a tmpfs of the host.
	RunDir string

	Images     Images
	Namespaces Namespaces
	Plugins    cni.Runner
	Engine     Engine

	// Drive is the directory that is drive C of the emulated host.
	Drive string
	// Cgroup is the host's cgroup, as a path from the root of each hierarchy.
	Cgroup string
	// FirstUID is the first of IDsPerHost user IDs for the host's pods, which no others on
	// the machine have. Zero runs all pods with the ids of the Engine.
	FirstUID uint32
	// Ceilings bound each pod, beside its own limits.
	Ceilings Ceilings
	// CPUs is how many processors the host has; zero means all of the machine's.
	CPUs int
	// SizeFiles are the files that show the host's size, by the path in a container's /proc
	// that they cover.
	SizeFiles map[string]string
	// Build is the host's; images of others are refused.
	Build winver.Build
	// Handlers are the names, beside the built-in ones, under which RuntimeClass
	// objects mean process isolation.
	Handlers []string
	// Version is mullion's.
	Version string
	// Hostname is the name of the host, and of HostProcess containers.
	Hostname string
	// HostProcesses is how HostProcess containers run; nil refuses them.
	HostProcesses HostProcesses

	Log *slog.Logger
}

func (c Config) validate() error {
	for name, ok := range map[string]bool{
		"StateDir": filepath.IsAbs(c.StateDir), "RunDir": filepath.IsAbs(c.RunDir), "Drive": filepath.IsAbs(c.Drive),
		"Cgroup": filepath.IsAbs(c.Cgroup) && c.Cgroup != "/", "Images": c.Images != nil,
		"Namespaces": c.Namespaces != nil, "Plugins": c.Plugins != nil, "Engine": c.Engine != nil,
		"Build": c.Build.Number != 0,
	} {
		if !ok {
			return fmt.Errorf("%s is missing or not absolute", name)
		}
	}
	return nil
}

// Server implements both services of CRI.
type Server struct {
	runtime.UnimplementedRuntimeServiceServer
	runtime.UnimplementedImageServiceServer

	cfg     Config
	log     *slog.Logger
	store   *store.Store
	runtime *runc.Runtime
	network *cni.Network
	cgroups cgroup.Group // of all sandboxes; runc makes the groups in it
	streams *stream.Server
	events  broadcast
	samples samples
	exits   exits
	ranges  sync.Mutex // held while a sandbox gets its range of user IDs
	files   uint64     // RLIMIT_NOFILE of containers
	cpus    int

	// onFault is called by tests at a point that fails, before it fails.
	onFault func()

	// jobs are goroutines that calls have left; Serve waits for them.
	jobs sync.WaitGroup
}

// imageFS is the directory whose file system the kubelet looks at for space,
// as a path of the emulated host. It is where containerd on Windows keeps its
// snapshots by default.
const imageFS = `C:\ProgramData\containerd\root\io.containerd.snapshotter.v1.windows`

// New opens the state in StateDir and brings it in line with the running processes.
func New(ctx context.Context, cfg Config) (_ *Server, err error) {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("open container runtime: %w", err)
	}
	s := &Server{cfg: cfg, log: cfg.Log, cpus: cmp.Or(cfg.CPUs, goruntime.NumCPU())}
	defer func() {
		if err != nil {
			err = fmt.Errorf("open container runtime: %w", err)
		}
	}()
	for _, dir := range []string{cfg.StateDir, cfg.RunDir} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return nil, err
		}
	}
	if s.runtime, err = runc.New(runc.Config{
		Root:    filepath.Join(cfg.RunDir, "runc"),
		ExitDir: filepath.Join(cfg.StateDir, "exits"),
	}); err != nil {
		return nil, err
	}
	if err := mount.TidyMapped(s.mappedDir()); err != nil {
		return nil, err
	}
	s.network = cni.New(cni.Config{Drive: cfg.Drive, CacheDir: filepath.Join(cfg.StateDir, "cni"), Runner: cfg.Plugins})
	hierarchies, err := cgroup.Find()
	if err != nil {
		return nil, err
	}
	// Processes of the host's own are in other groups: version 2 allows them in
	// leaves only.
	s.cgroups = hierarchies.Group(cfg.Cgroup).Child("pods")
	if n := cfg.Ceilings.CPUShares; n > 0 {
		if err := s.cgroups.Make(cgroup.Limits{CPUShares: n}); err != nil {
			return nil, err
		}
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil, fmt.Errorf("read limit of open files: %w", err)
	}
	s.files = min(limit.Max, oci.DefaultOpenFiles)
	dir, err := winpath.Resolve(cfg.Drive, imageFS)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for streams: %w", err)
	}
	if s.streams, err = stream.New(l, streamRuntime{s}); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	var bad []error
	if s.store, bad, err = store.Open(cfg.StateDir); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	for _, b := range bad {
		s.log.ErrorContext(ctx, "record cannot be read; its object is left alone", logkey.Error, b)
	}
	if err := s.recover(ctx, len(bad) == 0); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return s, nil
}

// maxMessageBytes bounds a CRI message in either direction: containerd's
// "defaults.DefaultMaxRecvMsgSize". The largest sensible answer, ExecSync's, is
// as large.
const maxMessageBytes = 16 << 20

// stopWait is how long Serve gives open calls when its context ends. No call has to
// finish: the next start completes interrupted work.
const stopWait = 2 * time.Second

// Serve serves on the listener until the context ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	g := grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessageBytes), grpc.MaxSendMsgSize(maxMessageBytes),
		grpc.ChainUnaryInterceptor(s.unary), grpc.ChainStreamInterceptor(s.stream),
	)
	runtime.RegisterRuntimeServiceServer(g, s)
	runtime.RegisterImageServiceServer(g, s)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := g.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			return fmt.Errorf("serve CRI: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		s.events.close()
		stopped := make(chan struct{})
		go func() { g.GracefulStop(); close(stopped) }()
		select {
		case <-stopped:
		case <-time.After(stopWait):
			g.Stop()
		}
		return nil
	})
	group.Go(func() error { return s.streams.Serve(ctx) })
	group.Go(func() error {
		return s.runtime.Watch(ctx, nil, func(id string) {
			s.jobs.Go(func() { s.ended(context.WithoutCancel(ctx), id) })
		})
	})
	group.Go(func() error { return s.sweep(ctx) })
	group.Go(func() error { return s.watchLimits(ctx) })
	err := group.Wait()
	s.jobs.Wait()
	return err
}

// point is fault.Point.
func (s *Server) point(ctx context.Context, name string) error {
	err := fault.Point(ctx, name)
	if err != nil && s.onFault != nil {
		s.onFault()
	}
	return err
}

// handlers returns the RuntimeClass handlers that containerd's default
// configuration for Windows has, less the hypervisor's; config_windows.go.
func (s *Server) handlers() []string {
	return append([]string{"", processHandler}, s.cfg.Handlers...)
}

const (
	processHandler    = "runhcs-wcow-process"
	hypervisorHandler = "runhcs-wcow-hypervisor"
)

func (s *Server) checkHandler(handler string) error {
	switch {
	case slices.Contains(s.handlers(), handler):
		return nil
	case handler == hypervisorHandler:
		return fmt.Errorf("failed to get sandbox runtime: %q: hypervisor isolation is not emulated, use process "+
			"isolation", handler)
	}
	return fmt.Errorf("failed to get sandbox runtime: no runtime for %q is configured", handler)
}
