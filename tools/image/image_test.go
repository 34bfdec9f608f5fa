// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"debug/elf"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// program is as much of one as is looked at: the headers of ELF.
func program(t *testing.T, machine elf.Machine, dynamic bool) string {
	t.Helper()
	h := elf.Header64{
		Type:      uint16(elf.ET_EXEC),
		Machine:   uint16(machine),
		Version:   1,
		Phoff:     64,
		Ehsize:    64,
		Phentsize: 56,
		Phnum:     1,
	}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB),
		byte(elf.EV_CURRENT)
	p := elf.Prog64{Type: uint32(elf.PT_LOAD)}
	if dynamic {
		p.Type = uint32(elf.PT_INTERP)
	}
	var b bytes.Buffer
	for _, part := range []any{h, p} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, b.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

func make1(t *testing.T) (file, digest string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "i.tar")
	digest, err := build(file, "mullion/mullion:v1.2.3", "", []string{"linux/amd64=" + program(t, elf.EM_X86_64, false),
		"linux/arm64=" + program(t, elf.EM_AARCH64, false)})
	if err != nil {
		t.Fatal(err)
	}
	return file, digest
}

func TestReproducible(t *testing.T) {
	a, digestA := make1(t)
	b, digestB := make1(t)
	x, err := os.ReadFile(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := os.ReadFile(b)
	if err != nil {
		t.Fatal(err)
	}
	if digestA != digestB || !bytes.Equal(x, y) {
		t.Errorf("%s, %s: %d and %d bytes", digestA, digestB, len(x), len(y))
	}
}

// unpack lays the archive out as tools that read layouts do.
func unpack(t *testing.T, file string) string {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, h.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLayout(t *testing.T) {
	file, digest := make1(t)
	index, err := layout.ImageIndexFromPath(unpack(t, file))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	m, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Manifests) != 1 || m.Manifests[0].Digest.String() != digest ||
		!strings.HasSuffix(m.Manifests[0].Annotations["io.containerd.image.name"], "/mullion/mullion:v1.2.3") ||
		m.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "v1.2.3" {
		t.Errorf("%+v", m.Manifests)
	}
	inner, err := index.ImageIndex(m.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	of, err := inner.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	img, err := inner.Image(of.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	check(t, img)
	if p := of.Manifests[0].Platform; p == nil || p.String() != "linux/amd64" {
		t.Errorf("platform %v", p)
	}
}

func TestDockerLoad(t *testing.T) {
	file, _ := make1(t)
	img, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	check(t, img)
	m, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(file) })
	if err != nil {
		t.Fatal(err)
	}
	if len(m) != 1 || len(m[0].RepoTags) != 1 || m[0].RepoTags[0] != "mullion/mullion:v1.2.3" {
		t.Errorf("%+v", m)
	}
}

func check(t *testing.T, img v1.Image) {
	t.Helper()
	if err := validate.Image(img); err != nil {
		t.Error(err)
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if cfg.OS != "linux" || cfg.Architecture != "amd64" || cfg.Config.User != user || len(cfg.Config.Entrypoint) != 1 ||
		!cfg.Created.Equal(epoch()) {
		t.Errorf("%+v", cfg)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	r, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var names []string
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err != nil {
			break // the end, or what validate has told
		}
		if !h.ModTime.Equal(epoch()) || h.Uid != 0 {
			t.Errorf("%+v", h)
		}
		names = append(names, h.Name)
	}
	if strings.Join(names, " ") != "etc/ etc/ssl/ etc/ssl/certs/ etc/ssl/certs/ca-certificates.crt tmp/ mullion" {
		t.Error(names)
	}
}

func TestAuthorities(t *testing.T) {
	rest, n := authorities(), 0
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			t.Error(err)
		}
		n++
	}
	if n < 100 || len(rest) > 0 {
		t.Errorf("%d authorities, %d bytes behind them", n, len(rest))
	}
}

func TestBadPrograms(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	good := program(t, elf.EM_X86_64, false)
	for args, want := range map[string]string{
		"linux/amd64=/nonexistent":                       "no such file",
		"linux/amd64=" + text:                            "read ",
		"linux/arm64=" + good:                            "not for arm64",
		"linux/riscv64=" + good:                          "not for riscv64",
		"linux=" + good:                                  "OS/ARCH=PROGRAM",
		"linux/amd64":                                    "OS/ARCH=PROGRAM",
		"linux/amd64=" + program(t, elf.EM_X86_64, true): "dynamic linker",
	} {
		if _, err := build(filepath.Join(t.TempDir(), "o"), "a:b", "", []string{args}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
