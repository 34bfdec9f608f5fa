// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// pull is one running fetch that several callers may wait for.
type pull struct {
	cancel  context.CancelFunc
	waiters int // guarded by Store.mu
	done    chan struct{}
	id      string // set before done is closed
	err     error  // set before done is closed
}

// Pull fetches an image by name, unless it is a stand-in's, which is answered
// without any network. The text of errors is containerd's, because people
// search for it and the kubelet prints it. Callers that want the same image
// with the same credentials share one fetch; it ends when the last of them has
// given up.
func (s *Store) Pull(ctx context.Context, ref string, auth *Auth) (*Image, error) {
	parsed, err := ParseReference(ref)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("failed to pull and unpack image %q: %w", parsed, err)
	}
	id, err := s.share(ctx, parsed, auth)
	if err != nil {
		return nil, fmt.Errorf("failed to pull and unpack image %q: %w", parsed, err)
	}
	return s.Get(id)
}

// share joins the running pull of the reference or starts one.
func (s *Store) share(ctx context.Context, ref Reference, auth *Auth) (string, error) {
	key := ref.String()
	if auth != nil {
		// A request with other credentials must not share this one's result.
		key += " " + digestOf(fmt.Append(nil, *auth))
	}
	s.mu.Lock()
	p, ok := s.pulls[key]
	if !ok {
		pctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		p = &pull{cancel: cancel, done: make(chan struct{})}
		s.pulls[key] = p
		s.pending.Go(func() {
			img, err := s.pull(pctx, ref, auth)
			if err != nil {
				p.err = err
			} else {
				p.id = img.ID
			}
			s.mu.Lock()
			if s.pulls[key] == p {
				delete(s.pulls, key)
			}
			s.mu.Unlock()
			cancel()
			close(p.done)
		})
	}
	p.waiters++
	s.mu.Unlock()

	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if p.waiters--; p.waiters == 0 {
			p.cancel()
			// A later caller must not join a pull that is being abandoned.
			if s.pulls[key] == p {
				delete(s.pulls, key)
			}
		}
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-p.done:
		return p.id, p.err
	}
}

func (s *Store) pull(ctx context.Context, ref Reference, auth *Auth) (*Image, error) {
	if s.cfg.StandIns != nil {
		if in, ok := s.cfg.StandIns.Resolve(ref, s.cfg.HostBuild); ok {
			// The originals are indexes: one without an image for this host is
			// refused at the pull.
			if !winver.CompatibleOSVersion(s.cfg.HostBuild, in.OSVersion) {
				return nil, errNoPlatform()
			}
			return s.Register(ctx, in, ref)
		}
	}
	s.log.InfoContext(ctx, "pulling image", logkey.Image, ref.String())
	reg, err := s.newRepository(ref, auth)
	if err != nil {
		return nil, err
	}
	top, err := reg.manifest(ctx, ref)
	if err != nil {
		return nil, err
	}
	a := &assembly{src: reg, raw: top.Manifest, name: ref.String()}
	a.digests = []string{ref.Name + "@" + top.Digest.String()}
	if ref.Tag != "" {
		a.tags = []string{ref.String()}
	}
	if top.MediaType.IsIndex() {
		d, err := s.chooseFrom(top.Manifest)
		if err != nil {
			return nil, err
		}
		child, err := reg.manifest(ctx, Reference{Name: ref.Name, Digest: d.Digest.String()})
		if err != nil {
			return nil, err
		}
		a.raw = child.Manifest
	}
	return s.assemble(ctx, a)
}

// chooseFrom decodes an index and picks the entry for this host.
func (s *Store) chooseFrom(raw []byte) (v1.Descriptor, error) {
	index, err := decodeIndex(raw, s.cfg.Limits)
	if err != nil {
		return v1.Descriptor{}, err
	}
	return choose(index, s.cfg.HostBuild)
}

func decodeIndex(raw []byte, limits Limits) (*v1.IndexManifest, error) {
	if int64(len(raw)) > limits.MetadataBytes {
		return nil, fmt.Errorf("%w: index of %d bytes", ErrInvalid, len(raw))
	}
	var index v1.IndexManifest
	if err := decodeOne(raw, &index); err != nil {
		return nil, fmt.Errorf("%w: index: %w", ErrInvalid, err)
	}
	for _, d := range index.Manifests {
		if _, err := parseDigest(d.Digest.String()); err != nil {
			return nil, fmt.Errorf("index: %w", err)
		}
	}
	return &index, nil
}

// Register records a stand-in under names, beside its existing names. It does not
// copy or unpack files.
func (s *Store) Register(ctx context.Context, in StandIn, refs ...Reference) (*Image, error) {
	rec, err := s.standInRecord(in, refs)
	if err != nil {
		return nil, fmt.Errorf("register stand-in: %w", err)
	}
	if s.hasNames(rec) {
		return s.Get(rec.ID)
	}
	for digest, raw := range map[string][]byte{rec.Manifest: in.Manifest, rec.ID: in.Config} {
		if s.blobs.has(digest, int64(len(raw))) {
			continue
		}
		if err := s.blobs.put(digest, int64(len(raw)), bytes.NewReader(raw)); err != nil {
			return nil, fmt.Errorf("register stand-in: %w", err)
		}
	}
	if err := s.save(rec); err != nil {
		return nil, fmt.Errorf("register stand-in: %w", err)
	}
	s.log.DebugContext(ctx, "stand-in registered", logkey.Image, rec.ID)
	return s.Get(rec.ID)
}

// standInRecord describes a stand-in under the given names.
func (s *Store) standInRecord(in StandIn, refs []Reference) (*record, error) {
	m, err := decodeManifest(in.Manifest, s.cfg.Limits)
	if err != nil {
		return nil, err
	}
	c, err := decodeConfig(in.Config, len(m.Layers))
	if err != nil {
		return nil, err
	}
	rec := &record{
		ID: digestOf(in.Config), Manifest: digestOf(in.Manifest), Size: in.Size, Config: c.Config,
		OS: c.OS, Arch: c.Architecture, OSVersion: c.OSVersion, Created: c.Created.Time, StandIn: true,
		Notes: []string{"stand-in made by mullion; nothing of the original is in it"},
	}
	for _, d := range in.Dirs {
		l := layerID{External: d}
		if !s.externalExists(l) {
			return nil, fmt.Errorf("directory %s: %w", d, ErrNotFound)
		}
		rec.Layers = append(rec.Layers, l)
	}
	for _, ref := range refs {
		if ref.Tag == "" {
			// The reference names the original's digest; the stand-in answers to it.
			rec.Digests = append(rec.Digests, ref.String())
			continue
		}
		rec.Tags = append(rec.Tags, ref.String())
		rec.Digests = append(rec.Digests, ref.Name+"@"+rec.Manifest)
	}
	return rec, nil
}

// hasNames reports whether the store has the same image under all of a record's
// names.
func (s *Store) hasNames(rec *record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	have, ok := s.images[rec.ID]
	return ok && have.Manifest == rec.Manifest && slices.Equal(have.Layers, rec.Layers) &&
		containsAll(have.Tags, rec.Tags) && containsAll(have.Digests, rec.Digests)
}

func containsAll(list, values []string) bool {
	return !slices.ContainsFunc(values, func(v string) bool { return !slices.Contains(list, v) })
}
