// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lookup

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"k8s.io/utils/lru"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/registry"
)

// Config configures how registries are queried.
type Config struct {
	// Off disables registries: no Images are created.
	Off bool
	// CertsDir has certificate authorities and client certificates of registries,
	// as containerd's certs.d: ca.crt for all of them; HOST/ca.crt,
	// HOST/client.cert and HOST/client.key for one. "" means the system's alone.
	// It is reread every few minutes.
	CertsDir string
	// Insecure lists registries (host or host:port) that may be queried over
	// plain HTTP. Registries on a loopback address always may.
	Insecure []string
	// NoLoopback excludes registries on loopback addresses: in a cluster they
	// belong to the nodes, not to the manager's pod.
	NoLoopback bool
	// Budget bounds how long one answer waits for registries; 0 means one
	// second. The timeout of the webhooks is two.
	Budget time.Duration
}

const (
	// maxHosts bounds the number of registries to which connections are kept.
	maxHosts = 32
	// hostAge is how long a registry's certificates are cached.
	hostAge = 5 * time.Minute
)

// reader reads from registries. It keeps connections, but caches no answers.
type reader struct {
	cfg   Config
	hosts *lru.Cache // of *host by their names
}

type host struct {
	transport http.RoundTripper
	made      time.Time
}

func newReader(cfg Config) *reader {
	return &reader{cfg: cfg, hosts: lru.NewWithEvictionFunc(maxHosts, func(_ lru.Key, v any) {
		(&http.Client{Transport: v.(*host).transport}).CloseIdleConnections()
	})}
}

// close ends unused connections.
func (r *reader) close() { r.hosts.Clear() }

// transport returns the transport to a registry. Two at once for one registry
// are harmless.
func (r *reader) transport(domain string) (http.RoundTripper, error) {
	if v, ok := r.hosts.Get(domain); ok && time.Since(v.(*host).made) < hostAge {
		return v.(*host).transport, nil
	}
	tr, err := registry.Transport(domain, registry.Config{
		CertsDir: r.cfg.CertsDir, Insecure: r.cfg.Insecure, Dial: newDialer(domain).dial, IdlePerHost: 2,
	})
	if err != nil {
		return nil, err
	}
	h := &host{bounded{tr}, time.Now()}
	r.hosts.Remove(domain)
	r.hosts.Add(domain, h)
	return h.transport, nil
}

// read requests the platforms and the user of an image, with each of the
// credentials until one is accepted, or anonymously if credentials is empty.
func (r *reader) read(ctx context.Context, ref reference.Named, credentials []authn.AuthConfig) (policy.Image, error) {
	repo, err := r.repository(ref)
	if err != nil {
		return policy.Image{}, fmt.Errorf("read image %s: %w", ref, err)
	}
	tr, err := r.transport(repo.RegistryStr())
	if err != nil {
		return policy.Image{}, fmt.Errorf("read image %s: %w", ref, err)
	}
	auths := []authn.Authenticator{authn.Anonymous}
	for i, c := range credentials[:min(len(credentials), maxCredentials)] {
		auths = append(auths[:i], authn.FromConfig(c))
	}
	var image policy.Image
	for _, auth := range auths {
		image, err = readAs(ctx, ref, repo, auth, tr)
		if err == nil {
			return image, nil
		}
		if !explain(err).denied {
			break
		}
	}
	return policy.Image{}, fmt.Errorf("read image %s: %w", ref, err)
}

// maxCredentials bounds how many are tried for one image.
const maxCredentials = 3

func (r *reader) repository(ref reference.Named) (name.Repository, error) {
	var options []name.Option
	if slices.Contains(r.cfg.Insecure, reference.Domain(ref)) {
		options = append(options, name.Insecure)
	}
	return name.NewRepository(ref.Name(), options...)
}

func readAs(ctx context.Context, ref reference.Named, repo name.Repository, auth authn.Authenticator,
	tr http.RoundTripper) (policy.Image, error) {
	c, err := connect(ctx, repo, auth, tr)
	if err != nil {
		return policy.Image{}, err
	}
	raw, media, err := c.manifest(ctx, identifier(ref))
	switch {
	case err != nil:
		return policy.Image{}, err
	case media.IsIndex():
		return c.index(ctx, raw)
	case media.IsImage():
		p, user, err := c.image(ctx, raw)
		return policy.Image{Platforms: []policy.Platform{p}, User: user}, err
	}
	return policy.Image{}, invalidf("an image of the media type %q", clip(string(media), 64))
}

// identifier is the digest of a reference, or its tag.
func identifier(ref reference.Named) string {
	switch r := ref.(type) {
	case reference.Digested:
		return r.Digest().String()
	case reference.Tagged:
		return r.Tag()
	}
	return "latest"
}

// index reads an index, and opens the entries that do not name their platform.
func (c *connection) index(ctx context.Context, raw []byte) (policy.Image, error) {
	entries, err := decodeIndex(raw)
	if err != nil {
		return policy.Image{}, err
	}
	platforms, unnamed, err := indexPlatforms(entries)
	if err != nil {
		return policy.Image{}, err
	}
	for _, digest := range unnamed[:min(len(unnamed), maxUnnamed)] {
		p, _, err := c.child(ctx, digest)
		if err != nil {
			return policy.Image{}, err
		}
		if !slices.Contains(platforms, p) {
			platforms = append(platforms, p)
		}
	}
	if len(platforms) == 0 {
		return policy.Image{}, invalidf("an index without images")
	}
	out := policy.Image{Index: true, Platforms: platforms}
	// Rules read the user of Windows images. All builds of an image have the
	// same user.
	if i := slices.IndexFunc(entries,
		func(e entry) bool { return e.Platform != nil && e.Platform.OS == "windows" }); i >= 0 {
		if _, user, err := c.child(ctx, entries[i].Digest); err == nil {
			out.User = user
		}
	}
	return out, nil
}

// child reads an image by its digest.
func (c *connection) child(ctx context.Context, digest string) (policy.Platform, string, error) {
	if err := checkDigest(digest); err != nil {
		return policy.Platform{}, "", err
	}
	raw, _, err := c.manifest(ctx, digest)
	if err != nil {
		return policy.Platform{}, "", err
	}
	return c.image(ctx, raw)
}

// image reads the configuration of an image.
func (c *connection) image(ctx context.Context, manifest []byte) (policy.Platform, string, error) {
	digest, err := decodeManifest(manifest)
	if err != nil {
		return policy.Platform{}, "", err
	}
	if err := checkDigest(digest); err != nil {
		return policy.Platform{}, "", err
	}
	raw, err := c.blob(ctx, digest)
	if err != nil {
		return policy.Platform{}, "", err
	}
	return decodeConfig(raw)
}

// checkDigest checks a digest from a registry before it becomes part of a URL.
func checkDigest(s string) error {
	if !reference.DigestRegexp.MatchString(s) || reference.DigestRegexp.FindString(s) != s {
		return invalidf("the digest %q", clip(s, 80))
	}
	return nil
}
