// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"context"
	"errors"
	"flag"
	"net"
	"net/http"
	"os"
	"path/filepath"
)

// nginx serves the html directory beside the working directory: what the web
// server image of Kubernetes' end-to-end tests does, and no more.
func nginx(ctx context.Context, env *Env) int {
	fs := flag.NewFlagSet("nginx", flag.ContinueOnError)
	fs.SetOutput(env.Stderr)
	listen := fs.String("listen", ":80", "address to listen on")
	root := fs.String("root", "html", "directory to serve")
	_ = fs.String("g", "", "directives; accepted and ignored")
	_ = fs.String("c", "", "configuration file; accepted and ignored")
	if err := fs.Parse(env.Args); err != nil {
		return 2
	}
	if _, err := os.Stat(*root); err != nil {
		*root = filepath.Join(`C:\nginx`, *root)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *listen)
	if err != nil {
		env.errorf("nginx: [emerg] %v\n", err)
		return 1
	}
	files := http.FileServer(http.Dir(*root))
	srv := &http.Server{ReadHeaderTimeout: headerTimeout,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Server", "nginx")
			files.ServeHTTP(w, r)
		})}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		env.errorf("nginx: [emerg] %v\n", err)
		return 1
	}
	return 0
}
