// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"
)

const (
	// maxStream limits the unpacked archive of one package in bytes: that of libwine has 761 MB.
	maxStream = 4 << 30
	// maxMemory limits the window of a decompressor in bytes: dpkg's largest are xz -9, 64 MiB, and zstd -22, 128 MiB.
	maxMemory = 128 << 20
)

// limited fails after left bytes, unlike io.LimitedReader, which ends.
type limited struct {
	r    io.Reader
	left int64
}

func (l *limited) Read(b []byte) (int, error) {
	if l.left <= 0 {
		return 0, errors.New("it is larger than a package may be")
	}
	n, err := l.r.Read(b[:min(int64(len(b)), l.left)])
	l.left -= int64(n)
	return n, err
}

// openDeb returns the files of a package, data.tar; see deb(5) and ar(5).
func openDeb(r io.Reader) (*tar.Reader, error) {
	magic := make([]byte, 8)
	if _, err := io.ReadFull(r, magic); err != nil || string(magic) != "!<arch>\n" {
		return nil, errors.New("it is not a Debian package: it does not begin with !<arch>")
	}
	for first := true; ; first = false {
		header := make([]byte, 60)
		if _, err := io.ReadFull(r, header); err != nil {
			return nil, fmt.Errorf("find the member data.tar: %w", err)
		}
		name := strings.TrimSuffix(strings.TrimRight(string(header[:16]), " "), "/")
		size, err := strconv.ParseInt(strings.TrimRight(string(header[48:58]), " "), 10, 64)
		if err != nil || size < 0 || string(header[58:]) != "`\n" {
			return nil, fmt.Errorf("the member %q has a bad header", name)
		}
		member := io.LimitReader(r, size)
		switch {
		case first:
			version, err := io.ReadAll(io.LimitReader(member, 4))
			if name != "debian-binary" || err != nil || !bytes.HasPrefix(version, []byte("2.")) {
				return nil, fmt.Errorf("it is not a Debian package of version 2: %q has %q", name, version)
			}
		case strings.HasPrefix(name, "data.tar"):
			unpacked, err := decompress(member, path.Ext(name))
			if err != nil {
				return nil, fmt.Errorf("unpack %s: %w", name, err)
			}
			return tar.NewReader(&limited{unpacked, maxStream}), nil
		}
		// The rest of the member, and the byte that makes its size even.
		if _, err := io.Copy(io.Discard, member); err != nil {
			return nil, fmt.Errorf("read the member %s: %w", name, err)
		}
		if _, err := io.CopyN(io.Discard, r, size%2); err != nil {
			return nil, fmt.Errorf("read the member %s: %w", name, err)
		}
	}
}

func decompress(r io.Reader, ext string) (io.Reader, error) {
	switch ext {
	case ".xz":
		return xz.NewReader(r, maxMemory)
	case ".gz":
		return gzip.NewReader(r)
	case ".zst":
		// Without goroutines, so that no one has to close it.
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxMemory))
	case ".tar":
		return r, nil
	}
	return nil, errors.New("the compression is not xz, zst or gz")
}

// unpack writes those files of a package below root that have a place there. left is how many bytes it may write.
func unpack(ctx context.Context, r io.Reader, root *os.Root, left *int64) error {
	files, err := openDeb(r)
	if err != nil {
		return err
	}
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if err := unpackFile(files, h, root, left); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
}

// unpackFile writes one file. Its owner and bits such as setuid are dropped.
func unpackFile(r io.Reader, h *tar.Header, root *os.Root, left *int64) error {
	name := path.Clean(h.Name)
	if !filepath.IsLocal(name) {
		return errors.New("the path leads out of the directory")
	}
	to := place(name)
	switch h.Typeflag {
	case tar.TypeDir:
		return nil
	case tar.TypeReg, tar.TypeSymlink, tar.TypeLink:
	default:
		return fmt.Errorf("a file of type %q, neither a file, a directory nor a link", h.Typeflag)
	}
	if to == "" {
		return nil
	}
	if err := root.MkdirAll(path.Dir(to), 0o755); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeSymlink:
		if path.IsAbs(h.Linkname) || !filepath.IsLocal(path.Join(path.Dir(to), h.Linkname)) {
			return fmt.Errorf("the link to %s leads out of the directory", h.Linkname)
		}
		return root.Symlink(h.Linkname, to)
	case tar.TypeLink:
		from := path.Clean(h.Linkname)
		if !filepath.IsLocal(from) || place(from) == "" {
			return fmt.Errorf("a link to %s, which is not unpacked", h.Linkname)
		}
		return root.Link(place(from), to)
	}
	if *left -= h.Size; *left < 0 {
		return errors.New("the packages are larger than they may be")
	}
	f, err := root.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, h.FileInfo().Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return root.Chtimes(to, h.ModTime, h.ModTime)
}
