// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// system are the packages of an image in addition to mullion's dependencies: a shell and the tools that its users
// expect.
var system = []string{"base-files", "bash", "coreutils", "grep", "libc-bin", "procps", "util-linux"}

// left are the directories of packages that no program of the image reads. Files in /etc have changes of the build
// machine, and may be secret.
var left = []string{"etc/", "usr/share/bash-completion/", "usr/share/doc-base/", "usr/share/info/",
	"usr/share/lintian/", "usr/share/locale/", "usr/share/man/"}

// debianPackage is a package of Debian, and the source package that it was built from.
type debianPackage struct {
	name, version, source, sourceVersion string
	qualified                            string // of an installed one: the name, with the architecture if dpkg needs it
	sum                                  string // of an unpacked one: the SHA-256 checksum of the .deb file
}

// packageFiles returns the files of installed packages. The image's distribution is the machine's.
func packageFiles(packages []debianPackage) (files []entry, err error) {
	args := []string{"-L"}
	for _, p := range packages {
		args = append(args, p.qualified)
	}
	list, err := output("dpkg-query", args...)
	if err != nil {
		return nil, err
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
			return nil, err
		}
		files = append(files, e)
	}
	authorities, err := authorities(files)
	if err != nil {
		return nil, err
	}
	return append(files, authorities), nil
}

// closureOf returns the installed packages that these depend on, themselves included, in the order of their names.
func closureOf(packages []string) ([]debianPackage, error) {
	all, err := output("dpkg-query", "-W", "-f",
		"${db:Status-Status} ${binary:Package} ${Package} ${Version} ${source:Package} ${source:Version}\n")
	if err != nil {
		return nil, err
	}
	have := map[string]debianPackage{}
	for line := range strings.Lines(all) {
		if f := strings.Fields(line); len(f) == 6 && f[0] == "installed" && have[f[2]].name == "" {
			have[f[2]] = debianPackage{qualified: f[1], name: f[2], version: f[3], source: f[4],
				sourceVersion: f[5]}
		}
	}
	for _, p := range packages {
		if have[p].name == "" {
			return nil, fmt.Errorf("package %s is not installed, and an image has it: 'apt-get install %[1]s'", p)
		}
	}
	tree, err := output("apt-cache", append([]string{"depends", "--recurse", "--installed", "--no-recommends",
		"--no-suggests", "--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances"}, packages...)...)
	if err != nil {
		return nil, err
	}
	closure := map[string]debianPackage{}
	for line := range strings.Lines(tree) {
		// Packages stand at the begin of a line, with their dependencies below. Other architectures' have a colon.
		if p := strings.TrimSpace(line); !strings.HasPrefix(line, " ") && have[p].name != "" {
			closure[p] = have[p]
		}
	}
	return slices.SortedFunc(maps.Values(closure), func(a, b debianPackage) int {
		return strings.Compare(a.name, b.name)
	}), nil
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

// output runs a read-only program.
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
