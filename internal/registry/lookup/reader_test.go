// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lookup

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distribution/reference"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/mullion-k8s/mullion/internal/policy"
)

const (
	mediaIndex    = string(types.OCIImageIndex)
	mediaManifest = string(types.OCIManifestSchema1)
)

// shelf is a registry that serves what a test puts into it. Before, if set, sees
// every request first and reports whether it answered.
type shelf struct {
	*httptest.Server
	host     string
	before   func(w http.ResponseWriter, r *http.Request) bool
	contents map[string]content // by path below /v2/
	asked    atomic.Int64       // for manifests
}

type content struct {
	media string
	body  []byte
}

func newShelf(t testing.TB, secure bool) *shelf {
	t.Helper()
	s := &shelf{contents: map[string]content{}}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	s.host = s.Listener.Addr().String()
	return s
}

func (s *shelf) serve(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.URL.Path, "/manifests/") {
		s.asked.Add(1)
	}
	if s.before != nil && s.before(w, r) {
		return
	}
	if r.URL.Path == "/v2/" {
		return
	}
	c, ok := s.contents[strings.TrimPrefix(r.URL.Path, "/v2/")]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", c.media)
	_, _ = w.Write(c.body) // a client that has gone
}

func digestOf(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

// manifest puts a manifest under its digest, and a tag.
func (s *shelf) manifest(repo, tag, media string, body []byte) string {
	s.contents[repo+"/manifests/"+tag] = content{media, body}
	s.contents[repo+"/manifests/"+digestOf(body)] = content{media, body}
	return digestOf(body)
}

// image puts a single image, and returns its digest.
func (s *shelf) image(repo, tag, os, version, user string) string {
	config, err := json.Marshal(map[string]any{"os": os, "architecture": "amd64", "os.version": version,
		"config": map[string]string{"User": user}})
	if err != nil {
		panic(err) // strings are JSON
	}
	s.contents[repo+"/blobs/"+digestOf(config)] = content{"application/octet-stream", config}
	return s.manifest(repo, tag, mediaManifest,
		fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"config":{"digest":%q,"size":%d},"layers":[]}`,
			mediaManifest, digestOf(config), len(config)))
}

func parse(t testing.TB, s string) reference.Named {
	t.Helper()
	ref, err := reference.ParseDockerRef(s)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func (s *shelf) read(t testing.TB, cfg Config, image string, credentials ...authn.AuthConfig) (policy.Image, error) {
	t.Helper()
	r := newReader(cfg)
	defer r.close()
	ctx, cancel := context.WithTimeout(t.Context(), lookupLimit)
	defer cancel()
	return r.read(ctx, parse(t, s.host+"/"+image), credentials)
}

func TestRead(t *testing.T) {
	s := newShelf(t, false)
	windows := s.image("acme/shop", "win", "windows", "10.0.17763.6893", "ContainerUser")
	s.image("acme/shop", "lin", "linux", "", "")
	entry := func(digest, platform string) string {
		return fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":1,"platform":%s}`, mediaManifest, digest, platform)
	}
	absent := digestOf(nil)
	index := func(tag string, entries ...string) {
		s.manifest("acme/shop", tag, mediaIndex,
			fmt.Appendf(nil, `{"schemaVersion":2,"annotations":{"a":"b"},"manifests":[%s],"more":[1]}`,
				strings.Join(entries, ",")))
	}
	index("multi",
		entry(absent, `{"os":"linux","architecture":"amd64"}`), entry(absent, `{"os":"linux","architecture":"amd64"}`),
		entry(absent, `{"os":"unknown","architecture":"unknown"}`),
		entry(windows, `{"os":"windows","architecture":"amd64","os.version":"10.0.17763.6893"}`),
		entry(absent, `{"os":"windows","architecture":"amd64","os.version":"10.0.20348.1"}`),
		fmt.Sprintf(`{"mediaType":"application/octet-stream","digest":%q}`, absent))
	index("unnamed", entry(windows, `null`), entry(windows, `{"os":""}`))
	index("silent", entry(absent, `{"os":"windows","architecture":"amd64"}`))

	win := policy.Platform{OS: "windows", Arch: "amd64", OSVersion: "10.0.17763.6893"}
	lin := policy.Platform{OS: "linux", Arch: "amd64"}
	for image, want := range map[string]policy.Image{
		"acme/shop:win": {Platforms: []policy.Platform{win}, User: "ContainerUser"},
		"acme/shop:lin": {Platforms: []policy.Platform{lin}},
		"acme/shop:multi": {Index: true,
			Platforms: []policy.Platform{lin, win, {OS: "windows", Arch: "amd64", OSVersion: "10.0.20348.1"}},
			User:      "ContainerUser"},
		"acme/shop:unnamed":    {Index: true, Platforms: []policy.Platform{win}},
		"acme/shop:silent":     {Index: true, Platforms: []policy.Platform{{OS: "windows", Arch: "amd64"}}},
		"acme/shop@" + windows: {Platforms: []policy.Platform{win}, User: "ContainerUser"},
	} {
		t.Run(image, func(t *testing.T) {
			got, err := s.read(t, Config{}, image)
			if err != nil {
				t.Fatal(err)
			}
			if d := gocmp.Diff(want, got); d != "" {
				t.Errorf("image (-want +got):\n%s", d)
			}
		})
	}
}

// TestReadWhatOthersWrite: against the registry and the writer of
// go-containerregistry.
func TestReadWhatOthersWrite(t *testing.T) {
	srv := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(srv.Close)
	host := srv.Listener.Addr().String()
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS:           "windows",
		Architecture: "amd64",
		OSVersion:    "10.0.20348.2",
		Config:       v1.Config{User: "ContainerUser"},
	})
	if err != nil {
		t.Fatal(err)
	}
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "windows", Architecture: "amd64",
				OSVersion: "10.0.20348.2"}}})
	tag, err := name.NewTag(host + "/x/y:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(tag, index); err != nil {
		t.Fatal(err)
	}
	r := newReader(Config{})
	defer r.close()
	got, err := r.read(t.Context(), parse(t, host+"/x/y:1"), nil)
	want := policy.Image{Index: true,
		Platforms: []policy.Platform{{OS: "windows", Arch: "amd64", OSVersion: "10.0.20348.2"}}, User: "ContainerUser"}
	if d := gocmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("error %v, image (-want +got):\n%s", err, d)
	}
}

// TestHostileRegistry: whatever a registry does, the reader comes back in
// bounded time and memory, with words.
func TestHostileRegistry(t *testing.T) {
	bomb := func() []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(make([]byte, 8<<20))
		_ = z.Close()
		return b.Bytes()
	}()
	var entries strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&entries, `{"mediaType":%q,"digest":"sha256:%064d","platform":{"os":"linux",`+
			`"architecture":"amd64"}},`, mediaManifest, i)
	}
	huge := `{"manifests":[` + strings.TrimSuffix(entries.String(), ",") + `]}`
	for _, c := range []struct {
		name    string
		serve   func(s *shelf)
		image   string // "a/b:1" if empty
		problem string // in the words for people
	}{
		{name: "not found", serve: func(*shelf) {}, problem: "does not have it"},
		{name: "denied", serve: func(s *shelf) { s.before = status(http.StatusForbidden) }, problem: "denies access"},
		{name: "limited", serve: func(s *shelf) {
			s.before = status(http.StatusTooManyRequests)
		}, problem: "limits how often"},
		{name: "broken", serve: func(s *shelf) { s.before = status(http.StatusBadGateway) },
			problem: "fails (HTTP status 502)"},
		{name: "teapot", serve: func(s *shelf) { s.before = status(http.StatusTeapot) }, problem: "HTTP status 418"},
		{name: "wrong digest", serve: func(s *shelf) {
			s.contents["a/b/manifests/"+digestOf(nil)] = content{mediaManifest, []byte(`{}`)}
		}, image: "a/b@" + digestOf(nil), problem: "has the digest"},
		{name: "wrong config", serve: func(s *shelf) {
			s.manifest("a/b", "1", mediaManifest, fmt.Appendf(nil, `{"config":{"digest":%q}}`, digestOf(nil)))
			s.contents["a/b/blobs/"+digestOf(nil)] = content{"", []byte(`{"os":"windows"}`)}
		}, problem: "has the digest"},
		{name: "digest that is a path", serve: func(s *shelf) {
			s.manifest("a/b", "1", mediaManifest, []byte(`{"config":{"digest":"sha256:../../../../secrets"}}`))
		}, problem: "the digest"},
		{name: "huge manifest", serve: func(s *shelf) {
			s.manifest("a/b", "1", mediaManifest, make([]byte, 2<<20))
		}, problem: "more than 1048576 bytes"},
		{name: "endless manifest", serve: func(s *shelf) { s.before = endless }, problem: "more than 1048576 bytes"},
		{name: "large index", serve: func(s *shelf) {
			s.manifest("a/b", "1", mediaIndex, []byte(huge)[:900_000])
		}, problem: "more than 256 images"},
		{name: "index of nothing", serve: func(s *shelf) {
			s.manifest("a/b", "1", mediaIndex, []byte(`{"manifests":[`+strings.Repeat(`{},`, 300_000)+`{}]}`))
		}, problem: "more than 256 images"},
		{name: "manifest of many layers", serve: func(s *shelf) {
			s.manifest("a/b", "1", mediaManifest, []byte(`{"layers":[`+strings.Repeat(`{},`, 300_000)+`{}]}`))
		}, problem: "without a configuration"},
		{name: "empty index", serve: func(s *shelf) {
			s.manifest("a/b", "1", mediaIndex, []byte(`{}`))
		}, problem: "without images"},
		{name: "index of indexes", serve: func(s *shelf) {
			s.manifest("a/b", "1", mediaIndex, fmt.Appendf(nil, `{"manifests":[{"mediaType":%q,"digest":%q}]}`,
				mediaIndex, digestOf(nil)))
		}, problem: "without images"},
		{name: "not JSON", serve: func(s *shelf) {
			s.manifest("a/b", "1", mediaIndex, []byte("<html>"))
		}, problem: "not a JSON object"},
		{name: "deep JSON", serve: func(s *shelf) {
			s.manifest("a/b", "1", mediaIndex, []byte(`{"x":`+strings.Repeat("[", 500_000)))
		}, problem: "not JSON"},
		{name: "wrong media type", serve: func(s *shelf) {
			s.manifest("a/b", "1", "text/html", []byte("<html>"))
		}, problem: `media type "text/html"`},
		{name: "old schema", serve: func(s *shelf) {
			s.manifest("a/b", "1", string(types.DockerManifestSchema1Signed), []byte("{}"))
		}, problem: "media type"},
		{name: "terminal escapes", serve: func(s *shelf) {
			s.image("a/b", "1", "\x1b[31mwindows", "", "")
		}, problem: "which cannot run"},
		{name: "no platform", serve: func(s *shelf) { s.image("a/b", "1", "", "", "") }, problem: "which cannot run"},
		{name: "long user", serve: func(s *shelf) {
			s.image("a/b", "1", "windows", "10.0.17763.1", strings.Repeat("x", 1000))
		}, problem: "an invalid user"},
		{name: "gzip bomb", serve: func(s *shelf) {
			s.before = func(w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("Content-Encoding", "gzip")
				w.Header().Set("Content-Type", mediaIndex)
				_, _ = w.Write(bomb)
				return true
			}
		}, problem: "not a JSON object"},
		{name: "redirect loop", serve: func(s *shelf) {
			s.before = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/v2/" {
					http.Redirect(w, r, r.URL.Path+"x", http.StatusTemporaryRedirect)
				}
				return true
			}
		}, problem: "more than 3 redirects"},
		{name: "redirect to a metadata service", serve: func(s *shelf) {
			s.before = redirect("http://169.254.169.254/latest/meta-data/")
		}, problem: "does not answer"},
		{name: "redirect to a metadata service over HTTPS", serve: func(s *shelf) {
			s.before = redirect("https://169.254.169.254/latest/meta-data/")
		}, problem: "an address that is not queried"},
		{name: "token service at a metadata service", serve: func(s *shelf) {
			s.before = func(w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("WWW-Authenticate", `Bearer realm="https://169.254.169.254/token",service="x"`)
				w.WriteHeader(http.StatusUnauthorized)
				return true
			}
		}, problem: "does not answer"},
		{name: "endless token", serve: func(s *shelf) {
			s.before = func(w http.ResponseWriter, r *http.Request) bool {
				if strings.HasPrefix(r.URL.Path, "/token") {
					return endless(w, r)
				}
				w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="x"`, s.host))
				w.WriteHeader(http.StatusUnauthorized)
				return true
			}
		}, problem: "does not answer"},
		{name: "endless refusal", serve: func(s *shelf) {
			s.before = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/v2/" {
					return true
				}
				w.WriteHeader(http.StatusNotFound)
				return endless(w, r)
			}
		}, problem: "does not answer"},
		{name: "hangs up", serve: func(s *shelf) {
			s.before = func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }
		}, problem: "does not answer"},
		{name: "large headers", serve: func(s *shelf) {
			s.before = func(w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("X", strings.Repeat("x", 1<<20))
				return true
			}
		}, problem: "does not answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShelf(t, false)
			c.serve(s)
			image := c.image
			if image == "" {
				image = "a/b:1"
			}
			_, err := s.read(t, Config{}, image)
			if err == nil {
				t.Fatal("no error")
			}
			if p := explain(err); !strings.Contains(p.text, c.problem) {
				t.Errorf("%q lacks %q: %v", p.text, c.problem, err)
			}
			if strings.ContainsRune(err.Error(), 0x1b) {
				t.Errorf("a control character: %q", err)
			}
		})
	}
}

func status(code int) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/v2/" {
			w.WriteHeader(code)
		}
		return true
	}
}

func redirect(to string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/v2/" {
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
		}
		return true
	}
}

func endless(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path == "/v2/" {
		return true
	}
	block := bytes.Repeat([]byte(" "), 64<<10)
	for r.Context().Err() == nil {
		if _, err := w.Write(block); err != nil {
			break
		}
	}
	return true
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// TestCredentialsStayWithTheRegistry: neither a redirect nor a token service of
// another host is told the password or the token.
func TestCredentialsStayWithTheRegistry(t *testing.T) {
	var leaked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			leaked.Add(1)
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(other.Close)
	for _, scheme := range []string{"basic", "bearer"} {
		t.Run(scheme, func(t *testing.T) {
			s := newShelf(t, false)
			s.before = func(w http.ResponseWriter, r *http.Request) bool {
				switch {
				case r.URL.Path == "/token" && r.Header.Get("Authorization") == basic("u", "p"):
					_, _ = io.WriteString(w, `{"token":"t"}`)
				case r.Header.Get("Authorization") == "":
					challenge := `Basic realm="x"`
					if scheme == "bearer" {
						challenge = fmt.Sprintf(`Bearer realm="http://%s/token",service="x"`, s.host)
					}
					w.Header().Set("WWW-Authenticate", challenge)
					w.WriteHeader(http.StatusUnauthorized)
				case r.URL.Path != "/v2/":
					http.Redirect(w, r, other.URL+"/elsewhere", http.StatusTemporaryRedirect)
				}
				return true
			}
			if _, err := s.read(t, Config{}, "a/b:1", authn.AuthConfig{Username: "u", Password: "p"}); err == nil {
				t.Error("no error")
			}
			if leaked.Load() != 0 {
				t.Error("another host got the credentials")
			}
		})
	}
}

// TestSecondCredentials: the first may be of yesterday.
func TestSecondCredentials(t *testing.T) {
	s := newShelf(t, false)
	s.image("a/b", "1", "windows", "10.0.17763.1", "")
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == basic("u", "new") {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	_, err := s.read(t, Config{}, "a/b:1", authn.AuthConfig{Username: "u", Password: "old"},
		authn.AuthConfig{Username: "u", Password: "new"})
	if err != nil {
		t.Error(err)
	}
	_, err = s.read(t, Config{}, "a/b:1", authn.AuthConfig{Username: "u", Password: "secretpassword"})
	if err == nil || !explain(err).denied || strings.Contains(err.Error(), "secretpassword") {
		t.Errorf("error %v", err)
	}
}

func TestCertificates(t *testing.T) {
	s := newShelf(t, true)
	s.image("a/b", "1", "windows", "10.0.17763.1", "")
	_, err := s.read(t, Config{}, "a/b:1")
	if err == nil || explain(err).text != "shows a certificate of an unknown authority" {
		t.Errorf("without the authority: %v", err)
	}
	dir := t.TempDir()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), authority, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.read(t, Config{CertsDir: dir}, "a/b:1"); err != nil {
		t.Error(err)
	}
}

// TestPlainHTTP: a pod author's image name never makes the manager send
// anything in the clear, except to this machine.
func TestPlainHTTP(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), lookupLimit)
	defer cancel()
	r := newReader(Config{})
	tr, err := r.transport("registry.example.com")
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://registry.example.com/v2/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(req)
	if err == nil {
		defer resp.Body.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "refuse plain HTTP") {
		t.Errorf("error %v", err)
	}
}

func TestAddresses(t *testing.T) {
	for address, want := range map[string]map[bool]bool{ // allowed for a registry that is not, and that is, on loopback
		"203.0.113.7:443":             {false: true, true: true},
		"10.0.0.5:5000":               {false: true, true: true},
		"127.0.0.1:2379":              {false: false, true: true},
		"[::1]:2379":                  {false: false, true: true},
		"[::ffff:127.0.0.1]:2379":     {false: false, true: true},
		"169.254.169.254:80":          {false: false, true: false},
		"[::ffff:169.254.169.254]:80": {false: false, true: false},
		"[fe80::1%eth0]:80":           {false: false, true: false},
		"[fd00:ec2::254]:80":          {false: false, true: false},
		"0.0.0.0:80":                  {false: false, true: false},
		"224.0.0.1:80":                {false: false, true: false},
		"nonsense":                    {false: false, true: false},
	} {
		for loopback, ok := range want {
			if err := (&dialer{loopback: loopback}).check(address); (err == nil) != ok || err != nil &&
				!errors.Is(err, errRefused) {
				t.Errorf("%s, loopback %v: %v", address, loopback, err)
			}
		}
	}
	if d := newDialer("localhost:5000"); !d.loopback {
		t.Error("localhost is not loopback")
	}
	if d := newDialer("registry.example.com"); d.loopback {
		t.Error("a name is loopback")
	}
}

func TestProxyMayBeAnywhere(t *testing.T) {
	for u, want := range map[string]string{"http://127.0.0.1:3128": "127.0.0.1:3128", "http://proxy": "proxy:80",
		"https://proxy": "proxy:443", "socks5://proxy": "proxy:1080"} {
		req := httptest.NewRequest(http.MethodGet, u, nil)
		if got := proxyAddress(req.URL); got != want {
			t.Errorf("%s: %s, want %s", u, got, want)
		}
	}
}

// TestSlowRegistry: a body that drips ends with the context.
func TestSlowRegistry(t *testing.T) {
	s := newShelf(t, false)
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/v2/" {
			return true
		}
		w.Header().Set("Content-Type", mediaIndex)
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, " ")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(time.Millisecond)
		}
		return true
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	r := newReader(Config{})
	defer r.close()
	_, err := r.read(ctx, parse(t, s.host+"/a/b:1"), nil)
	if !errors.Is(err, context.DeadlineExceeded) || explain(err).text != "does not answer in time" {
		t.Errorf("error %v", err)
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:x",` +
		`"platform":{"os":"windows","architecture":"amd64","os.version":"10.0.17763.1"}}]}`))
	f.Add([]byte(`{"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","platform":null}],` +
		`"manifests":[]}`))
	f.Add([]byte(`{"config":{"digest":"sha256:x"}}`))
	f.Add([]byte(`{"os":"windows","architecture":"amd64","os.version":"10.0.20348","config":{"User":"ContainerUser"}}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if entries, err := decodeIndex(raw); err == nil {
			platforms, _, err := indexPlatforms(entries)
			for _, p := range platforms {
				checkPlatform(t, p)
			}
			if len(entries) > maxIndex || len(platforms) > maxIndex {
				t.Errorf("%d entries, error %v", len(entries), err)
			}
		}
		_, _ = decodeManifest(raw)
		if p, user, err := decodeConfig(raw); err == nil {
			checkPlatform(t, p)
			if len(user) > maxUser || !printable(user) {
				t.Errorf("user %q", user)
			}
		}
	})
}

func checkPlatform(t *testing.T, p policy.Platform) {
	t.Helper()
	for _, s := range []string{p.OS, p.Arch, p.OSVersion} {
		if len(s) > 64 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			t.Errorf("platform %q", p)
		}
	}
}
