// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wine

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
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

// dlopened are libraries that are loaded by name, if they are there: by glibc
// to end a thread (libgcc), by win32u.so (FreeType: without it Wine complains
// on every program's standard error; fontconfig: without it win32u.so calls a
// null pointer as it starts, and no thread gets a message queue or a window
// station), and by secur32.so and bcrypt.so (GnuTLS: the TLS of schannel, the
// ciphers of bcrypt.dll).
func dlopened() []string {
	return []string{"libgcc_s.so.1", "libfreetype.so.6", "libfontconfig.so.1", "libgnutls.so.30"}
}

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
// server, modules and code pages, the programs of a host, and the shared libraries
// behind them.
func findDistribution(root string) (*distribution, error) {
	d := &distribution{root: root}
	for _, p := range []string{loaderPath, serverPath} {
		if _, err := os.Stat(filepath.Join(root, p)); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("find Wine: %w (run `make build`)", err)
			}
			return nil, fmt.Errorf("find Wine: %w", err)
		}
	}
	// In the distribution "wineserver" is a shell script that picks one of two.
	d.add(loaderPath, loaderPath)
	d.add(serverPath, filepath.Dir(serverPath)+"/wineserver")

	elves := []string{filepath.Join(root, loaderPath), filepath.Join(root, serverPath)}
	for _, name := range hostPrograms() {
		d.add(name, name)
		elves = append(elves, filepath.Join(root, name))
	}
	unix, err := d.list(unixPath, func(name string) bool {
		return strings.HasSuffix(name, ".so")
	})
	if err != nil {
		return nil, err
	}
	for _, name := range unix {
		d.add(filepath.Join(unixPath, name), filepath.Join(unixPath, name))
		elves = append(elves, filepath.Join(root, unixPath, name))
	}
	pe, err := d.list(pePath, func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	for _, name := range pe {
		d.add(filepath.Join(pePath, name), filepath.Join(pePath, name))
	}
	nls, err := d.list(dataPath+"/nls", func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	for _, name := range nls {
		d.add(filepath.Join(dataPath, "nls", name), filepath.Join(dataPath, "nls", name))
	}
	d.add(dataPath+"/wine.inf", dataPath+"/wine.inf")
	for _, name := range fonts() {
		d.add(filepath.Join(fontPath, name), filepath.Join(fontPath, name))
		if _, err := os.Stat(filepath.Join(root, fontPath, name)); err != nil {
			return nil, fmt.Errorf("find Wine: %w (run `make build`)", err)
		}
	}
	d.add(localePath+"/LC_CTYPE", localePath+"/LC_CTYPE")

	libs, err := sharedLibraries(root, elves, dlopened())
	if err != nil {
		return nil, err
	}
	for _, lib := range libs {
		d.entries = append(d.entries, entry{lib, filepath.Join(libPath, filepath.Base(lib))})
	}
	d.add(linkerPath, linkerPath)
	d.add(linkerPath, "usr/"+linkerPath) // in a host, lib64 is a link
	return d, nil
}

func (d *distribution) add(from, to string) {
	d.entries = append(d.entries, entry{filepath.Join(d.root, from), to})
}

func (d *distribution) list(dir string, keep func(name string) bool) ([]string, error) {
	infos, err := os.ReadDir(filepath.Join(d.root, dir))
	if err != nil {
		return nil, fmt.Errorf("find Wine: %w", err)
	}
	var names []string
	for _, i := range infos {
		if !i.IsDir() && keep(i.Name()) {
			names = append(names, i.Name())
		}
	}
	return names, nil
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
			return "", fmt.Errorf("hash Wine: %w", err)
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

// sharedLibraries resolves the dependencies of the ELF files, recursively, by the
// directories that Debian's dynamic linker looks in. Libraries of optional that are
// not installed are left out.
func sharedLibraries(root string, files, optional []string) ([]string, error) {
	dirs := []string{libPath, "lib/x86_64-linux-gnu", "lib64", "usr/lib"}
	find := func(soname string) string {
		for _, dir := range dirs {
			p := filepath.Join(root, dir, soname)
			if _, err := os.Stat(p); err == nil {
				return p
			}
		}
		return ""
	}
	var found []string
	seen := map[string]bool{}
	var queue []string
	want := func(sonames []string, by string, needed bool) error {
		for _, s := range sonames {
			if seen[s] || strings.HasPrefix(s, "ld-linux") { // the linker is placed by its path
				continue
			}
			seen[s] = true
			if _, err := os.Stat(filepath.Join(root, unixPath, s)); err == nil {
				continue // a module of Wine that needs another one
			}
			p := find(s)
			if p == "" && needed {
				return fmt.Errorf("find libraries: %s needs %s, which is in none of %v", by, s, dirs)
			}
			if p != "" {
				found = append(found, p)
				queue = append(queue, p)
			}
		}
		return nil
	}
	if err := want(optional, "", false); err != nil {
		return nil, err
	}
	queue = append(queue, files...)
	for len(queue) > 0 {
		file := queue[0]
		queue = queue[1:]
		needs, err := needed(file)
		if err != nil {
			return nil, err
		}
		if err := want(needs, file, true); err != nil {
			return nil, err
		}
	}
	sort.Strings(found)
	return found, nil
}

func needed(path string) ([]string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	defer func() { _ = f.Close() }() // opened for reading
	libs, err := f.ImportedLibraries()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return libs, nil
}
