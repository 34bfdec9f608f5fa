// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/internal/standin/winbox/iis"
)

// Places of a fresh IIS.
const (
	siteRoot = `C:\inetpub\wwwroot`
	siteLogs = `C:\inetpub\logs\LogFiles\W3SVC1`
)

// stopTimeout is how long requests in flight may take when the service stops:
// shutdownTimeLimit of IIS application pools is 90 s, but a container has the
// pod's grace period, of 30 s, at most.
const stopTimeout = 10 * time.Second

// headerTimeout is the practical upper end of headerWaitTimeout: a client that
// sends no header must not keep a connection open forever.
const headerTimeout = 2 * time.Minute

// serviceMonitor is the entry point of Microsoft's IIS images: it starts a
// service and ends when the service does. The only service here is w3svc.
// Its messages follow github.com/microsoft/iis-docker's program.
func serviceMonitor(ctx context.Context, env *Env) int {
	if len(env.Args) == 0 {
		env.printf("\nUSAGE: ServiceMonitor.exe [windows service name]\n" +
			"       ServiceMonitor.exe w3svc [application pool]\n\n")
		return 1
	}
	if name := env.Args[0]; !strings.EqualFold(name, "w3svc") {
		env.errorf("\nERROR: Service '%s' does not exist in this stand-in image; only w3svc does\n", name)
		return 1
	}
	env.printf("\nService 'w3svc' has been stopped\n\nService 'w3svc' started\n")
	env.Args = nil
	return inetsrv(ctx, env)
}

// inetsrv is the web server itself, with options for tests and for other stand-ins.
func inetsrv(ctx context.Context, env *Env) int {
	fs := flag.NewFlagSet("inetsrv", flag.ContinueOnError)
	fs.SetOutput(env.Stderr)
	listen := fs.String("listen", ":80", "address to listen on")
	root := fs.String("root", siteRoot, "directory of the site")
	logs := fs.String("logs", siteLogs, "directory of the W3C log")
	if err := fs.Parse(env.Args); err != nil {
		return 2
	}
	if err := serveSite(ctx, *listen, *root, *logs, func(net.Addr) {}); err != nil {
		env.errorf("w3svc: %v\n", err)
		return 1
	}
	return 0
}

// serveSite serves until the context ends. It calls ready with its listen address.
func serveSite(ctx context.Context, listen, root, logs string, ready func(net.Addr)) error {
	dir, err := os.OpenRoot(root)
	if err != nil {
		return fmt.Errorf("open site: %w", err)
	}
	defer dir.Close() // a directory handle
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	log := iis.NewLog(logs, nil)
	srv := &http.Server{Handler: &iis.Handler{Root: dir, Log: log}, ReadHeaderTimeout: headerTimeout}
	done := make(chan error, 1)
	go func() {
		<-ctx.Done()
		sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		done <- srv.Shutdown(sctx)
	}()
	ready(l.Addr())
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return errors.Join(<-done, log.Close())
}
