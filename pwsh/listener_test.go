// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package pwsh_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/pwsh"
	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/internal/rowtest"
)

// anyPort listens on a free port of loopback, whatever port a script asks for.
type anyPort struct {
	host.Network
	addr chan string
}

func (n *anyPort) Listen(context.Context, string, string) (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		n.addr <- l.Addr().String()
	}
	return l, err
}

// TestListener runs a server that uses all of HttpListener, and asks it.
func TestListener(t *testing.T) {
	script, err := os.ReadFile("testdata/listener.ps1")
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	h, fake := rowtest.Handlers(t, &out, &errs)
	n := &anyPort{Network: fake, addr: make(chan string, 1)}
	h.Net = n
	r := start(t, pwsh.Config{Handlers: h})
	done := make(chan error, 1)
	go func() {
		_, err := r.Run(t.Context(), string(script))
		done <- err
	}()
	var addr string
	select {
	case addr = <-n.addr:
	case err := <-done:
		t.Fatalf("the script ended: %v, printed %s %s", err, out.String(), errs.String())
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ask := func(path string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+addr+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("User-Agent", "test")
		req.Header.Set("X-In", "yes")
		resp, err := client.Do(req)
		if err != nil {
			return nil, err.Error()
		}
		defer resp.Body.Close() // read only
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(b)
	}
	for _, x := range []struct {
		path   string
		status int
		body   string
	}{
		{"/info?a=1&b=2", 200, ""},
		{"/redirect", 302, ""},
		{"/bytes", 200, "hi"},
		{"/chunked", 200, "in pieces"},
		{"/headers", 200, ""},
		{"/long", 200, "AB"},
		{"/status", 404, ""},
	} {
		resp, body := ask(x.path)
		if resp == nil || resp.StatusCode != x.status || body != x.body {
			t.Fatalf("%s: got %v %q, want %d %q", x.path, resp, body, x.status, x.body)
		}
		switch x.path {
		case "/redirect":
			if to := resp.Header.Get("Location"); to != "http://h/x" {
				t.Errorf("redirected to %q", to)
			}
		case "/headers":
			if a, b := resp.Header.Values("X-A"), resp.Header.Get("X-B"); strings.Join(a, "+") != "1+2" || b != "3" ||
				!resp.Close {
				t.Errorf("X-A %v, X-B %s, close %t", a, b, resp.Close)
			}
		}
	}
	if resp, text := ask("/abort"); resp != nil {
		t.Errorf("an aborted response came: %v %s", resp.Status, text)
	}
	if resp, _ := ask("/stop"); resp == nil || resp.StatusCode != 200 {
		t.Errorf("stop: %v", resp)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/listener.txt")
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) || errs.Len() > 0 {
		t.Errorf("printed\n%s\nand %q, want\n%s", out.String(), errs.String(), want)
	}
}
