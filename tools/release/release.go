// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// release describes the files to pack.
type release struct {
	bin     string // the directory of the programs
	root    string // the directory of the sources
	version string // semantic
	date    time.Time
	level   int    // of compression
	only    string // "archive", "deb" or "image"; "" for all
	// packages are the machine's packages that the image contains.
	packages []string
}

// entry is a file of the release. Its name is relative, with slashes.
type entry struct {
	name   string
	source string // a file; "" if the content is in text
	text   []byte // of a link, where it leads
	mode   fs.FileMode
}

// isBuilt reports whether the file is a program or a library that `make build` has compiled.
func (e entry) isBuilt() bool {
	return e.mode&0o111 != 0 && e.source != "" && !strings.HasPrefix(e.name, wineDir)
}

// notReleased are the names of files in bin/ for developers only.
var notReleased = []string{"fuzz", "image", "peers", "tools", "vm"}

// ofTests matches the files that make test leaves in bin/: the tests of other projects,
// and profiles.
var ofTests = regexp.MustCompile(`/(critest|[^/]*\.test)(\.exe)?$|\.cover$`)

// write writes the release's files into a directory and returns their names.
func (r release) write(out string) ([]string, error) {
	if err := r.checkVersion(); err != nil {
		return nil, err
	}
	files, err := r.files()
	if err != nil {
		return nil, err
	}
	deps, err := dependencies(files)
	if err != nil {
		return nil, err
	}
	licenses, err := licenses(deps)
	if err != nil {
		return nil, err
	}
	unpacked, err := r.unpackedPackages()
	if err != nil {
		return nil, err
	}
	var installed []debianPackage
	if r.only == "" || r.only == "image" {
		if installed, err = closureOf(r.packages); err != nil {
			return nil, err
		}
	}
	bom, err := r.bill(files, deps, unpacked, installed)
	if err != nil {
		return nil, err
	}
	files = append(files, licenses...)
	files = append(files, entry{name: "mullion.spdx.json", text: bom, mode: 0o644})
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, err
	}
	base := "mullion_" + r.version
	sbom := base + ".spdx.json"
	if err := os.WriteFile(filepath.Join(out, sbom), bom, 0o644); err != nil {
		return nil, err
	}
	names := []string{sbom}
	for _, f := range []struct {
		kind, name string
		write      func(name string, files []entry) error
		sources    []byte
	}{
		{"archive", base + "_linux_amd64.tar.gz", r.writeArchive, r.sources(unpacked, nil)},
		{"deb", base + "_amd64.deb", r.writeDeb, r.sources(unpacked, nil)},
		{"image", base + "_linux_amd64_image.tar", r.writeImage, r.sources(unpacked, installed)},
	} {
		if r.only != "" && r.only != f.kind {
			continue
		}
		offer := entry{name: "SOURCES.txt", text: f.sources, mode: 0o644}
		if err := f.write(filepath.Join(out, f.name), append(slices.Clone(files), offer)); err != nil {
			return nil, fmt.Errorf("write %s: %w", f.name, err)
		}
		names = append(names, f.name)
	}
	return append(names, "SHA256SUMS"), writeSums(out, names)
}

// changelogHeading is the heading of a version in CHANGELOG.md.
var changelogHeading = regexp.MustCompile(`(?m)^## (v[0-9]\S*)`)

// checkVersion returns an error if the version is not semantic, or is a tag without a
// heading in the changelog. A commit between two tags has no heading.
func (r release) checkVersion() error {
	if !semver.IsValid(r.version) {
		return fmt.Errorf("version %q is not semantic, like v0.1.0", r.version)
	}
	text, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	if semver.Prerelease(r.version) != "" {
		return nil
	}
	for _, m := range changelogHeading.FindAllStringSubmatch(string(text), -1) {
		if m[1] == r.version {
			return nil
		}
	}
	return fmt.Errorf("CHANGELOG.md has no heading \"## %s\": say there what changed", r.version)
}

// files lists the release's files except licenses, the bill of materials and the offer of sources.
func (r release) files() ([]entry, error) {
	all, err := r.programs()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "examples"} {
		err := filepath.WalkDir(filepath.Join(r.root, name), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			relative, err := filepath.Rel(r.root, path)
			all = append(all, entry{name: filepath.ToSlash(relative), source: path, mode: 0o644})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// programs lists the output of make build.
func (r release) programs() ([]entry, error) {
	if _, err := os.Stat(filepath.Join(r.bin, "mullion")); err != nil {
		return nil, fmt.Errorf("%w: run 'make build'", err)
	}
	var all []entry
	err := filepath.WalkDir(r.bin, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(r.bin, path)
		if err != nil {
			return err
		}
		if d.IsDir() && relative != "." && (d.Name()[0] == '.' || slices.Contains(notReleased, relative)) {
			return fs.SkipDir
		}
		if d.IsDir() || ofTests.MatchString(path) {
			return nil
		}
		e := entry{name: filepath.ToSlash(relative), source: path, mode: 0o755}
		switch {
		case strings.HasPrefix(e.name, wineDir):
			e, err = unpackedEntry(e, d)
		case filepath.Ext(path) == ".tar":
			e.mode = 0o644 // an image, not a program
		}
		all = append(all, e)
		return err
	})
	return all, err
}

// unpackedEntry completes the entry of a file of a Debian package.
func unpackedEntry(e entry, d fs.DirEntry) (entry, error) {
	switch d.Type() {
	case 0:
		info, err := d.Info()
		if err != nil {
			return entry{}, err
		}
		if info.Mode()&0o111 == 0 {
			e.mode = 0o644
		}
		return e, nil
	case fs.ModeSymlink:
		to, err := os.Readlink(e.source)
		return entry{name: e.name, text: []byte(to), mode: fs.ModeSymlink}, err
	}
	return entry{}, fmt.Errorf("%s is %s: a package has files, directories and links only", e.source, d.Type())
}

func (e entry) open() (io.ReadCloser, int64, error) {
	if e.source == "" {
		return io.NopCloser(strings.NewReader(string(e.text))), int64(len(e.text)), nil
	}
	f, err := os.Open(e.source)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// sum returns the SHA-256 of a file, in hexadecimal.
func (e entry) sum() (sum string, err error) {
	r, _, err := e.open()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// writeSums writes SHA256SUMS as sha256sum(1) does.
func writeSums(dir string, names []string) error {
	var text strings.Builder
	for _, name := range slices.Sorted(slices.Values(names)) {
		sum, err := entry{source: filepath.Join(dir, name)}.sum()
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s  %s\n", sum, name)
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(text.String()), 0o644)
}
