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
	"slices"
	"sort"
	"strings"
)

// The places where Debian's and Ubuntu's packages wine64 and libwine put
// Wine (both build from the same packaging). A runtime repeats them below its
// own directory, because Wine finds its parts relative to its loader.
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

// skippedUnix returns the Unix halves of modules for screens, sound, printers and
// devices, which no Windows container has. The PE halves of the same name go
// with them, and with these the libraries of a desktop.
func skippedUnix() []string {
	return []string{
		"avicap32", "capi2032", "ctapi32", "dwrite", "gphoto2", "localspl", "odbc32", "opencl", "opengl32",
		"qcap", "winealsa", "winebus", "winegstreamer", "winepulse", "wineusb", "winevulkan", "winex11",
		"winspool", "wpcap",
	}
}

// skippedPE are name patterns (filepath.Match) of PE modules that are only of
// use with a screen, sound, a game controller or a browser. The remainder is
// imported by server programs; a missing module is reported at the start of a
// program that needs it.
func skippedPE() []string {
	return []string{
		"avicap32.*", "capi2032.*", "ctapi32.*", "gphoto2.*", "localspl.*", "opencl.*", "opengl32.*",
		"qcap.*", "winealsa.*", "winebus.*", "winegstreamer.*", "winepulse.*", "wineusb.*",
		"winevulkan.*", "winex11.*", "wpcap.*", "wineps.*", "vulkan-1.*", "glu32.*",
		"d3d*", "ddraw*", "dxgi*", "dxdiag*", "dxva*", "dxtrans*", "dx8vb*", "d2d1*", "dwrite*", "wined3d*", "dcomp*",
		"dplay*", "dpn*", "dpv*", "dpwsockx*", "dm[bcilsu][!p]*", "dsound*", "dswave*", "dsdmo*", "devenum*", "quartz*",
		"x3daudio*", "xactengine*", "xapofx*", "xaudio*", "xinput*", "dinput*", "winexinput*", "winehid*", "hid*.sys",
		"mf.*", "mf3216*", "mfmedia*", "mfplat*", "mfplay*", "mfreadwrite*", "mfsrcsnk*", "mp3dmod*", "msmpeg*", "wmp*",
		"wmvcore*", "wmasf*", "mciavi*", "mcicda*", "mciqtz*", "mciseq*", "mciwave*", "msacm32.drv", "*.acm", "*.ax",
		"iccvid*", "msvidc*", "msrle*", "l3codec*", "mshtml*", "ieframe*", "iexplore*", "jscript*", "vbscript*",
		"inetcpl*", "hhctrl*", "hh.exe", "dhtmled*", "ieproxy*", "winemine*", "wordpad*", "notepad*", "winefile*",
		"winhlp32*", "clock.exe", "view.exe", "write.exe", "taskmgr*", "oleview*", "winecfg*", "wine*menubuilder*",
		"joy.cpl", "irprops*", "bthprops*", "appwiz*", "inetcomm*", "*.ds", "sane*", "twain*", "wiaservc*", "sti.*",
		"evr.*", "amstream*", "qasf*", "qdvd*", "qedit*", "strmdll*", "msdmo*", "gameux*", "sapi*", "uianimation*",
		"uiribbon*", "wing32*", "windows.gaming*", "windows.media*", "mscorwks*", "ngen*", "regasm*", "regsvcs*",
		"aspnet*", "presentationfont*", "fusion*",
		// Wine would start explorer.exe for the desktop of the first program that
		// has a message queue. Windows Server Core has no explorer.exe, and without
		// it the server makes the desktop's window itself
		// (dlls/win32u/winstation.c, get_desktop_window).
		"explorer.exe",
		"*.msstyles", "wmphoto*", "xps*", "prntvpt*", "tapi32*", "msvc[rpm]d*", "unicows*", "ctl3d*", "msftedit*",
		"riched*", "explorerframe*",
	}
}

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

// localePath is glibc's locale of LC_ALL=C.UTF-8, without which Wine takes
// file names for ASCII.
const localePath = "usr/lib/locale/C.utf8"

// entry is one file of a runtime: where it comes from and where it goes,
// relative to the runtime's directory.
type entry struct{ from, to string }

// distribution describes the Wine that is installed on this machine. root is
// "/" except in tests.
type distribution struct {
	root    string
	entries []entry
}

// findDistribution lists the files of the installed Wine that a runtime needs:
// loader, server, modules, code pages, and the shared libraries behind them.
func findDistribution(root string) (*distribution, error) {
	d := &distribution{root: root}
	for _, p := range []string{loaderPath, serverPath} {
		if _, err := os.Stat(filepath.Join(root, p)); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("find Wine: %w (install the package wine64)", err)
			}
			return nil, fmt.Errorf("find Wine: %w", err)
		}
	}
	// In the distribution "wineserver" is a shell script that picks one of two.
	d.add(loaderPath, loaderPath)
	d.add(serverPath, filepath.Dir(serverPath)+"/wineserver")

	elves := []string{filepath.Join(root, loaderPath), filepath.Join(root, serverPath)}
	unix, err := d.list(unixPath, func(name string) bool {
		return strings.HasSuffix(name, ".so") && !slices.Contains(skippedUnix(), strings.TrimSuffix(name, ".so"))
	})
	if err != nil {
		return nil, err
	}
	for _, name := range unix {
		d.add(filepath.Join(unixPath, name), filepath.Join(unixPath, name))
		elves = append(elves, filepath.Join(root, unixPath, name))
	}
	pe, err := d.list(pePath, func(name string) bool { return !matchesAny(skippedPE(), name) })
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
			return nil, fmt.Errorf("find Wine: %w (install the package fonts-wine)", err)
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

// has reports whether the distribution has its own file at a place in the runtime.
func (d *distribution) has(to string) bool {
	return slices.ContainsFunc(d.entries, func(e entry) bool { return e.to == to })
}

// matchesAny reports whether name matches one of the patterns. A bad pattern
// is a mistake in the table above, which a test looks at.
func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := filepath.Match(p, name)
		return err == nil && ok
	})
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
