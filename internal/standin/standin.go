// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package standin creates mullion's stand-ins for Microsoft's base images, which
// do not start under Wine, and for a few images that guides name.
//
// A stand-in is built here, only from Go programs of this repository (winbox, the
// PowerShell interpreter): no content is fetched, and it contains no part of the
// original. Its label io.mullion.stand-in says so.
//
// Their directories exist once per machine, in the cache, and are shared by all
// hosts as read-only overlay layers; each host's image store only keeps records
// that point there. docs/fidelity/images.md lists the omissions of each.
package standin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// Label marks the images; its value is the flavor.
const Label = "io.mullion.stand-in"

// noticeLabel describes the image in plain text.
const noticeLabel = "io.mullion.notice"

// format counts incompatible changes of the directories. A higher number makes
// a new directory in the cache; nodes that use the old one keep it.
const format = "1"

// Programs holds the Windows executables that stand-ins are made of.
type Programs struct {
	Winbox     string
	PowerShell string
}

// Catalogue is the set of stand-ins on one machine. It implements
// image.StandIns.
type Catalogue struct {
	name  string           // directory below the cache: "standin-<hash>"
	sizes map[string]int64 // of each flavor's directory, bytes
}

// Prepare returns the catalogue for the given programs, and makes its
// directories in the cache unless they exist.
func Prepare(ctx context.Context, cacheDir string, p Programs, log *slog.Logger) (_ *Catalogue, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("prepare stand-in images: %w", err)
		}
	}()
	sum, err := p.hash()
	if err != nil {
		return nil, err
	}
	c := &Catalogue{name: "standin-" + sum, sizes: map[string]int64{}}
	dir := filepath.Join(cacheDir, c.name)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := c.make(ctx, cacheDir, dir, p); err != nil {
			return nil, err
		}
		log.InfoContext(ctx, "stand-in images made", logkey.Path, dir)
	} else if err != nil {
		return nil, err
	}
	return c, c.measure(dir)
}

// Open returns a catalogue that Prepare has made, by its name. It only reads.
func Open(cacheDir, name string) (*Catalogue, error) {
	c := &Catalogue{name: name, sizes: map[string]int64{}}
	if err := c.measure(filepath.Join(cacheDir, name)); err != nil {
		return nil, fmt.Errorf("open stand-in images %s: %w", name, err)
	}
	return c, nil
}

// measure reads the sizes of the flavors.
func (c *Catalogue) measure(dir string) (err error) {
	for _, f := range flavors() {
		if !f.ownDir() {
			continue
		}
		if c.sizes[f.name], err = treeSize(filepath.Join(dir, f.name)); err != nil {
			return err
		}
	}
	return nil
}

// Name returns the name of the catalogue's directory in the cache.
func (c *Catalogue) Name() string { return c.name }

// hash names the content: the programs and the layout.
func (p Programs) hash() (string, error) {
	h := sha256.New()
	_, _ = io.WriteString(h, format) // a hash never fails
	for _, f := range flavors() {
		// Where the programs lie does not matter: hosts see them elsewhere.
		_, _ = fmt.Fprintf(h, "%s %+v", f.name, f.files(Programs{Winbox: "winbox", PowerShell: "powershell"}))
	}
	for _, name := range []string{p.Winbox, p.PowerShell} {
		f, err := os.Open(name)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(h, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// make builds all flavors beside dir and renames them into place.
func (c *Catalogue) make(ctx context.Context, cacheDir, dir string, p Programs) (err error) {
	if err := os.MkdirAll(cacheDir, 0o700); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(cacheDir, ".standin-*")
	if err != nil {
		return err
	}
	defer func() {
		// After the rename, tmp no longer exists.
		err = errors.Join(err, os.RemoveAll(tmp))
	}()
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	// One copy of each program; the flavors link to it.
	programs, err := copyPrograms(tmp, p)
	if err != nil {
		return err
	}
	group, gctx := errgroup.WithContext(ctx)
	for _, f := range flavors() {
		if !f.ownDir() {
			continue
		}
		group.Go(func() error {
			if err := gctx.Err(); err != nil {
				return err
			}
			return writeTree(filepath.Join(tmp, f.name), f.files(programs))
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := image.SyncTree(tmp); err != nil {
		return err
	}
	err = os.Rename(tmp, dir)
	if errors.Is(err, fs.ErrExist) || isNotEmpty(err) {
		// Another process was quicker; its directory is the same.
		return nil
	}
	return err
}

// dirs returns the layers of a flavor, lowest first.
func (c *Catalogue) dirs(f flavor) []string {
	var out []string
	for _, name := range f.stack {
		out = append(out, c.name+"/"+name)
	}
	return out
}

// BaseLayers returns the directories that replace Microsoft's layers.
func (c *Catalogue) BaseLayers(kind image.BaseKind) ([]string, bool) {
	f, ok := flavorNamed(string(kind))
	if !ok {
		return nil, false
	}
	return c.dirs(f), true
}

// Resolve returns the stand-in that a host is given for a reference. The build
// is the one that the tag names, which the host may not be able to run: the
// caller refuses it then, as a pull would.
func (c *Catalogue) Resolve(ref image.Reference, host winver.Build) (image.StandIn, bool) {
	for _, e := range catalogue() {
		if e.repo != ref.Name {
			continue
		}
		build, ok := e.build(ref, host)
		if !ok {
			continue
		}
		f, ok := flavorNamed(e.flavor)
		if !ok {
			continue
		}
		in, err := c.describe(f, build)
		return in, err == nil
	}
	return image.StandIn{}, false
}

// Install records every stand-in that a host of the given build can run, under
// its usual names, so that imagePullPolicy Never finds it. It removes stand-ins
// of an earlier catalogue.
func Install(ctx context.Context, store *image.Store, c *Catalogue, host winver.Build) ([]*image.Image, error) {
	names := map[string][]image.Reference{} // by the image's config
	found := map[string]image.StandIn{}
	for _, name := range Names(host) {
		ref, err := image.ParseReference(name.Reference)
		if err != nil {
			return nil, fmt.Errorf("install stand-in images: %w", err)
		}
		in, ok := c.Resolve(ref, host)
		if !ok {
			return nil, fmt.Errorf("install stand-in images: no stand-in for %s", name.Reference)
		}
		key := string(in.Config)
		found[key], names[key] = in, append(names[key], ref)
	}
	var out []*image.Image
	for _, key := range slices.Sorted(maps.Keys(found)) {
		img, err := store.Register(ctx, found[key], names[key]...)
		if err != nil {
			return nil, fmt.Errorf("install stand-in images: %w", err)
		}
		out = append(out, img)
	}
	for _, img := range store.List() {
		if img.StandIn && !c.owns(img) {
			if err := store.Remove(ctx, img.ID); err != nil {
				return nil, fmt.Errorf("install stand-in images: %w", err)
			}
		}
	}
	return out, nil
}

// owns reports whether a stand-in belongs to this catalogue.
func (c *Catalogue) owns(img *image.Image) bool {
	return slices.ContainsFunc(img.Layers, func(l string) bool { return filepath.Base(filepath.Dir(l)) == c.name })
}

// Name is a reference that Install records on a host.
type Name struct {
	Reference string
	Build     winver.Build // of the image
}

// Names lists the references that Install records on a host.
func Names(host winver.Build) []Name {
	var out []Name
	for _, e := range catalogue() {
		for _, tag := range e.preload {
			for _, t := range e.tags(tag, host) {
				ref := image.Reference{Name: e.repo, Tag: t}
				if b, ok := e.build(ref, host); ok && winver.Compatible(host, b) {
					out = append(out, Name{ref.String(), b})
				}
			}
		}
	}
	return out
}

func treeSize(dir string) (int64, error) {
	var n int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		n += info.Size()
		return nil
	})
	return n, err
}

func copyPrograms(dir string, p Programs) (Programs, error) {
	out := Programs{Winbox: filepath.Join(dir, "winbox.exe"), PowerShell: filepath.Join(dir, "powershell.exe")}
	for from, to := range map[string]string{p.Winbox: out.Winbox, p.PowerShell: out.PowerShell} {
		data, err := os.ReadFile(from)
		if err != nil {
			return Programs{}, err
		}
		if err := os.WriteFile(to, data, 0o755); err != nil {
			return Programs{}, err
		}
	}
	return out, nil
}

// isNotEmpty reports whether err is rename's error for an existing directory that is not empty.
func isNotEmpty(err error) bool { return err != nil && strings.Contains(err.Error(), "not empty") }
