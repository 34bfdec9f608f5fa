// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/windows"
)

// drive checks that C:\ of a container has the same content as on Windows, beside
// the files of the arguments, and that a Unix path means drive C, as its first
// slash is a backslash to Windows.
func drive(t *probe) {
	volumes(t)
	want := append([]string{"Program Files", "Program Files (x86)", "ProgramData", "Users", "Windows"}, os.Args[2:]...)
	slices.Sort(want)
	listed := map[string][]string{"FindFirstFile": find(t, `C:\*`), "with slash": find(t, "/*")}
	entries, err := os.ReadDir(`C:\`)
	t.must(err)
	for _, e := range entries {
		listed["os.ReadDir"] = append(listed["os.ReadDir"], e.Name())
	}
	for by, got := range listed {
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.errorf("%s: C:\\ holds %q, want %q", by, got, want)
		}
	}
	if got := find(t, `c:\WINDOWS`); !slices.Equal(got, []string{"Windows"}) {
		t.errorf("C:\\windows is spelled %q", got)
	}
	name, err := windows.UTF16PtrFromString(`C:\ProgramData`)
	t.must(err)
	if a, err := windows.GetFileAttributes(name); err != nil || a&windows.FILE_ATTRIBUTE_HIDDEN == 0 {
		t.errorf("C:\\ProgramData has attributes %#x, %v; want hidden", a, err)
	}
	data, err := os.ReadFile(`C:\Windows\System32\drivers\etc\hosts`)
	if err != nil {
		t.errorf("%v", err)
	}
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "#") || !strings.HasSuffix(line, "\r\n") {
			t.errorf("the hosts file has the line %q", line)
		}
	}
	unixPaths(t)
	hidden(t)
}

// find lists the results of FindFirstFile, without . and ..
func find(t *probe, mask string) []string {
	p, err := windows.UTF16PtrFromString(mask)
	t.must(err)
	var data windows.Win32finddata
	h, err := windows.FindFirstFile(p, &data)
	t.must(err)
	defer windows.FindClose(h)
	var out []string
	for err == nil {
		if name := windows.UTF16ToString(data.FileName[:]); strings.Trim(name, ".") != "" {
			out = append(out, name)
		}
		err = windows.FindNextFile(h, &data)
	}
	return out
}

// unixPaths uses directories that Linux has, too.
func unixPaths(t *probe) {
	for _, dir := range []string{
		"/dev", "/etc", "/run", "/usr", "/var", "/proc", "/sys", "/tmp", "/lib64", "/dev/shm",
	} {
		windowsDir := `C:` + filepath.FromSlash(dir)
		if _, err := os.Stat(windowsDir); !errors.Is(err, os.ErrNotExist) {
			t.errorf("%s exists: %v", windowsDir, err)
		}
		err := os.WriteFile(dir+"/file", nil, 0o600)
		if !errors.Is(err, windows.ERROR_PATH_NOT_FOUND) {
			t.errorf("write %s/file: %v; want ERROR_PATH_NOT_FOUND", dir, err)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.errorf("%v", err)
			continue
		}
		if err := os.WriteFile(dir+"/file", []byte("text"), 0o600); err != nil {
			t.errorf("%v", err)
		}
		if data, err := os.ReadFile(windowsDir + `\file`); err != nil || string(data) != "text" {
			t.errorf("%s\\file: %q, %v", windowsDir, data, err)
		}
		if full, err := filepath.Abs(dir + "/file"); err != nil || full != windowsDir+`\file` {
			t.errorf("full path of %s/file is %q, %v", dir, full, err)
		}
		if got := find(t, dir+"/*"); !slices.Equal(got, []string{"file"}) {
			t.errorf("%s holds %q", dir, got)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.errorf("%v", err)
		}
	}
}

// hidden tries to open the Linux files that Wine needs.
func hidden(t *probe) {
	for _, p := range []string{
		`\\?\unix\proc\self\mountinfo`, `\\.\unix\proc\self\mountinfo`,
		`\\?\UNIX\proc\self\mountinfo`, `\\?\unix\etc\passwd`,
		`\\?\unix\usr\lib\wine\wine64`, `\\?\unix\.wine\system.reg`, `\\?\unix\`, `\\?\unix`,
		`\\?\GLOBALROOT\??\unix\etc\passwd`, `\\?\C:\..\system.reg`, `C:\..\system.reg`, `C:\.wine\system.reg`,
	} {
		if data, err := os.ReadFile(p); err == nil {
			t.errorf("read %s: %d bytes", p, len(data))
		}
		if _, err := os.Stat(p); err == nil {
			t.errorf("%s exists", p)
		}
		if entries, err := os.ReadDir(p); err == nil {
			t.errorf("listed %s: %v", p, entries)
		}
	}
}

// volumes opens files by the names that the volume gives them. Source: Naming Files, Paths, and Namespaces,
// https://learn.microsoft.com/windows/win32/fileio/naming-a-file, read 2026-11.
func volumes(t *probe) {
	t.must(os.WriteFile(`C:\Windows\Temp\by volume`, []byte("content"), 0o644))
	f, err := os.Open(`C:\Windows\Temp\by volume`)
	t.must(err)
	defer f.Close()
	const nameOfVolume = 2 // VOLUME_NAME_NT
	name := make([]uint16, 300)
	n, err := windows.GetFinalPathNameByHandle(windows.Handle(f.Fd()), &name[0], uint32(len(name)), nameOfVolume)
	t.must(err)
	path := `\\?\GLOBALROOT` + windows.UTF16ToString(name[:n])
	if !strings.HasPrefix(path, `\\?\GLOBALROOT\Device\HarddiskVolume`) {
		t.errorf("the name is %s", path)
	}
	expectContent(t, path, "content")
	if i, err := os.Stat(path); err != nil || i.Size() != 7 {
		t.errorf("Stat(%s): %v, %v", path, i, err)
	}
	if _, err := os.Stat(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.errorf("Stat of a missing file: %v", err)
	}
}
