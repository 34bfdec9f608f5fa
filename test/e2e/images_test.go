// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	regname "github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/mullion-k8s/mullion/internal/cri/image/imagebuild"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// TestLoad: archives of both kinds, from a file and from standard input, give
// images that keep what their author configured; bad ones are refused whole.
func TestLoad(t *testing.T) {
	t.Parallel()
	c := up(t)
	c.withWinprog(t)
	ns := c.namespace(t)
	spec := winprogSpec(t)
	const docker = "example.test/docker:v1"
	img := buildImage(t, spec)
	if out, err := c.load(t, archive(t, func(b *bytes.Buffer) error {
		return imagebuild.WriteDocker(b, map[string]*imagebuild.Image{docker: img})
	})); err != nil {
		t.Fatalf("load of docker's archive: %v: %s", err, out)
	}
	for i, ref := range []string{winprogImage, docker} {
		pod := fmt.Sprintf("show-%d", i)
		c.pod(t, ns, pod, onNode+`
  containers:
  - {name: main, image: "`+ref+`", imagePullPolicy: Never, env: [{name: FROM_POD, value: "also"}]}`)
		out := c.logs(t, ns, pod, "USERNAME: ")
		for _, want := range []string{`dir: C:\app <nil>`, `args: ["show" "two words"]`, "FROM_IMAGE: yes",
			"FROM_POD: also"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s prints %q, which lacks %q", ref, out, want)
			}
		}
	}
	t.Run("never pulled", func(t *testing.T) {
		c.pod(t, ns, "never", onNode+`
  containers:
  - {name: main, image: "example.test/absent:v1", imagePullPolicy: Never}`)
		// The event that says more is dropped when a kubelet has too many.
		eventually(t, time.Minute, "refusal", func() error {
			if got := c.get(t, ns, "never",
				"{.status.containerStatuses[0].state.waiting.reason}"); got != "ErrImageNeverPull" {
				return fmt.Errorf("reason %q", got)
			}
			return nil
		})
	})
	t.Run("refused", func(t *testing.T) { testBadArchives(t, c) })
}

func testBadArchives(t *testing.T, c *shared) {
	// Content that no host has: a layer that is there already is not read again.
	good := buildImage(t, imagebuild.Spec{Build: build2019(t), Layers: []imagebuild.Layer{{Entries: []imagebuild.Entry{
		{Path: "bad.txt", Content: bytes.Repeat([]byte(t.Name()+time.Now().String()), 1000)},
	}}}})
	layout := func(img *imagebuild.Image) []byte {
		return archive(t, func(b *bytes.Buffer) error {
			return imagebuild.WriteLayout(b, map[string]*imagebuild.Image{"example.test/bad:v1": img})
		})
	}
	with := func(change func(*imagebuild.Spec)) []byte {
		spec := imagebuild.Spec{Build: build2019(t),
			Layers: []imagebuild.Layer{{Entries: []imagebuild.Entry{{Path: "a.txt", Content: []byte("a")}}}}}
		change(&spec)
		return layout(buildImage(t, spec))
	}
	corrupt := *good
	corrupt.Layers = append([]imagebuild.Blob(nil), good.Layers...)
	last := &corrupt.Layers[len(corrupt.Layers)-1]
	last.Data = bytes.Clone(last.Data)
	last.Data[len(last.Data)/2] ^= 0x10
	whole := layout(good)
	for _, tc := range []struct {
		name string
		tar  []byte
		want []string // any of these
	}{
		{"Linux", with(func(s *imagebuild.Spec) { s.OS, s.NoOSVersion = "linux", true }),
			[]string{"no match for platform in manifest"}},
		{"flipped bit", layout(&corrupt), []string{"digest", "sha256"}},
		{"cut off", whole[:len(whole)/2], []string{"EOF", "neither index.json"}},
		{"nothing", nil, []string{"index.json", "EOF", "empty"}},
		{"no archive", []byte(strings.Repeat("no archive at all\n", 100)), []string{"index.json", "tar"}},
		{"link out", with(func(s *imagebuild.Spec) {
			s.Layers[0].Entries = []imagebuild.Entry{{Path: "out", Symlink: `C:\..\..\..\etc`},
				{Path: "out/evil.txt", Content: []byte("evil")}}
		}), []string{"out"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, err := c.load(t, tc.tar)
			if err == nil {
				t.Fatalf("it was loaded: %s", out)
			}
			for _, w := range tc.want {
				if strings.Contains(out, w) {
					return
				}
			}
			t.Errorf("it says %q, want one of %q", out, tc.want)
		})
	}
}

// TestRegistry pulls from a registry with and without a password. Plain HTTP is
// spoken to loopback addresses only.
func TestRegistry(t *testing.T) {
	t.Parallel()
	c := up(t)
	c.withWinprog(t)
	ns := c.namespace(t)
	images := map[string]*imagebuild.Image{}
	spec := winprogSpec(t)
	spec.Config.Cmd = []string{"wait"}
	images["app"] = buildImage(t, spec)
	images["linux"] = buildImage(t, imagebuild.Spec{OS: "linux", NoOSVersion: true,
		Layers: []imagebuild.Layer{{Entries: []imagebuild.Entry{{Path: "a.txt", Content: []byte("a")}}}}})
	b2022, err := winver.Parse("2022")
	if err != nil {
		t.Fatal(err)
	}
	newer := winprogSpec(t)
	newer.Build = b2022
	images["newer"] = buildImage(t, newer)

	inner := registry.New(registry.Logger(log.New(&bytes.Buffer{}, "", 0)))
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if strings.HasPrefix(r.URL.Path, "/v2/private/") && (user != "reader" || password != "pass:word") ||
			r.URL.Path == "/v2/" && user == "" {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	})
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	at := strings.TrimPrefix(server.URL, "http://")
	push := func(repo string, img *imagebuild.Image) {
		t.Helper()
		ref, err := regname.ParseReference(at + "/" + repo)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range append([]imagebuild.Blob{img.Config}, img.Layers...) {
			if b.Data == nil {
				continue // a foreign layer
			}
			if err := putBlob(server.URL, ref.Context().RepositoryStr(), b); err != nil {
				t.Fatal(err)
			}
		}
		if err := remote.Put(ref, manifest{img.Manifest},
			remote.WithAuth(&authn.Basic{Username: "reader", Password: "pass:word"})); err != nil {
			t.Fatalf("push %s: %v", repo, err)
		}
	}
	for repo, img := range images {
		push("public/"+repo+":v1", img)
	}
	push("private/app:v1", images["app"])
	login := base64.StdEncoding.EncodeToString([]byte("reader:pass:word"))
	c.apply(t, ns, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"login"},
	  "type":"kubernetes.io/dockerconfigjson",
		"stringData":{".dockerconfigjson":"{\"auths\":{\"`+at+`\":{\"auth\":\"`+login+`\"}}}"}}`)
	pod := func(pod, ref, more string) {
		c.pod(t, ns, pod, onNode+more+`
  containers:
  - {name: main, image: "`+at+"/"+ref+`", imagePullPolicy: Always}`)
	}
	pod("public", "public/app:v1", "")
	pod("private", "private/app:v1", "\n  imagePullSecrets: [{name: login}]")
	pod("denied", "private/app:v1", "")
	pod("linux", "public/linux:v1", "")
	pod("newer", "public/newer:v1", "")
	pod("absent", "public/absent:v1", "")
	c.ready(t, ns, "public", "private")
	c.event(t, ns, "denied", "401")
	c.event(t, ns, "linux", "no match for platform in manifest")
	// Without an index the registry offers it, and the runtime refuses it.
	c.event(t, ns, "newer", "The container operating system does not match the host operating system")
	c.event(t, ns, "absent", "not found")
}

// manifest is an image's manifest as package remote wants it.
type manifest struct{ imagebuild.Blob }

func (m manifest) RawManifest() ([]byte, error) { return m.Data, nil }

// putBlob uploads a blob in one request.
func putBlob(server, repo string, b imagebuild.Blob) error {
	req, err := http.NewRequest(http.MethodPost, server+"/v2/"+repo+"/blobs/uploads/?digest="+
		b.Descriptor.Digest.String(), bytes.NewReader(b.Data))
	if err != nil {
		return err
	}
	req.SetBasicAuth("reader", "pass:word")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("upload of %s: %s", b.Descriptor.Digest, resp.Status)
	}
	return nil
}
