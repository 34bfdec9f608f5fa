// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// wineDir is the directory with Wine and the other packages of Debian 13 that tools/debroot has unpacked.
const wineDir = "wine/"

// wineDistro is the name of their distribution in package URLs.
const wineDistro = "trixie"

// rebuilt matches the end of a version that Debian built again from the same source package.
var rebuilt = regexp.MustCompile(`\+b[0-9]+$`)

// unpackedPackages returns the packages that tools/debroot has unpacked, in the order of their names.
func (r release) unpackedPackages() ([]debianPackage, error) {
	name := filepath.Join(r.bin, wineDir, "packages.json")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("%w: run 'make build'", err)
	}
	var record struct {
		Packages []struct{ Name, Version, SHA256 string }
	}
	if err := json.Unmarshal(text, &record); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	sources, err := r.sourceNames()
	if err != nil {
		return nil, err
	}
	all := make([]debianPackage, 0, len(record.Packages))
	for _, p := range record.Packages {
		if sources[p.Name] == "" {
			return nil, fmt.Errorf("%s has %s, and native/packages.txt does not: run 'make build'", name, p.Name)
		}
		terms := filepath.Join(r.bin, wineDir, "usr/share/doc", p.Name, "copyright")
		if _, err := os.Stat(terms); err != nil {
			return nil, fmt.Errorf("find the licence of %s: %w", p.Name, err)
		}
		all = append(all, debianPackage{name: p.Name, version: p.Version, sum: p.SHA256, source: sources[p.Name],
			sourceVersion: rebuilt.ReplaceAllString(p.Version, "")})
	}
	return all, nil
}

// sourceNames returns the name of the source package of each package in native/packages.txt. Debian's archive keeps
// packages in directories of this name (pool/main/w/wine).
func (r release) sourceNames() (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(r.root, "native/packages.txt"))
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for line := range strings.Lines(string(text)) {
		// The name, the version, the architecture, the path and more; see tools/debroot.
		if f := strings.Fields(line); len(f) > 3 && f[0] != "#" {
			names[f[0]] = path.Base(path.Dir(f[3]))
		}
	}
	return names, nil
}

// sources returns the offer of the source of the packages of Debian in a release, as the GNU licences require it with
// programs (GPL-2.0 section 3b, GPL-3.0 section 6b), with a line for each package. Only an image has installed ones.
func (r release) sources(unpacked, installed []debianPackage) []byte {
	var text strings.Builder
	fmt.Fprintf(&text, `mullion %s contains unmodified files of packages of Debian. Some packages are under the GNU
General Public License or the GNU Lesser General Public License.

You get the complete source of each package from Debian, under the name and the version of
its source package below:

    apt-get source SOURCE=VERSION

Debian's snapshot archive keeps versions that Debian has replaced. If you cannot get a source
there, the authors of mullion give it to everyone, for three years after the release, for no
more than the cost of the copy: open an issue at https://%s.

In the directory wine beside the program mullion, from Debian 13 (%s); the licences are in
usr/share/doc/PACKAGE/copyright below that directory:

`, r.version, own, wineDistro)
	table(&text, unpacked)
	if len(installed) > 0 {
		fmt.Fprint(&text, "\nIn the image; the licences are in /usr/share/doc/PACKAGE/copyright:\n\n")
		table(&text, installed)
	}
	return []byte(text.String())
}

func table(text *strings.Builder, packages []debianPackage) {
	fmt.Fprintln(text, "PACKAGE VERSION SOURCE VERSION")
	for _, p := range packages {
		fmt.Fprintln(text, p.name, p.version, p.source, p.sourceVersion)
	}
}
