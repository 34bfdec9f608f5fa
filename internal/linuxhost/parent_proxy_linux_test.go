// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestProxy asks a registry by way of the proxy, with TLS and without, with the password
// and without.
func TestProxy(t *testing.T) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "registry, authorization %q", r.Header.Get("Proxy-Authorization"))
	})
	plain, secure := httptest.NewServer(answer), httptest.NewTLSServer(answer)
	defer plain.Close()
	defer secure.Close()
	p := httptest.NewServer(newProxy("secret"))
	defer p.Close()
	get := func(user *url.Userinfo, target string) (string, error) {
		via, err := url.Parse(p.URL)
		if err != nil {
			t.Fatal(err)
		}
		via.User = user
		// Go asks no proxy for loopback by itself; a fixed one it does.
		transport := secure.Client().Transport.(*http.Transport).Clone()
		transport.Proxy = http.ProxyURL(via)
		defer transport.CloseIdleConnections()
		res, err := (&http.Client{Transport: transport}).Get(target)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		return res.Status + " " + string(body), err
	}
	good := url.UserPassword(proxyUser, "secret")
	for _, target := range []string{plain.URL, secure.URL} {
		if got, err := get(good, target); err != nil || got != `200 OK registry, authorization ""` {
			t.Errorf("%s: %q, %v", target, got, err)
		}
		for _, user := range []*url.Userinfo{nil, url.UserPassword(proxyUser, "wrong")} {
			got, err := get(user, target)
			if err == nil && !strings.HasPrefix(got, "407 ") ||
				err != nil && !strings.Contains(err.Error(), "Proxy Authentication Required") {
				t.Errorf("%s as %v: %q, %v", target, user, got, err)
			}
		}
	}
	if got, err := get(good, "https://127.0.0.1:1/"); err == nil || !strings.Contains(err.Error(), "Bad Gateway") {
		t.Errorf("nothing listens there: %q, %v", got, err)
	}
	res, err := http.Get(p.URL + "/v2/")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusProxyAuthRequired {
		t.Errorf("as a server: %s", res.Status)
	}
}

// TestTunnelEnds: a tunnel that carries nothing ends, and so do all tunnels when the host does.
func TestTunnelEnds(t *testing.T) {
	echo, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); _, _ = io.Copy(c, c) }()
		}
	}()
	for name, idle := range map[string]time.Duration{"idle": 500 * time.Millisecond, "host ends": time.Hour} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			defer end()
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				tunnel(w, r, idle)
			}))
			srv.Config.BaseContext = func(net.Listener) context.Context { return ctx }
			srv.Start()
			defer srv.Close()
			conn, err := net.Dial("tcp4", srv.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := connectBy(conn, &http.Request{Method: http.MethodConnect, Host: echo.Addr().String(),
				URL: &url.URL{Opaque: echo.Addr().String()}, Header: http.Header{}}); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(conn)
			if _, err := io.WriteString(conn, "x\n"); err != nil {
				t.Fatal(err)
			}
			if line, err := lines.ReadString('\n'); line != "x\n" {
				t.Fatalf("answer %q: %v", line, err)
			}
			if idle == time.Hour {
				end()
			}
			if n, err := lines.ReadByte(); err == nil {
				t.Errorf("got %d from a tunnel that must end", n)
			}
		})
	}
}
