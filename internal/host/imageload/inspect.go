// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package imageload

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/distribution/reference"
)

// Limits of InspectFile, in bytes: of one document, and of all together.
const (
	documentBytes = 8 << 20
	allBytes      = 64 << 20
)

// Bounds of indexes: how deep they may be nested, and how many manifests are looked
// at in an archive. An index may name one that names it many times over.
const (
	maxIndexDepth = 8
	maxManifests  = 10_000
)

// InspectFile lists the images in an archive: an OCI image layout or the output of
// `docker save`, plain or gzip. An image for several platforms is listed once for
// each. It does not unpack layers: container runtimes check the rest.
func InspectFile(name string) ([]Image, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open archive: %w", err)
	}
	defer f.Close()
	return inspect(f)
}

func inspect(r io.Reader) ([]Image, error) {
	docs, err := documents(r)
	if err != nil {
		return nil, fmt.Errorf("read archive: %w", err)
	}
	switch {
	case docs["index.json"] != nil:
		return docs.layout()
	case docs["manifest.json"] != nil:
		return docs.docker()
	}
	return nil, errors.New("read archive: neither index.json (OCI layout) nor manifest.json (docker save) is in it")
}

// archived holds the JSON documents of an archive by name. Layers are not among them.
type archived map[string][]byte

func documents(r io.Reader) (archived, error) {
	plain := bufio.NewReader(r)
	if magic, err := plain.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(plain)
		if err != nil {
			return nil, err
		}
		plain = bufio.NewReader(z)
	}
	docs, all := archived{}, int64(0)
	for tr := tar.NewReader(plain); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg || h.Size > documentBytes {
			continue
		}
		entry := bufio.NewReader(tr)
		if first, err := entry.Peek(1); err != nil || first[0] != '{' && first[0] != '[' {
			continue
		}
		if all += h.Size; all > allBytes {
			return nil, fmt.Errorf("more than %d bytes of JSON", int64(allBytes))
		}
		content, err := io.ReadAll(entry)
		if err != nil {
			return nil, err
		}
		docs[path.Clean("/" + h.Name)[1:]] = content
	}
}

// manifest is an image or an index of images, of OCI or Docker.
type manifest struct {
	Manifests []descriptor `json:"manifests"`
	Config    descriptor   `json:"config"`
}

type descriptor struct {
	Digest      string            `json:"digest"`
	Annotations map[string]string `json:"annotations"`
}

// config is the part of an image's configuration with its platform.
type config struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	OSVersion    string `json:"os.version"`
}

func (d archived) blob(digest string, into any) (found bool, err error) {
	content := d["blobs/"+strings.Replace(digest, ":", "/", 1)]
	if content == nil {
		return false, nil
	}
	if err := json.Unmarshal(content, into); err != nil {
		return false, fmt.Errorf("read archive: %s: %w", digest, err)
	}
	return true, nil
}

// layout lists the images of an OCI layout.
func (d archived) layout() ([]Image, error) {
	var index manifest
	if err := json.Unmarshal(d["index.json"], &index); err != nil {
		return nil, fmt.Errorf("read archive: index.json: %w", err)
	}
	tags, err := d.dockerTags()
	if err != nil {
		return nil, err
	}
	w := walk{docs: d, tags: tags, left: maxManifests}
	var out []Image
	for _, m := range index.Manifests {
		images, err := w.platforms(m.Digest, layoutNames(m), 0)
		if err != nil {
			return nil, err
		}
		out = append(out, images...)
	}
	return out, nil
}

// layoutNames returns the name of an image of a layout. The first annotation is
// containerd's and full; the second is OCI's and often only a tag.
func layoutNames(m descriptor) []string {
	for _, key := range []string{"io.containerd.image.name", "org.opencontainers.image.ref.name"} {
		// A bare word is a tag without a repository.
		if text := m.Annotations[key]; strings.ContainsAny(text, ":/") {
			if names := normalized(text); names != nil {
				return names
			}
		}
	}
	return nil
}

// walk looks at the manifests of a layout.
type walk struct {
	docs archived
	tags map[string][]string // by digest of the configuration
	left int                 // manifests that may still be looked at
}

// platforms lists the images of a manifest or an index. A manifest that is not in the
// archive is of a platform that its author left out.
func (w *walk) platforms(digest string, names []string, depth int) ([]Image, error) {
	if depth > maxIndexDepth {
		return nil, fmt.Errorf("read archive: indexes nested more than %d deep", maxIndexDepth)
	}
	if w.left--; w.left < 0 {
		return nil, fmt.Errorf("read archive: more than %d manifests", maxManifests)
	}
	var m manifest
	if found, err := w.docs.blob(digest, &m); err != nil || !found {
		return nil, err
	}
	if len(m.Manifests) == 0 {
		var c config
		// An entry without an operating system is not an image: attestations are
		// kept beside images.
		if found, err := w.docs.blob(m.Config.Digest, &c); err != nil || !found || c.OS == "" || c.OS == "unknown" {
			return nil, err
		}
		if len(names) == 0 {
			names = w.tags[m.Config.Digest]
		}
		if len(names) == 0 {
			names = []string{digest}
		}
		return []Image{{Names: names, OS: c.OS, Arch: c.Architecture, OSVersion: c.OSVersion}}, nil
	}
	var out []Image
	for _, inner := range m.Manifests {
		images, err := w.platforms(inner.Digest, names, depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, images...)
	}
	return out, nil
}

// saved is one image of docker save's manifest.json.
type saved struct {
	Config   string   `json:"Config"`
	RepoTags []string `json:"RepoTags"`
}

func (d archived) saved() ([]saved, error) {
	if d["manifest.json"] == nil {
		return nil, nil
	}
	var list []saved
	if err := json.Unmarshal(d["manifest.json"], &list); err != nil {
		return nil, fmt.Errorf("read archive: manifest.json: %w", err)
	}
	return list, nil
}

// dockerTags maps digests of configurations to the tags that Docker 25 and later
// write beside an OCI layout.
func (d archived) dockerTags() (map[string][]string, error) {
	list, err := d.saved()
	tags := map[string][]string{}
	for _, s := range list {
		digest := strings.Replace(strings.TrimPrefix(s.Config, "blobs/"), "/", ":", 1)
		for _, t := range s.RepoTags {
			tags[digest] = append(tags[digest], normalized(t)...)
		}
	}
	return tags, err
}

// docker lists the images of docker save.
func (d archived) docker() ([]Image, error) {
	list, err := d.saved()
	if err != nil {
		return nil, err
	}
	var out []Image
	for _, s := range list {
		content := d[path.Clean("/" + s.Config)[1:]]
		var c config
		if err := json.Unmarshal(content, &c); err != nil {
			return nil, fmt.Errorf("read archive: %s: %w", s.Config, err)
		}
		i := Image{OS: c.OS, Arch: c.Architecture, OSVersion: c.OSVersion}
		for _, t := range s.RepoTags {
			i.Names = append(i.Names, normalized(t)...)
		}
		if len(i.Names) == 0 {
			i.Names = []string{"sha256:" + strings.TrimSuffix(path.Base(s.Config), ".json")}
		}
		out = append(out, i)
	}
	return out, nil
}

// normalized spells a name as container runtimes do, or returns nil.
func normalized(text string) []string {
	ref, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return nil
	}
	return []string{reference.TagNameOnly(ref).String()}
}

// Systems returns the operating systems of images, each once.
func Systems(images []Image) []string {
	var out []string
	for _, i := range images {
		if !slices.Contains(out, i.OS) {
			out = append(out, i.OS)
		}
	}
	return out
}
