// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	apiserveroptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	controllermanageroptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	scheduleroptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"github.com/mullion-k8s/mullion/internal/logkey"
)

// drain is the time for which the API server continues requests that never end by
// themselves, such as watches, after the request to stop. Upstream's default is 60 s, for
// load balancers; clients of one machine reconnect.
const drain = 500 * time.Millisecond

// parse sets a component's options from its command line, as upstream's
// main programs do.
func parse(sets cliflag.NamedFlagSets, argv []string) error {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	for _, s := range sets.FlagSets {
		fs.AddFlagSet(s)
	}
	if err := fs.Parse(argv); err != nil {
		return fmt.Errorf("parse flags: %w", err)
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("parse flags: unexpected argument %q", fs.Arg(0))
	}
	return nil
}

// withLog puts the component's name on everything that it logs through its
// context.
func withLog(ctx context.Context, log *slog.Logger, name string) context.Context {
	return klog.NewContext(ctx, logr.FromSlogHandler(log.With(logkey.Component, name).Handler()))
}

// apiServer runs kube-apiserver on our own listener.
type apiServer struct {
	argv   []string
	listen func(ctx context.Context) (net.Listener, error)
	// configured receives the result of configure; see begin.
	configured func() (*apiserver.Config, error)

	mu sync.Mutex
	// loopback is a client of the server itself with all rights; its token lives
	// in this process only. guarded by mu
	loopback *rest.Config
}

// begin starts to configure the server, which takes a quarter of a second and
// does not need the datastore: most of it goes into RSA keys for the loopback
// client.
func (a *apiServer) begin(ctx context.Context) {
	a.configured = sync.OnceValues(func() (c *apiserver.Config, err error) {
		err = guard(ctx, func(ctx context.Context) (err error) {
			c, err = a.configure(ctx)
			return err
		})
		return c, err
	})
	go func() { _, _ = a.configured() }() // run calls it again
}

// configure is the first half of upstream's app.Run; run is the other. They are
// repeated here to get at the loopback client.
func (a *apiServer) configure(ctx context.Context) (*apiserver.Config, error) {
	opts := apiserveroptions.NewServerRunOptions()
	if err := parse(opts.Flags(), a.argv); err != nil {
		return nil, err
	}
	if err := opts.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, fmt.Errorf("set feature gates: %w", err)
	}
	listener, err := a.listen(ctx)
	if err != nil {
		return nil, err
	}
	opts.SecureServing.Listener = listener
	completed, err := opts.Complete(ctx)
	if err != nil {
		return nil, fmt.Errorf("complete options: %w", err)
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return nil, fmt.Errorf("validate options: %w", utilerrors.NewAggregate(errs))
	}
	config, err := apiserver.NewConfig(completed)
	if err != nil {
		return nil, fmt.Errorf("configure: %w", err)
	}
	settle(config)
	return config, nil
}

func (a *apiServer) run(ctx context.Context) error {
	config, err := a.configured()
	if err != nil {
		return err
	}
	defer config.Options.SecureServing.Listener.Close()
	chain, err := config.Complete()
	if err != nil {
		return fmt.Errorf("configure: %w", err)
	}
	server, err := apiserver.CreateServerChain(chain)
	if err != nil {
		return fmt.Errorf("create server: %w", err)
	}
	server.GenericAPIServer.ShutdownTimeout = drain
	if err := server.GenericAPIServer.AddPostStartHook("mullion-first-roles", firstRoles); err != nil {
		return fmt.Errorf("create server: %w", err)
	}
	prepared, err := server.PrepareRun()
	if err != nil {
		return fmt.Errorf("prepare server: %w", err)
	}
	a.mu.Lock()
	a.loopback = server.GenericAPIServer.LoopbackClientConfig
	a.mu.Unlock()
	return prepared.Run(ctx)
}

// client returns a copy of the loopback client's configuration.
func (a *apiServer) client() (*rest.Config, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.loopback == nil {
		return nil, errors.New("the API server is not up yet")
	}
	return rest.CopyConfig(a.loopback), nil
}

// isReady queries the server's own readiness check.
func (a *apiServer) isReady(ctx context.Context) error {
	cfg, err := a.client()
	if err != nil {
		return err
	}
	client, err := restClient(cfg)
	if err != nil {
		return err
	}
	body, err := client.Get().AbsPath("/readyz").Do(ctx).Raw()
	if err != nil {
		return fmt.Errorf("query /readyz: %w: %s", err, failedChecks(body))
	}
	return nil
}

// controllerManager runs kube-controller-manager.
type controllerManager struct {
	argv []string
}

func (c *controllerManager) run(ctx context.Context) error {
	opts, err := controllermanageroptions.NewKubeControllerManagerOptions()
	if err != nil {
		return fmt.Errorf("make options: %w", err)
	}
	all, off, aliases := controllermanager.KnownControllers(), controllermanager.ControllersDisabledByDefault(),
		controllermanager.ControllerAliases()
	if err := parse(opts.Flags(all, off, aliases), c.argv); err != nil {
		return err
	}
	if err := opts.ComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("set feature gates: %w", err)
	}
	config, err := opts.Config(ctx, all, off, aliases)
	if err != nil {
		return fmt.Errorf("configure: %w", err)
	}
	return controllermanager.Run(ctx, config.Complete())
}

// kubeScheduler runs kube-scheduler.
type kubeScheduler struct {
	argv []string

	mu     sync.Mutex
	synced func(ctx context.Context) error // guarded by mu
}

func (s *kubeScheduler) run(ctx context.Context) error {
	opts := scheduleroptions.NewOptions()
	if err := parse(*opts.Flags, s.argv); err != nil {
		return err
	}
	if err := opts.ComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("set feature gates: %w", err)
	}
	config, sched, err := scheduler.Setup(ctx, opts)
	if err != nil {
		return fmt.Errorf("configure: %w", err)
	}
	s.mu.Lock()
	s.synced = sched.WaitForHandlersSync
	s.mu.Unlock()
	return scheduler.Run(ctx, config, sched)
}

func (s *kubeScheduler) isReady(ctx context.Context) error {
	s.mu.Lock()
	synced := s.synced
	s.mu.Unlock()
	if synced == nil {
		return errors.New("the scheduler is not up yet")
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := synced(ctx); err != nil {
		return fmt.Errorf("wait for the scheduler's caches: %w", err)
	}
	return nil
}
