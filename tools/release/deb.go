// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// needs are the packages of Debian and Ubuntu that a cluster needs beside the release: the packages in hack/deps that
// are not for building.
var needs = []string{"ca-certificates", "e2fsprogs", "iproute2", "nftables", "runc"}

// writeDeb writes a Debian package: the programs in /usr/lib/mullion, and mullion
// in the path. dpkg-deb(1) packs it.
func (r release) writeDeb(name string, files []entry) (err error) {
	tree, err := os.MkdirTemp(filepath.Dir(name), ".deb-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tree)) }()
	if err := r.layOut(tree, files); err != nil {
		return err
	}
	cmd := exec.Command("dpkg-deb", "--build", "--root-owner-group", "-Zgzip", "-z"+strconv.Itoa(r.level), tree, name)
	// dpkg-deb takes later times of files back to this one.
	cmd.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.date.Unix()))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("dpkg-deb: %w: %s", err, out)
	}
	return nil
}

// layOut makes the tree of files that dpkg-deb packs.
func (r release) layOut(tree string, files []entry) error {
	if err := os.Chmod(tree, 0o755); err != nil {
		return err
	}
	var size int64 // in bytes
	for _, e := range files {
		n, err := e.copyTo(filepath.Join(tree, debPath(e)))
		if err != nil {
			return err
		}
		size += n
	}
	link := filepath.Join(tree, "usr/bin/mullion")
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return err
	}
	if err := os.Symlink("../lib/mullion/mullion", link); err != nil {
		return err
	}
	control := entry{text: []byte(r.control(size)), mode: 0o644}
	_, err := control.copyTo(filepath.Join(tree, "DEBIAN/control"))
	return err
}

// debPath returns where a file of the release is installed.
func debPath(e entry) string {
	switch {
	case e.name == "LICENSE":
		return "usr/share/doc/mullion/copyright"
	// Programs, images that they load, and Wine with its licences.
	case e.mode&0o111 != 0, filepath.Ext(e.name) == ".tar", strings.HasPrefix(e.name, wineDir):
		return "usr/lib/mullion/" + e.name
	}
	return "usr/share/doc/mullion/" + e.name
}

// afterTag matches the output of git describe for a commit after a tag.
var afterTag = regexp.MustCompile(`^v([^-]+(?:-.*?)??)-((?:[0-9]+-)?g[0-9a-f]+(?:-dirty)?)$`)

// debVersion returns a version as dpkg orders them: v1.0.0-rc.1 before v1.0.0, and
// a commit after the tag that it follows.
func debVersion(v string) string {
	added := ""
	if m := afterTag.FindStringSubmatch(v); m != nil {
		v, added = "v"+m[1], "+"+strings.ReplaceAll(m[2], "-", ".")
	}
	tag, pre, isPre := strings.Cut(strings.TrimPrefix(v, "v"), "-")
	if isPre {
		tag += "~" + strings.ReplaceAll(pre, "-", ".")
	}
	return tag + added
}

// control describes the package; see deb-control(5).
func (r release) control(size int64) string {
	return fmt.Sprintf(`Package: mullion
Version: %s
Architecture: amd64
Maintainer: The mullion Authors <mullion@localhost>
Installed-Size: %d
Depends: %s
Section: admin
Priority: optional
Description: Kubernetes clusters with emulated Windows nodes on one machine
 mullion runs upstream's control plane and, on emulated Windows hosts,
 upstream's unmodified kubelet.exe, kube-proxy.exe and network plugins.
 It needs neither Windows nor a virtual machine.
 .
 mullion's own licence is Apache-2.0. Wine and other packages of Debian 13 are
 in /usr/lib/mullion/wine, with their licences in usr/share/doc there, and
 /usr/share/doc/mullion/SOURCES.txt offers their sources.
`, debVersion(r.version), (size+1023)/1024, strings.Join(needs, ", "))
}

func (e entry) copyTo(name string) (n int64, err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return 0, err
	}
	if e.mode.Type() == fs.ModeSymlink {
		return 0, os.Symlink(string(e.text), name)
	}
	in, _, err := e.open()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, e.mode)
	if err != nil {
		return 0, err
	}
	n, err = io.Copy(out, in)
	return n, errors.Join(err, out.Chmod(e.mode), out.Close())
}
