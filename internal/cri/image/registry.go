// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/mullion-k8s/mullion/internal/registry"
)

// Auth holds the fields of CRI's AuthConfig.
type Auth struct {
	Username, Password string
	Auth               string // base64 of "user:password"
	ServerAddress      string
	IdentityToken      string
	RegistryToken      string
}

// ErrDenied is returned, wrapped, when a registry refuses the credentials.
var ErrDenied = errors.New("access denied by the registry")

const (
	// idleTimeout ends an attempt that receives no data for so long: a registry
	// that keeps a connection open must not block a pod forever. containerd's
	// image_pull_progress_timeout is 5 minutes for all attempts together.
	idleTimeout = time.Minute
	// attempts and firstBackoff: 0.5, 1, 2 and 4 s between five attempts bridge
	// a restart of a registry; longer outages are the kubelet's back-off's.
	attempts     = 5
	firstBackoff = 500 * time.Millisecond
)

// repository fetches from one repository of a registry.
type repository struct {
	blobs  blobs
	repo   name.Repository
	puller *remote.Puller
}

// newRepository prepares to fetch; it opens no connection.
func (s *Store) newRepository(ref Reference, auth *Auth) (*repository, error) {
	repo, err := name.NewRepository(ref.Name)
	if err != nil {
		return nil, fmt.Errorf("registry of %s: %w", ref, err)
	}
	rt, err := s.transport(repo.RegistryStr())
	if err != nil {
		return nil, fmt.Errorf("registry of %s: %w", ref, err)
	}
	authenticator, err := auth.authenticator(ref.registry())
	if err != nil {
		return nil, fmt.Errorf("registry of %s: %w", ref, err)
	}
	puller, err := remote.NewPuller(
		remote.WithTransport(rt),
		remote.WithAuth(authenticator),
		remote.WithUserAgent("mullion"),
		remote.WithRetryBackoff(remote.Backoff{Duration: firstBackoff, Factor: 2, Jitter: 0.1, Steps: attempts}),
	)
	if err != nil {
		return nil, fmt.Errorf("registry of %s: %w", ref, err)
	}
	return &repository{blobs: s.blobs, repo: repo, puller: puller}, nil
}

// manifest gets a manifest or an index. Its digest was checked if the reference
// has one.
func (r *repository) manifest(ctx context.Context, ref Reference) (*remote.Descriptor, error) {
	var n name.Reference = r.repo.Tag(ref.Tag)
	if ref.Digest != "" {
		n = r.repo.Digest(ref.Digest)
	}
	d, err := r.puller.Get(ctx, n)
	if err != nil {
		return nil, fmt.Errorf("failed to resolve reference %q: %w", ref, registryError(err))
	}
	return d, nil
}

// fetch gets a blob, with retries after temporary errors.
func (r *repository) fetch(ctx context.Context, d v1.Descriptor) error {
	var err error
	for attempt := range attempts {
		if attempt > 0 {
			wait := firstBackoff << (attempt - 1)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(wait + rand.N(wait/10)):
			}
		}
		if err = r.fetchOnce(ctx, d); err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !passing(err) {
			break
		}
	}
	return fmt.Errorf("fetch %s: %w", d.Digest, registryError(err))
}

func (r *repository) fetchOnce(ctx context.Context, d v1.Descriptor) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(idleTimeout, func() { cancel(fmt.Errorf("no data for %v", idleTimeout)) })
	defer idle.Stop()

	layer, err := r.puller.Layer(ctx, r.repo.Digest(d.Digest.String()))
	if err != nil {
		return err
	}
	body, err := layer.Compressed()
	if err != nil {
		return err
	}
	defer body.Close() // its content was verified or not
	if err := r.blobs.put(d.Digest.String(), d.Size, &alarmReader{body, idle}); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return fmt.Errorf("%w: %w", err, cause)
		}
		return err
	}
	return nil
}

// alarmReader puts the alarm off whenever data arrive.
type alarmReader struct {
	r     io.Reader
	alarm *time.Timer
}

func (r *alarmReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if n > 0 {
		r.alarm.Reset(idleTimeout)
	}
	return n, err
}

// passing reports whether another attempt may succeed. A wrong digest is a fault
// in the registry's content and does not go away.
func passing(err error) bool {
	if errors.Is(err, ErrInvalid) || isSpace(err) || isVerifyError(err) {
		return false
	}
	if terr, ok := errors.AsType[*transport.Error](err); ok {
		return terr.Temporary()
	}
	return true
}

// isVerifyError recognises go-containerregistry's own check of digest and size,
// which has no exported type: internal/verify.
func isVerifyError(err error) bool { return strings.Contains(err.Error(), "error verifying ") }

// registryError gives a registry's answer one of this package's kinds.
func registryError(err error) error {
	terr, ok := errors.AsType[*transport.Error](err)
	if !ok {
		if isVerifyError(err) {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		return err
	}
	switch terr.StatusCode {
	case http.StatusNotFound:
		return fmt.Errorf("%w: %w", terr, ErrNotFound)
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%w: %w", terr, ErrDenied)
	}
	return err
}

// authenticator turns CRI's credentials into the library's. Credentials for
// another server are not sent, as in containerd's CRI (ParseAuth).
func (a *Auth) authenticator(host string) (authn.Authenticator, error) {
	if a == nil || *a == (Auth{}) {
		return authn.Anonymous, nil
	}
	if a.ServerAddress != "" && registry.Host(a.ServerAddress) != registry.Host(host) {
		return authn.Anonymous, nil
	}
	c := authn.AuthConfig{
		Username:      a.Username,
		Password:      a.Password,
		IdentityToken: a.IdentityToken,
		RegistryToken: a.RegistryToken,
	}
	if c.Username == "" && c.IdentityToken == "" && c.RegistryToken == "" && a.Auth != "" {
		raw, err := base64.StdEncoding.DecodeString(a.Auth)
		if err != nil {
			// The text is a secret: the cause may not quote it.
			return nil, errors.New("decode credentials: not base64")
		}
		user, password, ok := strings.Cut(string(raw), ":")
		if !ok {
			return nil, errors.New("decode credentials: want user:password")
		}
		c.Username, c.Password = user, strings.TrimRight(password, "\x00")
	}
	return authn.FromConfig(c), nil
}

// transport makes the HTTP client of one registry.
func (s *Store) transport(host string) (http.RoundTripper, error) {
	return registry.Transport(host, registry.Config{
		CertsDir: s.cfg.CertsDir, Dial: s.cfg.Dial,
		HeaderTimeout: idleTimeout, IdlePerHost: parallelFetches + 1,
	})
}
