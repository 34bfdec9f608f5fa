// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package iis_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/standin/winbox/iis"
)

func site(t *testing.T) (*httptest.Server, string) {
	t.Helper()
	dir, logs := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"iisstart.htm": "start", "index.html": "index", "app/Default.htm": "default", "app/index.htm": "second",
		"empty/data.unknown": "x", "site.css": "body{}", "web.config": "<x/>", "bin/a.txt": "hidden",
		"0123.txt": "0123456789",
	} {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	secret := filepath.Join(t.TempDir(), "secret.txt")
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, "link.txt")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	now := func() time.Time { return time.Date(2019, 12, 31, 1, 2, 3, 0, time.UTC) }
	log := iis.NewLog(logs, now)
	srv := httptest.NewServer(&iis.Handler{Root: root, Log: log})
	t.Cleanup(func() { srv.Close(); _ = log.Close(); _ = root.Close() })
	return srv, logs
}

func TestServe(t *testing.T) {
	srv, logs := site(t)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, tt := range []struct {
		name, method, path string
		header             string // "Name: value" of the request
		status             int
		want               string // part of the body or, with a colon first, a header of the answer
	}{
		{"default documents in IIS' order", "GET", "/", "", 200, "index"},
		{"the first wins", "GET", "/app/", "", 200, "default"},
		{"directory without a slash", "GET", "/app", "", 301, "Object Moved"},
		{"directory without default document is 403.14", "GET", "/empty/", "", 403,
			"403 - Forbidden: Access is denied."},
		{"unknown type is 404.3", "GET", "/empty/data.unknown", "", 404, "404 - File or directory not found."},
		{"nothing there", "GET", "/none.htm", "", 404, "404 - File or directory not found."},
		{"hidden file is 404.8", "GET", "/web.config", "", 404, ""},
		{"hidden segment, any case", "GET", "/BIN/a.txt", "", 404, ""},
		{"type", "GET", "/site.css", "", 200, ":Content-Type: text/css"},
		{"server", "GET", "/site.css", "", 200, ":Server: Microsoft-IIS/10.0"},
		{"powered by", "GET", "/none.htm", "", 404, ":X-Powered-By: ASP.NET"},
		{"ranges", "GET", "/0123.txt", "Range: bytes=2-4", 206, "234"},
		{"bad range", "GET", "/0123.txt", "Range: bytes=20-", 416, ""},
		{"ranges are offered", "HEAD", "/0123.txt", "", 200, ":Accept-Ranges: bytes"},
		{"head has the length", "HEAD", "/0123.txt", "", 200, ":Content-Length: 10"},
		{"post", "POST", "/0123.txt", "", 405, ":Allow: GET, HEAD, OPTIONS, TRACE"},
		{"options", "OPTIONS", "/", "", 200, ":Public: OPTIONS, TRACE, GET, HEAD, POST"},
		{"trace", "TRACE", "/", "", 501, ""},
		{"parent", "GET", "/../../etc/passwd", "", 404, ""},
		{"encoded parent", "GET", "/..%2f..%2fetc/passwd", "", 404, ""},
		{"backslashes", "GET", `/app%5cDefault.htm`, "", 200, "default"},
		{"stream", "GET", "/0123.txt::$DATA", "", 404, ""},
		{"link that leaves the site", "GET", "/link.txt", "", 404, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), tt.method, srv.URL+tt.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if name, value, ok := strings.Cut(tt.header, ": "); ok {
				req.Header.Set(name, value)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != tt.status {
				t.Errorf("status %d, want %d", resp.StatusCode, tt.status)
			}
			if name, value, ok := strings.Cut(strings.TrimPrefix(tt.want, ":"), ": "); ok &&
				strings.HasPrefix(tt.want, ":") {
				if got := resp.Header.Get(name); got != value {
					t.Errorf("%s: %q, want %q", name, got, value)
				}
			} else if !strings.Contains(string(body), tt.want) {
				t.Errorf("body %q, want %q in it", body, tt.want)
			}
			if tt.method == "HEAD" && len(body) > 0 {
				t.Errorf("HEAD has a body: %q", body)
			}
			if strings.Contains(string(body), "secret") {
				t.Error("served a file from outside")
			}
		})
	}
	text, err := os.ReadFile(filepath.Join(logs, "u_ex191231.log"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "#Software: Microsoft Internet Information Services 10.0\r\n#Version: 1.0\r\n"+
		"#Date: 2019-12-31 01:02:03\r\n#Fields: date time s-ip ") {
		t.Errorf("log begins %.200q", text)
	}
	if !strings.Contains(string(text), "2019-12-31 01:02:03 127.0.0.1 GET /empty/ - ") ||
		!strings.Contains(string(text), " 403 14 0 ") || !strings.Contains(string(text), " 404 0 2 ") {
		t.Errorf("log %s", text)
	}
}

func TestConditionalRequest(t *testing.T) {
	srv, _ := site(t)
	resp, err := http.Get(srv.URL + "/0123.txt")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	tag := resp.Header.Get("ETag")
	if !strings.HasSuffix(tag, `:0"`) {
		t.Errorf("ETag %q", tag)
	}
	req, _ := http.NewRequestWithContext(t.Context(), "GET", srv.URL+"/0123.txt", nil)
	req.Header.Set("If-None-Match", tag)
	if resp, err = http.DefaultClient.Do(req); err != nil || resp.StatusCode != http.StatusNotModified {
		t.Errorf("%v, %v", resp, err)
	}
	_ = resp.Body.Close()
}
