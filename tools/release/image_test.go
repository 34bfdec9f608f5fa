// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// TestImage makes an image of few packages: valid in both forms of an archive, and without anything of the machine
// that is not a package's.
func TestImage(t *testing.T) {
	r := newRelease(t)
	r.only = "image"
	dir := t.TempDir()
	written, err := r.write(dir)
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(dir, written[1])
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("%q is left, %v", left, err)
	}
	image, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(image); err != nil {
		t.Error(err)
	}
	unpacked := t.TempDir()
	if out, err := exec.Command("tar", "-xf", archive, "-C", unpacked).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v: %s", err, out)
	}
	index, err := layout.ImageIndexFromPath(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := json.Marshal(config.Config.Volumes); err != nil || string(got) != `{"/var/lib/mullion":{}}` {
		t.Errorf("volumes %s, %v", got, err)
	}
	if got := config.Config.Labels["org.opencontainers.image.licenses"]; !strings.Contains(got, "GPL-2.0-or-later") {
		t.Errorf("licences %q: the image has bash and Wine", got)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 2 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	got := map[string]string{}
	for _, l := range layers {
		content, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		names(t, content, got)
	}
	for name, to := range map[string]string{"bin": "usr/bin", "usr/bin/bash": "", "usr/lib/mullion/process1": "",
		"usr/bin/mullion": "../lib/mullion/mullion", "usr/lib/mullion/linux/pause.tar": "", "tmp/": "", "proc/": "",
		"usr/share/doc/mullion/SOURCES.txt": "", "usr/lib/mullion/wine/lib": "usr/lib",
		"usr/lib/mullion/wine/usr/lib/wine/wine64": "", "usr/share/doc/bash/copyright": ""} {
		if at, ok := got[name]; !ok || at != to {
			t.Errorf("%s: there %t, a link to %q; want %q", name, ok, at, to)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		switch {
		case strings.HasPrefix(name, "usr/share/man/"), strings.HasPrefix(name, "bin/"):
			t.Errorf("the image has %s", name)
		case strings.HasPrefix(name, "etc/") && !slices.Contains([]string{"etc/", "etc/group", "etc/os-release",
			"etc/passwd", "etc/ssl/", "etc/ssl/certs/", "etc/ssl/certs/ca-certificates.crt"}, name):
			t.Errorf("the image has %s of this machine", name)
		}
	}
}

// names adds the names in an archive, with where links lead.
func names(t *testing.T, archive io.Reader, into map[string]string) {
	t.Helper()
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		into[h.Name] = h.Linkname
	}
}

// TestSources: the bill of materials and the offer of sources name each package of Debian with the package that it was
// built from.
func TestSources(t *testing.T) {
	r := newRelease(t)
	unpacked, err := r.unpackedPackages()
	if err != nil {
		t.Fatal(err)
	}
	packages, err := closureOf([]string{"libc-bin"})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(packages, func(p debianPackage) bool { return p.name == "libc-bin" })
	if at < 0 || packages[at].source != "glibc" || packages[at].sourceVersion == "" {
		t.Fatalf("%+v", packages)
	}
	text := string(r.sources(unpacked, packages))
	for _, line := range []string{"wine64 1:10.0+b2 wine 1:10.0\n",
		"libc-bin " + packages[at].version + " glibc " + packages[at].sourceVersion + "\n"} {
		if !strings.Contains(text, line) {
			t.Errorf("%q is not in %s", line, text)
		}
	}
	if text := string(r.sources(unpacked, nil)); strings.Contains(text, "In the image") {
		t.Errorf("the offer of an archive names packages of the image: %s", text)
	}
	bill, err := r.bill(nil, nil, unpacked, packages)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"pkg:deb/debian/libc-bin@", "built from: glibc " + packages[at].sourceVersion,
		"pkg:deb/debian/wine64@1%3A10.0%2Bb2?distro=trixie", "built from: wine 1:10.0\"", "0123abcd",
		"wine/usr/share/doc/wine64/copyright beside mullion"} {
		if !strings.Contains(string(bill), want) {
			t.Errorf("%q is not in %s", want, bill)
		}
	}
}

// TestImageWithout: a package that is not there is named.
func TestImageWithout(t *testing.T) {
	r := newRelease(t)
	r.packages = []string{"no-such-package"}
	err := r.writeImage(filepath.Join(t.TempDir(), "image.tar"), nil)
	if err == nil || !strings.Contains(err.Error(), "apt-get install no-such-package") {
		t.Errorf("%v", err)
	}
}
