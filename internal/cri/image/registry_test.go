// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/cri/image/imagebuild"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// server is a registry on a loopback address. Before, if set, sees every
// request first and reports whether it answered.
type server struct {
	*httptest.Server
	before func(w http.ResponseWriter, r *http.Request) bool
	gets   atomic.Int64 // of blobs
}

func newServer(t testing.TB, secure bool) *server {
	t.Helper()
	s := &server{}
	reg := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.before != nil && s.before(w, r) {
			return
		}
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			s.gets.Add(1)
		}
		reg.ServeHTTP(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

func (s *server) host() string {
	_, host, _ := strings.Cut(s.URL, "://")
	return host
}

func (s *server) put(t testing.TB, path, kind string, data []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.URL+path, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		text, _ := io.ReadAll(resp.Body)
		t.Fatalf("put %s: %s: %s", path, resp.Status, text)
	}
}

func (s *server) blob(t testing.TB, repo string, b imagebuild.Blob) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v2/"+repo+"/blobs/uploads/?digest="+
		b.Descriptor.Digest.String(), bytes.NewReader(b.Data))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("upload %s: %s", b.Descriptor.Digest, resp.Status)
	}
}

// push uploads an image under a tag.
func (s *server) push(t testing.TB, repo, tag string, img *imagebuild.Image) {
	t.Helper()
	for _, b := range append([]imagebuild.Blob{img.Config}, img.Layers...) {
		if b.Data != nil {
			s.blob(t, repo, b)
		}
	}
	for _, ref := range []string{tag, img.Manifest.Descriptor.Digest.String()} {
		s.put(t, "/v2/"+repo+"/manifests/"+ref, string(img.Manifest.Descriptor.MediaType), img.Manifest.Data)
	}
}

func (s *server) pushIndex(t testing.TB, repo, tag string, images ...*imagebuild.Image) {
	t.Helper()
	for _, img := range images {
		s.push(t, repo, img.Manifest.Descriptor.Digest.String(), img)
	}
	index, err := imagebuild.Index(images...)
	if err != nil {
		t.Fatal(err)
	}
	s.put(t, "/v2/"+repo+"/manifests/"+tag, string(index.Descriptor.MediaType), index.Data)
}

// simple returns an image of one file.
func simple(t testing.TB, b winver.Build, content string) *imagebuild.Image {
	t.Helper()
	return build(t,
		imagebuild.Spec{Build: b, Base: "nanoserver",
			Layers: []imagebuild.Layer{{Entries: []imagebuild.Entry{{Path: "app.txt", Content: []byte(content)}}}}})
}

func TestPull(t *testing.T) {
	srv := newServer(t, false)
	img := simple(t, build2019(), "hello")
	srv.push(t, "team/app", "v1", img)
	dir, cfg := t.TempDir(), testConfig(t)
	var dialed []string
	var mu sync.Mutex
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		dialed = append(dialed, address)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	s := open(t, dir, cfg)
	got, err := s.Pull(context.Background(), srv.host()+"/team/app:v1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.ID != img.Config.Descriptor.Digest.String() || got.RepoDigests[0] != srv.host()+"/team/app@"+
		img.Manifest.Descriptor.Digest.String() {
		t.Errorf("image %+v", got)
	}
	if len(got.Layers) != 2 || !strings.HasSuffix(got.Layers[0], "base/nanoserver") {
		t.Errorf("layers %q", got.Layers)
	}
	if data, err := os.ReadFile(filepath.Join(got.Layers[1], "app.txt")); err != nil || string(data) != "hello" {
		t.Errorf("content %q, %v", data, err)
	}
	if len(dialed) == 0 || dialed[0] != srv.host() {
		t.Errorf("dialed %q", dialed)
	}
	// Again, under another name: nothing is fetched but the manifest.
	srv.push(t, "other/app", "v2", img)
	n := srv.gets.Load()
	if got, err = s.Pull(context.Background(), srv.host()+"/other/app:v2", nil); err != nil ||
		len(got.RepoTags) != 2 {
		t.Errorf("second name: %+v, %v", got, err)
	}
	if srv.gets.Load() != n {
		t.Errorf("%d blobs fetched again", srv.gets.Load()-n)
	}
	// A tag that moved leaves the old image.
	srv.push(t, "team/app", "v1", simple(t, build2019(), "hello again"))
	moved, err := s.Pull(context.Background(), srv.host()+"/team/app:v1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if old, err := s.Get(got.ID); err != nil || len(old.RepoTags) != 1 || moved.ID == old.ID {
		t.Errorf("old image %+v, %v", old, err)
	}
	// By digest there is no tag.
	byDigest := srv.host() + "/team/app@" + img.Manifest.Descriptor.Digest.String()
	if err := s.Remove(context.Background(), got.ID); err != nil {
		t.Fatal(err)
	}
	if got, err = s.Pull(context.Background(), byDigest, nil); err != nil || len(got.RepoTags) != 0 ||
		got.RepoDigests[0] != byDigest {
		t.Errorf("by digest: %+v, %v", got, err)
	}
}

func TestPullChoosesThePlatform(t *testing.T) {
	srv := newServer(t, false)
	find := func(n int) winver.Build { b, _ := winver.Find(n); return b }
	of := func(n int) *imagebuild.Image { return simple(t, find(n), fmt.Sprint(n)) }
	linux := build(t,
		imagebuild.Spec{OS: "linux", NoOSVersion: true,
			Layers: []imagebuild.Layer{{Plain: true, Entries: []imagebuild.Entry{{Path: "bin/sh"}}}}})
	any := build(t,
		imagebuild.Spec{NoOSVersion: true,
			Layers: []imagebuild.Layer{{Entries: []imagebuild.Entry{{Path: "hpc.txt"}}}}})
	newer := simple(t, find(20348).WithUBR(9999), "newer")
	srv.pushIndex(t, "app", "all", linux, of(17763), of(20348), newer, of(26100))
	srv.pushIndex(t, "app", "linux", linux)
	srv.pushIndex(t, "app", "any", linux, any)
	srv.push(t, "app", "plain-linux", linux)
	srv.push(t, "app", "plain-2022", of(20348))
	for _, tt := range []struct {
		host int
		tag  string
		want string // os.version without revision; "-" is none; empty is an error
	}{
		{17763, "all", "10.0.17763"}, {20348, "all", "10.0.20348.9999"}, {25398, "all", "10.0.20348.9999"},
		{26100, "all", "10.0.26100"}, {18362, "all", ""}, {17763, "linux", ""}, {17763, "any", "-"},
		{17763, "plain-linux", ""},
		// A plain manifest is not matched at the pull, as in containerd.
		{17763, "plain-2022", "10.0.20348"},
	} {
		t.Run(fmt.Sprintf("%d %s", tt.host, tt.tag), func(t *testing.T) {
			cfg := testConfig(t)
			cfg.HostBuild = find(tt.host)
			s := open(t, t.TempDir(), cfg)
			ref := srv.host() + "/app:" + tt.tag
			img, err := s.Pull(context.Background(), ref, nil)
			if tt.want == "" {
				want := fmt.Sprintf("failed to pull and unpack image %q: no match for platform in manifest: not found",
					ref)
				if err == nil || err.Error() != want || !errors.Is(err, image.ErrNotFound) {
					t.Errorf("error %v, want %s", err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(img.OSVersion, strings.Trim(tt.want, "-")) || tt.want == "-" && img.OSVersion != "" {
				t.Errorf("os.version %q", img.OSVersion)
			}
		})
	}
}

func TestPullWithTLSAndCredentials(t *testing.T) {
	srv := newServer(t, true)
	img := simple(t, build2019(), "hello")
	srv.push(t, "app", "v1", img)
	srv.before = func(w http.ResponseWriter, r *http.Request) bool {
		if user, password, ok := r.BasicAuth(); ok && user == "me" && password == "secret:word" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	good := &image.Auth{Username: "me", Password: "secret:word"}
	for _, tt := range []struct {
		name   string
		ca     string // where the certificate is, below CertsDir
		auth   *image.Auth
		denied bool
		want   string // part of the error
	}{
		{"user and password", "ca.crt", good, false, ""},
		{"per registry", srv.host() + "/ca.crt", good, false, ""},
		{"encoded", "ca.crt", &image.Auth{Auth: base64.StdEncoding.EncodeToString([]byte("me:secret:word"))},
			false, ""},
		{"for this server", "ca.crt", &image.Auth{Username: "me", Password: "secret:word", ServerAddress: "https://" +
			srv.host()}, false, ""},
		{"for another server: not sent", "ca.crt", &image.Auth{Username: "me", Password: "secret:word",
			ServerAddress: "https://example.com"}, true, "UNAUTHORIZED"},
		{"none", "ca.crt", nil, true, ""},
		{"wrong", "ca.crt", &image.Auth{Username: "me", Password: "guess"}, true, ""},
		{"not base64", "ca.crt", &image.Auth{Auth: "secret word"}, false, "not base64"},
		{"unknown authority", "none", good, false, "certificate signed by unknown authority"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := testConfig(t)
			cfg.CertsDir = t.TempDir()
			file := filepath.Join(cfg.CertsDir, tt.ca)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, ca, 0o644); err != nil {
				t.Fatal(err)
			}
			s := open(t, t.TempDir(), cfg)
			_, err := s.Pull(context.Background(), srv.host()+"/app:v1", tt.auth)
			switch {
			case tt.denied != errors.Is(err, image.ErrDenied), (tt.want != "" || tt.denied) != (err != nil):
				t.Errorf("error %v", err)
			case err != nil && tt.auth != nil && strings.Contains(err.Error(), "secret"):
				t.Errorf("error quotes the credentials: %v", err)
			case err != nil && !strings.Contains(strings.ToUpper(err.Error()), strings.ToUpper(tt.want)):
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// TestPullWithTokens: Docker Hub, ghcr.io and mcr.microsoft.com want a token, which
// their service gives for credentials or, for public images, without.
func TestPullWithTokens(t *testing.T) {
	srv := newServer(t, false)
	srv.push(t, "app", "v1", simple(t, build2019(), "hello"))
	var asked atomic.Int32
	srv.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/token" {
			asked.Add(1)
			user, password, ok := r.BasicAuth()
			if ok && (user != "me" || password != "secret") || r.FormValue("service") != "images" {
				w.WriteHeader(http.StatusUnauthorized)
				return true
			}
			_, _ = io.WriteString(w, `{"token":"of-`+user+`"}`)
			return true
		}
		if r.Header.Get("Authorization") == "Bearer of-me" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/token",service="images",`+
			`scope="repository:app:pull"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	for _, tt := range []struct {
		name string
		auth *image.Auth
		ok   bool
	}{
		{"credentials", &image.Auth{Username: "me", Password: "secret"}, true},
		{"anonymous, and the image is not public", nil, false},
		{"wrong credentials", &image.Auth{Username: "me", Password: "guess"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked.Store(0)
			s := open(t, t.TempDir(), testConfig(t))
			_, err := s.Pull(t.Context(), srv.host()+"/app:v1", tt.auth)
			if (err == nil) != tt.ok || err != nil && !errors.Is(err, image.ErrDenied) {
				t.Errorf("error %v", err)
			}
			if asked.Load() == 0 {
				t.Error("the token service was not asked")
			}
		})
	}
}

func TestPlainHTTPIsForLoopbackOnly(t *testing.T) {
	srv := newServer(t, false)
	srv.push(t, "app", "v1", simple(t, build2019(), "hello"))
	_, port, _ := net.SplitHostPort(srv.host())
	for _, tt := range []struct {
		host string
		ok   bool
	}{{"127.0.0.1", true}, {"10.1.2.3", false}, {"192.168.0.1", false}} {
		cfg := testConfig(t)
		// Whatever the address, the connection goes to the test's server.
		cfg.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, srv.host())
		}
		s := open(t, t.TempDir(), cfg)
		_, err := s.Pull(context.Background(), tt.host+":"+port+"/app:v1", nil)
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.host, err)
		}
	}
}

// TestPullSurvivesABadNetwork: what passes is tried again, what does not is not.
func TestPullSurvivesABadNetwork(t *testing.T) {
	img := simple(t, build2019(), strings.Repeat("data ", 100_000))
	layer := img.Layers[len(img.Layers)-1]
	for _, tt := range []struct {
		name string
		bad  func(n int64, w http.ResponseWriter) bool // the nth GET of the layer
		want error
		gets int64
	}{
		{"answer 503 twice", func(n int64, w http.ResponseWriter) bool {
			w.WriteHeader(http.StatusServiceUnavailable)
			return n <= 2
		}, nil, 3},
		{"connection cut in the middle", func(n int64, w http.ResponseWriter) bool {
			w.Header().Set("Content-Length", fmt.Sprint(len(layer.Data)))
			_, _ = w.Write(layer.Data[:len(layer.Data)/2])
			panic(http.ErrAbortHandler)
		}, nil, 2},
		{"a bit flipped", func(_ int64, w http.ResponseWriter) bool {
			bad := bytes.Clone(layer.Data)
			bad[len(bad)/2] ^= 1
			_, _ = w.Write(bad)
			return true
		}, image.ErrInvalid, 1},
		{"too long", func(_ int64, w http.ResponseWriter) bool {
			_, _ = w.Write(append(bytes.Clone(layer.Data), "more"...))
			return true
		}, image.ErrInvalid, 1},
		{"gone", func(_ int64, w http.ResponseWriter) bool {
			w.WriteHeader(http.StatusNotFound)
			return true
		}, image.ErrNotFound, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := newServer(t, false)
			srv.push(t, "app", "v1", img)
			var gets atomic.Int64
			srv.before = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, layer.Descriptor.Digest.String()) {
					return false
				}
				n := gets.Add(1)
				if tt.want == nil && n >= tt.gets {
					return false
				}
				return tt.bad(n, w)
			}
			dir := t.TempDir()
			s := open(t, dir, testConfig(t))
			_, err := s.Pull(context.Background(), srv.host()+"/app:v1", nil)
			if !errors.Is(err, tt.want) {
				t.Fatalf("error %v, want %v", err, tt.want)
			}
			if gets.Load() != tt.gets {
				t.Errorf("%d requests, want %d", gets.Load(), tt.gets)
			}
			if left := tree(t, filepath.Join(dir, "ingest")); len(left) > 0 {
				t.Errorf("left %q", left)
			}
		})
	}
}

func TestConcurrentPullsShareOneFetch(t *testing.T) {
	srv := newServer(t, false)
	img := simple(t, build2019(), "hello")
	srv.push(t, "app", "v1", img)
	hold := make(chan struct{})
	arrived := make(chan struct{}, 1)
	srv.before = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, img.Config.Descriptor.Digest.String()) {
			arrived <- struct{}{}
			<-hold
		}
		return false
	}
	s := open(t, t.TempDir(), testConfig(t))
	ref := srv.host() + "/app:v1"
	// The first gives up while the others wait: the fetch goes on.
	ctx, cancel := context.WithCancel(context.Background())
	first := make(chan error)
	go func() { _, err := s.Pull(ctx, ref, nil); first <- err }()
	<-arrived
	var wg sync.WaitGroup
	started := make(chan struct{}, 8)
	for range 8 {
		wg.Go(func() {
			started <- struct{}{}
			if img, err := s.Pull(context.Background(), ref, nil); err != nil || len(img.Layers) != 2 {
				t.Errorf("pull: %v, %v", img, err)
			}
		})
	}
	for range 8 {
		<-started
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("first: %v", err)
	}
	close(hold)
	wg.Wait()
	if n := srv.gets.Load(); n > 4 {
		t.Errorf("%d blobs fetched for one image of 2", n)
	}
}

// TestPullEndsWithItsContext: a cancelled pull leaves nothing behind.
func TestPullEndsWithItsContext(t *testing.T) {
	srv := newServer(t, false)
	img := simple(t, build2019(), "hello")
	srv.push(t, "app", "v1", img)
	ctx, cancel := context.WithCancel(context.Background())
	srv.before = func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/") {
			cancel()
			<-r.Context().Done()
		}
		return false
	}
	dir := t.TempDir()
	s := open(t, dir, testConfig(t))
	if _, err := s.Pull(ctx, srv.host()+"/app:v1", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if err := s.Close(); err != nil { // waits for the fetch
		t.Fatal(err)
	}
	for _, sub := range []string{"l", "m", "images", "ingest"} {
		if left := tree(t, filepath.Join(dir, sub)); len(left) > 0 {
			t.Errorf("%s has %q", sub, left)
		}
	}
	if _, err := s.Pull(ctx, "app:v1", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}

func TestPullOfWhatIsNotThere(t *testing.T) {
	srv := newServer(t, false)
	s := open(t, t.TempDir(), testConfig(t))
	ref := srv.host() + "/none:v1"
	if _, err := s.Pull(context.Background(), ref, nil); !errors.Is(err, image.ErrNotFound) ||
		!strings.Contains(err.Error(), fmt.Sprintf("failed to resolve reference %q", ref)) {
		t.Errorf("error %v", err)
	}
	for _, ref := range []string{"", "UPPER/case", "a b", "x@sha256:12", "x@sha512:" + strings.Repeat("0", 128),
		strings.Repeat("a", 300)} {
		if _, err := s.Pull(context.Background(), ref, nil); err == nil {
			t.Errorf("pulled %q", ref)
		}
	}
}
