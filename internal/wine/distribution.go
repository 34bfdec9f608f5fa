// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wine

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sort"
)

// The places where Debian's packages wine64 and libwine put Wine. A runtime repeats
// them below its own directory, because Wine finds its parts relative to its loader.
const (
	loaderPath  = "usr/lib/wine/wine64"
	serverPath  = "usr/lib/wine/wineserver64"
	modulesPath = "usr/lib/x86_64-linux-gnu/wine"
	pePath      = modulesPath + "/x86_64-windows"
	unixPath    = modulesPath + "/x86_64-unix"
	dataPath    = "usr/share/wine"
	fontPath    = dataPath + "/fonts"
	libPath     = "usr/lib/x86_64-linux-gnu"
	linkerPath  = "lib64/ld-linux-x86-64.so.2"
)

// fonts returns the fonts that go to C:\Windows\Fonts.
func fonts() []string {
	return []string{"courier.ttf", "marlett.ttf", "ms_sans_serif.ttf", "symbol.ttf", "system.ttf", "tahoma.ttf",
		"vgafix.fon", "vgasys.fon"}
}

// hostPrograms are the programs that a host runs beside Wine.
func hostPrograms() []string { return []string{"usr/sbin/nft", "usr/sbin/runc", "usr/bin/conmon"} }

// localePath is glibc's locale of LC_ALL=C.UTF-8, without which Wine takes
// file names for ASCII.
const localePath = "usr/lib/locale/C.utf8"

// entry is one file of a runtime: where it comes from and where it goes,
// relative to the runtime's directory.
type entry struct{ from, to string }

// distribution describes Wine and its libraries as Debian's packages have them, in
// a directory (native/packages.txt).
type distribution struct {
	root    string
	entries []entry
}

// findDistribution lists the files below root that a runtime needs: Wine's loader,
// server, modules and code pages, the programs of a host, and the shared libraries,
// which tools/debroot has chosen and checked.
func findDistribution(root string) (*distribution, error) {
	d := &distribution{root: root}
	// In the distribution "wineserver" is a shell script that picks one of two.
	d.add(loaderPath, loaderPath)
	d.add(serverPath, filepath.Dir(serverPath)+"/wineserver")
	for _, name := range hostPrograms() {
		d.add(name, name)
	}
	for _, dir := range []string{unixPath, pePath, dataPath + "/nls", libPath} {
		files, err := os.ReadDir(filepath.Join(root, dir))
		if err != nil {
			return nil, fmt.Errorf("find Wine: %w (run `make build`)", err)
		}
		for _, f := range files {
			if !f.IsDir() {
				name := filepath.Join(dir, f.Name())
				d.add(name, name)
			}
		}
	}
	d.add(dataPath+"/wine.inf", dataPath+"/wine.inf")
	for _, name := range fonts() {
		d.add(filepath.Join(fontPath, name), filepath.Join(fontPath, name))
	}
	d.add(localePath+"/LC_CTYPE", localePath+"/LC_CTYPE")
	d.add(linkerPath, linkerPath)
	d.add(linkerPath, "usr/"+linkerPath) // in a host, lib64 is a link
	return d, nil
}

func (d *distribution) add(from, to string) {
	d.entries = append(d.entries, entry{filepath.Join(d.root, from), to})
}

// hash identifies the content of a runtime: the files of the distribution by
// name, size and time (a package never changes a file without changing its
// time), and our own files by content.
func (d *distribution) hash(own []entry) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "layout %d\n", layoutVersion)
	lines := make([]string, 0, len(d.entries))
	for _, e := range d.entries {
		info, err := os.Stat(e.from)
		if err != nil {
			return "", fmt.Errorf("find Wine: %w (run `make build`)", err)
		}
		lines = append(lines, fmt.Sprintf("%s %d %d\n", e.to, info.Size(), info.ModTime().UnixNano()))
	}
	sort.Strings(lines)
	for _, l := range lines {
		_, _ = h.Write([]byte(l)) // a hash does not fail
	}
	for _, e := range own {
		data, err := os.ReadFile(e.from)
		if err != nil {
			return "", fmt.Errorf("hash our DLLs: %w", err)
		}
		fmt.Fprintf(h, "%s %x\n", e.to, sha256.Sum256(data))
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}
