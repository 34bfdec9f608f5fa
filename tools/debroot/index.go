// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed" // for the keys
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/therootcompany/xz"
)

const (
	// suite is the release of Debian with the packages: 13.
	suite = "trixie"
	// indexName is the list of all packages of a component, as the signed list of files (InRelease) calls it.
	indexName = "main/binary-amd64/Packages.xz"
	// maxRelease limits InRelease in bytes, which has 140 kB.
	maxRelease = 4 << 20
	// maxIndex limits the list of packages in bytes, which has 10 MB, and unpacked 60 MB.
	maxIndex = 512 << 20
)

// debianKeys are the public keys of Debian 13's archive.
//
//go:embed debian-13.asc
var debianKeys []byte

// index returns the packages of the list as they are in the mirror's index, if one of the builder's keys signed it.
func (b *builder) index(ctx context.Context) (map[string]pkg, error) {
	m, err := b.mirror()
	if err != nil {
		return nil, err
	}
	const dir = "dists/" + suite + "/"
	message, err := m.get(ctx, dir+"InRelease", maxRelease)
	if err != nil {
		return nil, err
	}
	release, err := signed(message, b.keys)
	if err != nil {
		return nil, fmt.Errorf("%s/%sInRelease: %w: %s", m, dir, err, otherMirror)
	}
	size, sum, err := findFile(release, indexName)
	if err != nil {
		return nil, fmt.Errorf("%s/%sInRelease: %w", m, dir, err)
	}
	data, err := b.fetch(ctx, dir+indexName, size, sum)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, p := range b.list.packages {
		names[p.Name] = true
	}
	unpacked, err := xz.NewReader(bytes.NewReader(data), maxMemory)
	var found map[string]pkg
	if err == nil {
		found, err = findPackages(&limited{unpacked, maxIndex}, names)
	}
	if err != nil {
		return nil, fmt.Errorf("%s/%s: %w", m, dir+indexName, err)
	}
	return found, nil
}

// signed returns the text of a message if one of the armored keys signed it.
func signed(message, keys []byte) ([]byte, error) {
	ring, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(keys))
	if err != nil {
		return nil, fmt.Errorf("read the keys: %w", err)
	}
	block, _ := clearsign.Decode(message)
	if block == nil {
		return nil, errors.New("it is not a signed message")
	}
	if _, err := block.VerifySignature(ring, nil); err != nil {
		return nil, fmt.Errorf("the signature is not one of Debian 13's archive: %w", err)
	}
	return block.Plaintext, nil
}

// findFile returns the size and the SHA-256 checksum of a file in the text of a Release file.
func findFile(release []byte, name string) (size int64, sum string, err error) {
	field, codename := "", ""
	for line := range strings.Lines(string(release)) {
		f := strings.Fields(line)
		switch {
		case !strings.HasPrefix(line, " "):
			var value string
			if field, value, _ = strings.Cut(line, ":"); field == "Codename" {
				codename = strings.TrimSpace(value)
			}
		case field == "SHA256" && len(f) == 3 && f[2] == name:
			sum = f[0]
			if size, err = strconv.ParseInt(f[1], 10, 64); err != nil || size <= 0 || size > maxIndex {
				return 0, "", fmt.Errorf("%s: a size of %s bytes", name, f[1])
			}
		}
	}
	if codename != suite || sum == "" {
		return 0, "", fmt.Errorf("it is the index of %q, not of %s, or it has no SHA-256 checksum of %s",
			codename, suite, name)
	}
	return size, sum, nil
}

// findPackages returns the packages with these names in the text of a Packages file.
func findPackages(r io.Reader, names map[string]bool) (map[string]pkg, error) {
	found := map[string]pkg{}
	var p pkg
	var sizeErr error
	end := func() error {
		defer func() { p = pkg{} }()
		if !names[p.Name] {
			return nil
		}
		if sizeErr != nil {
			return fmt.Errorf("%s: the size: %w", p.Name, sizeErr)
		}
		if found[p.Name].Name != "" {
			return fmt.Errorf("%s stands there twice", p.Name)
		}
		found[p.Name] = p
		return p.check()
	}
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20) // bytes in a line: Depends of some packages has more than Scanner's 64 KiB
	for s.Scan() {
		field, value, _ := strings.Cut(s.Text(), ": ")
		switch field {
		case "":
			if err := end(); err != nil {
				return nil, err
			}
		case "Package":
			p.Name = value
		case "Version":
			p.Version = value
		case "Architecture":
			p.arch = value
		case "Filename":
			p.path = value
		case "SHA256":
			p.SHA256 = value
		case "Size":
			p.size, sizeErr = strconv.ParseInt(value, 10, 64)
		}
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	return found, end()
}
