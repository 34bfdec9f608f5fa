// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// DefaultID is the owner of unpacked files if Config.UID is zero: the
// unprivileged user that containers run as. Files must be theirs, because
// ContainerAdministrator may write anywhere in a container.
const DefaultID = 64000

// Config configures a Store.
type Config struct {
	// HostBuild decides which platform of an index is pulled.
	HostBuild winver.Build
	// Base returns the directories that will lie below every image of a build
	// (the Windows system directories), lowest first. They determine the spelling
	// of existing paths. Nil means no directories.
	Base func(ctx context.Context, build winver.Build) ([]string, error)
	// StandIns resolves names and base layers that have a stand-in. May be nil.
	StandIns StandIns
	// ExternalDir is where the directories of StandIns lie. It may be at
	// another place each time the store is opened.
	ExternalDir string

	// UID and GID own the unpacked files: zero is DefaultID, below zero leaves
	// the owner alone (for tests without root).
	UID, GID int

	// Dial opens connections to registries; nil is the net package's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// CertsDir holds a directory per registry host ("registry.example:5000")
	// with ca.crt, and client.cert and client.key if needed, as Docker's
	// /etc/docker/certs.d. A ca.crt in CertsDir itself serves all registries.
	CertsDir string

	Limits Limits
	Log    *slog.Logger
}

// StandIns resolves the images that mullion itself provides.
type StandIns interface {
	// Resolve returns the stand-in for a reference; ok is false without a stand-in.
	Resolve(ref Reference, host winver.Build) (img StandIn, ok bool)
	// BaseLayers returns the directories, relative to Config.ExternalDir and
	// lowest first, that take the place of Microsoft's layers of a kind.
	BaseLayers(kind BaseKind) (dirs []string, ok bool)
}

// StandIn is an image without content in the store.
type StandIn struct {
	Manifest  []byte   // the raw manifest; its digest is the image's
	Config    []byte   // the raw config; its digest is the image's ID
	OSVersion string   // of the config
	Dirs      []string // layers, relative to Config.ExternalDir, lowest first
	Size      int64
}

// Store is one host's images. See the package's documentation.
type Store struct {
	dir   string
	cfg   Config
	log   *slog.Logger
	lock  *durable.Lock
	blobs blobs

	mu      sync.Mutex
	images  map[string]*record // by ID; guarded by mu
	holds   map[string]*hold   // by owner; guarded by mu
	serial  int64              // guarded by mu
	busy    map[string]int     // layer keys and blob digests that running pulls and loads need; guarded by mu
	pulls   map[string]*pull   // running, by reference; guarded by mu
	pending sync.WaitGroup     // goroutines of pulls

	// unpacking has the layers that are being unpacked, by key; a channel is closed when
	// its layer is done; guarded by mu. The same layer must not be made twice at a
	// time. Different layers do not wait for each other.
	unpacking map[string]chan struct{}
}

// Open opens or makes the store in a directory and cleans up after a crash. Close
// it when done.
func Open(dir string, cfg Config) (_ *Store, err error) {
	cfg.Limits = cfg.Limits.withDefaults()
	cfg.UID = cmp.Or(cfg.UID, DefaultID)
	cfg.GID = cmp.Or(cfg.GID, DefaultID)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	s := &Store{
		dir: dir, cfg: cfg, log: cfg.Log,
		blobs:  blobs{dir: filepath.Join(dir, "blobs", "sha256"), ingest: filepath.Join(dir, "ingest")},
		images: map[string]*record{}, holds: map[string]*hold{}, busy: map[string]int{}, pulls: map[string]*pull{},
		unpacking: map[string]chan struct{}{},
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("open image store %s: %w", dir, err)
			if s.lock != nil {
				s.lock.Unlock()
			}
		}
	}()
	// Layers must be reachable by the containers' user; blobs and records not.
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for sub, perm := range map[string]os.FileMode{"blobs/sha256": 0o700, "l": 0o755, "m": 0o700, "images": 0o700,
		"holds": 0o700, "ingest": 0o755} {
		if err := os.MkdirAll(filepath.Join(dir, sub), perm); err != nil {
			return nil, err
		}
	}
	s.lock, err = durable.TryLock(filepath.Join(dir, "lock"), durable.Exclusive)
	if held, ok := errors.AsType[*durable.LockedError](err); ok {
		return nil, fmt.Errorf("%w (process %d)", ErrInUse, held.PID)
	}
	if err != nil {
		return nil, err
	}
	if err := s.repair(); err != nil {
		return nil, err
	}
	return s, nil
}

// Close waits for running pulls to end and releases the store. Callers cancel
// the pulls' contexts first.
func (s *Store) Close() error {
	s.pending.Wait()
	s.lock.Unlock()
	return nil
}

func (s *Store) ingest() string { return s.blobs.ingest }

// List returns all images, sorted by ID.
func (s *Store) List() []*Image {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*Image, 0, len(s.images))
	for _, r := range s.images {
		out = append(out, s.image(r))
	}
	slices.SortFunc(out, func(a, b *Image) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// Get finds an image by its ID (with or without "sha256:"), by a name with a
// tag or digest, or by a prefix of the ID that is at least 12 digits long and
// fits one image only.
func (s *Store) Get(ref string) (*Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.find(ref)
	if err != nil {
		return nil, err
	}
	return s.image(r), nil
}

// find is Get for callers that hold mu.
func (s *Store) find(ref string) (*record, error) {
	if r, ok := s.images[ref]; ok {
		return r, nil
	}
	if r, ok := s.images["sha256:"+ref]; ok {
		return r, nil
	}
	if r := s.findPrefix(strings.TrimPrefix(ref, "sha256:")); r != nil {
		return r, nil
	}
	parsed, err := ParseReference(ref)
	if err != nil {
		return nil, fmt.Errorf("image %q: %w", ref, ErrNotFound)
	}
	name := parsed.String()
	for _, r := range s.images {
		if slices.Contains(r.Tags, name) || slices.Contains(r.Digests, name) {
			return r, nil
		}
	}
	return nil, fmt.Errorf("image %q: %w", ref, ErrNotFound)
}

// shortIDDigits is the length of IDs that docker and crictl print.
const shortIDDigits = 12

func (s *Store) findPrefix(hex string) *record {
	if len(hex) < shortIDDigits {
		return nil
	}
	var found *record
	for id, r := range s.images {
		if strings.HasPrefix(id, "sha256:"+hex) {
			if found != nil {
				return nil
			}
			found = r
		}
	}
	return found
}

// image makes the caller's copy. Preconditions: mu is held.
func (s *Store) image(r *record) *Image {
	img := &Image{
		ID: r.ID, RepoTags: slices.Clone(r.Tags), RepoDigests: slices.Clone(r.Digests), Size: r.Size,
		Config: *r.Config.DeepCopy(), OS: r.OS, Arch: r.Arch, OSVersion: r.OSVersion, Created: r.Created,
		StandIn: r.StandIn, Notes: slices.Clone(r.Notes),
	}
	for _, l := range r.Layers {
		img.Layers = append(img.Layers, s.dirsOf(l)...)
	}
	img.NoBase = len(r.Layers) > 0 && r.Layers[0].Own != ""
	return img
}

// dirsOf returns the directories of a layer, lowest first; nil if its stand-in is
// gone.
func (s *Store) dirsOf(l layerID) []string {
	external := []string{l.External}
	switch {
	case l.Own != "":
		return []string{s.layerDir(l.Own)}
	case l.Base != "" && s.cfg.StandIns == nil:
		return nil
	case l.Base != "":
		external, _ = s.cfg.StandIns.BaseLayers(l.Base) // nil without a stand-in
	}
	var out []string
	for _, dir := range external {
		out = append(out, filepath.Join(s.cfg.ExternalDir, filepath.FromSlash(dir)))
	}
	return out
}

// save puts a new or changed record on disk, then in memory, and takes its
// names away from other images, as a moved tag does.
func (s *Store) save(r *record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.images[r.ID]; ok {
		r.Tags = append(r.Tags, old.Tags...)
		r.Digests = append(r.Digests, old.Digests...)
	}
	slices.Sort(r.Tags)
	slices.Sort(r.Digests)
	r.Tags, r.Digests = slices.Compact(r.Tags), slices.Compact(r.Digests)
	s.serial++
	r.Serial = s.serial
	if err := durable.WriteDocument(s.recordPath(r.ID), r); err != nil {
		return fmt.Errorf("save image %s: %w", r.ID, err)
	}
	s.images[r.ID] = r
	var errs []error
	for _, other := range s.images {
		if other != r {
			errs = append(errs, s.takeNames(other, r))
		}
	}
	return errors.Join(errs...)
}

// takeNames removes the names of r from another image. Preconditions: mu is held.
func (s *Store) takeNames(other, r *record) error {
	without := func(names, taken []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(taken, n) })
	}
	tags, digests := without(other.Tags, r.Tags), without(other.Digests, r.Digests)
	if len(tags) == len(other.Tags) && len(digests) == len(other.Digests) {
		return nil
	}
	changed := *other
	changed.Tags, changed.Digests = tags, digests
	if err := durable.WriteDocument(s.recordPath(changed.ID), &changed); err != nil {
		return fmt.Errorf("save image %s: %w", changed.ID, err)
	}
	s.images[changed.ID] = &changed
	return nil
}

func (s *Store) recordPath(id string) string {
	return filepath.Join(s.dir, "images", strings.TrimPrefix(id, "sha256:")+".json")
}

// Remove deletes an image with all its names. A missing image is not an
// error, as CRI demands. Layers that containers hold stay until released.
func (s *Store) Remove(ctx context.Context, ref string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.find(ref)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	// First the record: from here on the image is gone, whatever happens.
	if err := removeDurably(s.recordPath(r.ID)); err != nil {
		return fmt.Errorf("remove image %s: %w", r.ID, err)
	}
	delete(s.images, r.ID)
	s.log.InfoContext(ctx, "image removed", logkey.Image, ref)
	for _, digest := range []string{r.ID, r.Manifest} {
		if p, err := s.blobs.path(digest); err == nil && !s.needs(digest) {
			if err := removeDurably(p); err != nil {
				return fmt.Errorf("remove image %s: %w", r.ID, err)
			}
		}
	}
	return s.collect()
}

// Acquire is Get, and keeps the image's layers for the owner (a container's ID)
// until Release, across restarts.
func (s *Store) Acquire(ref, owner string) (*Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.find(ref)
	if err != nil {
		return nil, err
	}
	h := &hold{Owner: owner, Image: r.ID}
	for _, l := range r.Layers {
		if l.Own != "" {
			h.Layers = append(h.Layers, l.Own)
		}
	}
	if err := durable.WriteDocument(s.holdPath(owner), h); err != nil {
		return nil, fmt.Errorf("hold image %s for %s: %w", ref, owner, err)
	}
	s.holds[owner] = h
	return s.image(r), nil
}

// Release ends a hold. It is not an error if the hold does not exist.
func (s *Store) Release(owner string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.holds[owner]; !ok {
		return nil
	}
	if err := removeDurably(s.holdPath(owner)); err != nil {
		return fmt.Errorf("release image of %s: %w", owner, err)
	}
	delete(s.holds, owner)
	return s.collect()
}

// Holders lists the owners of holds on an image's layers.
func (s *Store) Holders(id string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for owner, h := range s.holds {
		if h.Image == id {
			out = append(out, owner)
		}
	}
	slices.Sort(out)
	return out
}

// holdPath hashes the owner, which may be any text.
func (s *Store) holdPath(owner string) string {
	return filepath.Join(s.dir, "holds", digestOf([]byte(owner))[len("sha256:"):]+".json")
}

func removeDurably(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return syncDir(filepath.Dir(name))
}

// readRecords decodes every record of a directory; it reports undecodable records
// to bad and skips them.
func readRecords[T any](dir string, each func(name string, v *T) error, bad func(name string, err error) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		data, err := os.ReadFile(name)
		if err == nil {
			var v T
			if err = json.Unmarshal(data, &v); err == nil {
				err = each(name, &v)
			}
		}
		if err != nil {
			if err := bad(name, err); err != nil {
				return err
			}
		}
	}
	return nil
}
