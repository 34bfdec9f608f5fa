// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// system are the packages of an image besides those that mullion needs: a shell, and what its users expect of one.
var system = []string{"base-files", "bash", "coreutils", "grep", "libc-bin", "procps", "util-linux"}

// left are the directories of packages that no program of the image reads. What is in /etc was changed on the machine
// that builds, and may be secret.
var left = []string{"etc/", "usr/share/bash-completion/", "usr/share/doc-base/", "usr/share/info/",
	"usr/share/lintian/", "usr/share/locale/", "usr/share/man/"}

// zlib is a library that the package libwine makes when it is installed, so that dpkg does not list it.
const zlib = "usr/lib/x86_64-linux-gnu/wine/x86_64-windows/zlib1.dll"

// packageFiles returns the files of packages that are installed on this machine, with those of the packages that they
// depend on, and a list of all with their versions. The image's distribution is that of the machine.
func packageFiles(packages []string) (files []entry, versions string, err error) {
	closure, versions, err := closureOf(packages)
	if err != nil {
		return nil, "", err
	}
	list, err := output("dpkg-query", append([]string{"-L"}, closure...)...)
	if err != nil {
		return nil, "", err
	}
	seen := map[string]bool{}
	for line := range strings.Lines(list) {
		name := inUsr(strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "/"))
		// Lines of diversions do not begin with a slash.
		if !strings.HasPrefix(line, "/") || name == "." || seen[name] || isLeft(name) {
			continue
		}
		seen[name] = true
		e, err := installed(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // an administrator may leave files of packages out (dpkg.cfg, path-exclude)
		}
		if err != nil {
			return nil, "", err
		}
		files = append(files, e)
	}
	if e, err := installed(zlib); err == nil && !seen[zlib] {
		files = append(files, e)
	}
	authorities, err := authorities(files)
	if err != nil {
		return nil, "", err
	}
	return append(files, authorities), versions, nil
}

// closureOf returns the installed packages that these depend on, themselves included, in order.
func closureOf(packages []string) (names []string, versions string, err error) {
	all, err := output("dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version} ${binary:Package}\n")
	if err != nil {
		return nil, "", err
	}
	version, qualified := map[string]string{}, map[string]string{}
	for line := range strings.Lines(all) {
		if f := strings.Fields(line); len(f) == 4 && f[0] == "installed" && version[f[1]] == "" {
			version[f[1]], qualified[f[1]] = f[2], f[3]
		}
	}
	for _, p := range packages {
		if version[p] == "" {
			return nil, "", fmt.Errorf("package %s is not installed, and an image has it: 'apt-get install %[1]s'", p)
		}
	}
	tree, err := output("apt-cache", append([]string{"depends", "--recurse", "--installed", "--no-recommends",
		"--no-suggests", "--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances"}, packages...)...)
	if err != nil {
		return nil, "", err
	}
	for line := range strings.Lines(tree) {
		// Packages stand at the begin of a line, with what they depend on below. Other architectures' have a colon.
		if p := strings.TrimSpace(line); !strings.HasPrefix(line, " ") && version[p] != "" {
			names = append(names, p)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	var text strings.Builder
	for i, p := range names {
		names[i] = qualified[p]
		fmt.Fprintf(&text, "%s %s\n", p, version[p])
	}
	return names, text.String(), nil
}

// inUsr returns the name of a file without the links /bin, /lib and so on, which lead into /usr.
func inUsr(name string) string {
	first, _, _ := strings.Cut(name, "/")
	switch first {
	case "bin", "sbin", "lib", "lib32", "lib64", "libx32":
		return "usr/" + name
	}
	return name
}

func isLeft(name string) bool {
	if strings.HasPrefix(name, "usr/share/doc/") && !strings.HasSuffix(name, "/copyright") {
		return true
	}
	return slices.ContainsFunc(left, func(dir string) bool { return strings.HasPrefix(name+"/", dir) })
}

// installed describes a file of this machine.
func installed(name string) (entry, error) {
	path := "/" + name
	info, err := os.Lstat(path)
	if err != nil {
		return entry{}, err
	}
	e := entry{name: name, source: path, mode: info.Mode()}
	switch info.Mode().Type() {
	case 0:
	case fs.ModeDir:
		e.name += "/"
	case fs.ModeSymlink:
		to, err := os.Readlink(path)
		if err != nil {
			return entry{}, err
		}
		e.source, e.text = "", []byte(to)
	default:
		return entry{}, fmt.Errorf("%s is %s: an image has files, directories and links only", path, info.Mode())
	}
	return e, nil
}

// authorities returns the file of certificates that update-ca-certificates(8) makes, of all that the package has.
func authorities(files []entry) (entry, error) {
	var all bytes.Buffer
	for _, e := range files {
		if !strings.HasPrefix(e.name, "usr/share/ca-certificates/") || filepath.Ext(e.name) != ".crt" {
			continue
		}
		data, err := os.ReadFile(e.source)
		if err != nil {
			return entry{}, err
		}
		all.Write(append(bytes.TrimSpace(data), '\n'))
	}
	return entry{name: "etc/ssl/certs/ca-certificates.crt", text: all.Bytes(), mode: 0o644}, nil
}

// output runs a program that changes nothing.
func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %.1000s", name, err, stderr.String())
	}
	return string(out), nil
}
