// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package stream serves the streaming calls of CRI (exec, attach and
// port-forward) over HTTP, with the library that containerd uses too. The kubelet
// requests a URL, and forwards its own client's connection to it.
//
// A URL contains a random token that is valid for one connection within a minute.
// There is no other authentication: the listener must not be reachable from
// outside the node.
package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
)

// Runtime carries out the clients' requests; see the library.
type Runtime = streaming.Runtime

// headerTimeout bounds how long a client may take to send its request headers. The
// kubelet's proxy sends everything at once.
const headerTimeout = 30 * time.Second

// Server hands out URLs and serves them.
type Server struct {
	listener net.Listener
	library  streaming.Server
	http     *http.Server
}

// New serves on the listener, which it closes at the end of Serve.
func New(l net.Listener, r Runtime) (*Server, error) {
	config := streaming.DefaultConfig
	config.Addr = l.Addr().String()
	config.BaseURL = &url.URL{Scheme: "http", Host: config.Addr, Path: "/"}
	library, err := streaming.NewServer(config, r)
	if err != nil {
		return nil, fmt.Errorf("make streaming server: %w", err)
	}
	server := &http.Server{Handler: library, ReadHeaderTimeout: headerTimeout, ConnContext: untilGone}
	return &Server{listener: watched{l}, library: library, http: server}, nil
}

// Serve serves until the context ends, and then closes open streams.
func (s *Server) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = s.http.Close() })
	defer stop()
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve streams: %w", err)
	}
	return nil
}

// Exec returns a URL for a command.
func (s *Server) Exec(r *runtime.ExecRequest) (*runtime.ExecResponse, error) {
	return s.library.GetExec(r)
}

// Attach returns a URL for a container's streams.
func (s *Server) Attach(r *runtime.AttachRequest) (*runtime.AttachResponse, error) {
	return s.library.GetAttach(r)
}

// PortForward returns a URL for connections to a pod.
func (s *Server) PortForward(r *runtime.PortForwardRequest) (*runtime.PortForwardResponse, error) {
	return s.library.GetPortForward(r)
}
