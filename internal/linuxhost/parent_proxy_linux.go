// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"bufio"
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
)

// Registries are reached from the machine's own network, not from the host's: one on
// the machine's loopback, a proxy or a VPN of the machine would be out of the host's
// reach, and a real server would reach them. containerd supports proxies, so the
// parent, which is on the machine, is one: its socket lies in the host's network, and
// its outgoing connections do not. No process of the host has a way to the machine.

// dialLimit bounds one connection attempt; Go's own default for HTTP.
const dialLimit = 30 * time.Second

// idleLimit ends a tunnel without traffic. containerd keeps a connection that it does not
// use for 30 s (net/http's DefaultTransport).
const idleLimit = 5 * time.Minute

// proxyUser is the name that belongs to boot.Secret.
const proxyUser = "containerd"

// proxyURL returns the URL of the proxy for containerd.
func proxyURL(secret string) string {
	u := url.URL{Scheme: "http", User: url.UserPassword(proxyUser, secret), Host: proxyAddress}
	return u.String()
}

// serveProxy serves the proxy in a network namespace until the context ends.
func serveProxy(ctx context.Context, netns, secret string, log *slog.Logger) error {
	var l net.Listener
	err := kernel.Do(netns, func() (err error) {
		l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", proxyAddress)
		return err
	})
	if err != nil {
		return fmt.Errorf("serve proxy for image pulls: %w", err)
	}
	srv := &http.Server{
		Handler:           newProxy(secret),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		// Tunnels end with it: Close leaves connections alone that were taken over.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	context.AfterFunc(ctx, func() { _ = srv.Close() })
	go func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("proxy for image pulls ended", logkey.Error, err)
		}
	}()
	return nil
}

// proxy is an HTTP proxy with a password.
type proxy struct {
	authorization string
	forward       http.Handler
}

func newProxy(secret string) *proxy {
	basic := base64.StdEncoding.EncodeToString([]byte(proxyUser + ":" + secret))
	return &proxy{
		authorization: "Basic " + basic,
		// The default transport honours the machine's own proxies.
		forward: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.Header.Del("Proxy-Authorization")
		}},
	}
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	given := r.Header.Get("Proxy-Authorization")
	if subtle.ConstantTimeCompare([]byte(given), []byte(p.authorization)) != 1 {
		http.Error(w, "this proxy serves the container runtime of its host only", http.StatusProxyAuthRequired)
		return
	}
	switch {
	case r.Method == http.MethodConnect:
		tunnel(w, r, idleLimit)
	case r.URL.Host != "" && r.URL.Scheme == "http":
		p.forward.ServeHTTP(w, r)
	default:
		http.Error(w, "want CONNECT, or a complete URL", http.StatusBadRequest)
	}
}

// tunnel answers CONNECT. The tunnel ends when one side has, when it has no traffic for the
// time of idle, or with the server's context.
func tunnel(w http.ResponseWriter, r *http.Request, idle time.Duration) {
	out, err := dialThrough(r.Context(), r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer out.Close()
	in, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer in.Close()
	end := func() { _, _ = in.Close(), out.Close() } // there is no remedy for an error
	defer context.AfterFunc(r.Context(), end)()
	timer := time.AfterFunc(idle, end)
	defer timer.Stop()
	if _, err := io.WriteString(in, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return // the client has gone
	}
	var both sync.WaitGroup
	both.Go(func() { pipe(out, watched{buffered, timer, idle}) })
	both.Go(func() { pipe(in, watched{out, timer, idle}) })
	both.Wait()
}

// watched is one direction of a tunnel.
type watched struct {
	io.Reader
	timer *time.Timer
	idle  time.Duration
}

func (w watched) Read(b []byte) (int, error) {
	n, err := w.Reader.Read(b)
	if err == nil {
		w.timer.Reset(w.idle)
	}
	return n, err
}

// pipe copies until one side ends, and passes the end on. Errors end a tunnel, as
// they end a connection; both ends see it.
func pipe(to net.Conn, from io.Reader) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// dialThrough connects to an address, through the machine's own proxy if its
// environment has one.
func dialThrough(ctx context.Context, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialLimit}
	target := &url.URL{Scheme: "https", Host: address}
	via, err := http.ProxyFromEnvironment(&http.Request{URL: target})
	if err != nil {
		return nil, fmt.Errorf("read the machine's proxy settings: %w", err)
	}
	if via == nil {
		return dialer.DialContext(ctx, "tcp", address)
	}
	conn, err := dialer.DialContext(ctx, "tcp", via.Host)
	if err != nil {
		return nil, fmt.Errorf("connect to the machine's proxy: %w", err)
	}
	ask := &http.Request{
		Method: http.MethodConnect,
		URL:    &url.URL{Opaque: address},
		Host:   address,
		Header: http.Header{},
	}
	if via.User != nil {
		password, _ := via.User.Password()
		basic := base64.StdEncoding.EncodeToString([]byte(via.User.Username() + ":" + password))
		ask.Header.Set("Proxy-Authorization", "Basic "+basic)
	}
	if err := connectBy(conn, ask); err != nil {
		return nil, errors.Join(fmt.Errorf("ask the machine's proxy for %s: %w", address, err), conn.Close())
	}
	return conn, nil
}

// connectBy sends a CONNECT and reads the answer. The server sends no data after the
// answer before the client does, so the reader loses no data.
func connectBy(conn net.Conn, ask *http.Request) error {
	if err := ask.Write(conn); err != nil {
		return err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), ask)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return errors.Join(errors.New(answer.Status), answer.Body.Close())
	}
	return answer.Body.Close()
}
