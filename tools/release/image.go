// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// process1 starts the cluster in a container of the image, and stops it.
//
//go:embed process1.sh
var process1 []byte

// imageLicenses is an SPDX expression: mullion's own licence, and the licences of the Debian packages that require
// their source (Wine, bash, coreutils, nftables and others). The rest are in usr/share/doc/PACKAGE/copyright, of the
// image and of usr/lib/mullion/wine.
const imageLicenses = "Apache-2.0 AND GPL-2.0-or-later AND GPL-3.0-or-later AND LGPL-2.1-or-later AND " +
	"LicenseRef-usr-share-doc-copyright"

// writeImage writes an image that runs a whole cluster in one privileged container: the files of packages that are
// installed on this machine, and the release. The archive is one of the OCI's layouts with the manifest.json of
// `docker save`, for programs of both kinds.
func (r release) writeImage(name string, files []entry) (err error) {
	tree, err := os.MkdirTemp(filepath.Dir(name), ".image-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tree)) }()
	packages, err := closureOf(r.packages)
	if err != nil {
		return err
	}
	base, err := packageFiles(packages)
	if err != nil {
		return err
	}
	own := slices.Clone(files)
	for i := range own {
		own[i].name = debPath(own[i])
	}
	own = append(own, entry{name: "usr/bin/mullion", text: []byte("../lib/mullion/mullion"), mode: fs.ModeSymlink},
		entry{name: "usr/lib/mullion/process1", text: process1, mode: 0o755})
	image := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	for i, layer := range [][]entry{append(base, root()...), own} {
		file := filepath.Join(tree, fmt.Sprintf("layer-%d", i))
		if err := r.writeTarGz(file, layer); err != nil {
			return err
		}
		l, err := tarball.LayerFromFile(file, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return err
		}
		if image, err = mutate.Append(image, mutate.Addendum{Layer: l, MediaType: types.OCILayer,
			History: v1.History{Created: v1.Time{Time: r.date}, CreatedBy: "make dist"}}); err != nil {
			return err
		}
	}
	if image, err = r.configure(image); err != nil {
		return err
	}
	return r.writeLayout(name, filepath.Join(tree, "layout"), image)
}

// root are the files and directories of a machine that no package has.
func root() []entry {
	files := []entry{
		{name: "etc/group", text: []byte("root:x:0:\n"), mode: 0o644},
		{name: "etc/os-release", text: []byte("../usr/lib/os-release"), mode: fs.ModeSymlink},
		{name: "etc/passwd", text: []byte("root:x:0:0:root:/root:/bin/bash\n"), mode: 0o644},
		{name: "root/", mode: fs.ModeDir | 0o700},
		{name: "tmp/", mode: fs.ModeDir | fs.ModeSticky | 0o777},
	}
	for _, d := range []string{"dev/", "proc/", "run/", "sys/", "var/lib/mullion/", "var/tmp/"} {
		files = append(files, entry{name: d, mode: fs.ModeDir | 0o755})
	}
	for _, l := range []string{"bin", "lib", "lib64", "sbin"} {
		files = append(files, entry{name: l, text: []byte("usr/" + l), mode: fs.ModeSymlink})
	}
	return files
}

// configure sets the configuration of the image's containers.
func (r release) configure(image v1.Image) (v1.Image, error) {
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", "amd64", v1.Time{Time: r.date}
	config.Config = v1.Config{
		Entrypoint: []string{"/usr/lib/mullion/process1"},
		Env:        []string{"PATH=/usr/sbin:/usr/bin", "HOME=/root"},
		WorkingDir: "/root",
		StopSignal: "SIGTERM",
		// Hosts put overlayfs on their files, and overlayfs does not go on overlayfs.
		Volumes: map[string]struct{}{"/var/lib/mullion": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "mullion",
			"org.opencontainers.image.version":  r.version,
			"org.opencontainers.image.source":   "https://" + own,
			"org.opencontainers.image.licenses": imageLicenses,
		},
	}
	return mutate.ConfigFile(image, config)
}

// writeLayout writes the archive of an image.
func (r release) writeLayout(name, dir string, image v1.Image) error {
	tag := "mullion/node:" + strings.ReplaceAll(r.version, "+", "_")
	index, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := index.AppendImage(image, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": "docker.io/" + tag})); err != nil {
		return err
	}
	manifest, err := image.Manifest()
	if err != nil {
		return err
	}
	blob := func(d v1.Descriptor) string { return path.Join("blobs", d.Digest.Algorithm, d.Digest.Hex) }
	saved := struct {
		Config   string
		RepoTags []string
		Layers   []string
	}{Config: blob(manifest.Config), RepoTags: []string{tag}}
	for _, l := range manifest.Layers {
		saved.Layers = append(saved.Layers, blob(l))
	}
	text, err := json.Marshal([]any{saved})
	if err != nil {
		return err
	}
	files := []entry{{name: "manifest.json", text: text, mode: 0o644}}
	err = filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		relative, err := filepath.Rel(dir, file)
		files = append(files, entry{name: filepath.ToSlash(relative), source: file, mode: 0o644})
		return err
	})
	if err != nil {
		return err
	}
	return r.writeTar(name, files)
}
