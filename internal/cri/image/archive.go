// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// archive is a spooled image archive: every file of the tar lies in a directory
// of the store under a number, so that no name of the archive ever reaches the
// file system.
type archive struct {
	dir   string
	files map[string]archiveFile // by clean name
	links map[string]string      // docker save before 25 links equal layers
}

type archiveFile struct {
	path   string
	digest string
	size   int64
}

// maxArchiveFiles bounds the files of an archive; images of 127 layers have
// about 400.
const maxArchiveFiles = 10_000

// spool reads a whole archive. A tar has no index, and index.json usually comes
// last.
func (s *Store) spool(ctx context.Context, r io.Reader) (_ *archive, err error) {
	dir, err := os.MkdirTemp(s.ingest(), "archive-*")
	if err != nil {
		return nil, err
	}
	ar := &archive{dir: dir, files: map[string]archiveFile{}, links: map[string]string{}}
	defer func() {
		if err != nil {
			ar.remove()
		}
	}()
	plain, err := decompress(r)
	if err != nil {
		return nil, err
	}
	defer plain.Close() // releases the decoder's memory
	left := s.cfg.Limits.ArchiveBytes
	tr := tar.NewReader(plain)
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		hdr, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return ar, drain(r, s.cfg.Limits.ArchiveBytes)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: read tar: %w", ErrInvalid, err)
		}
		if n >= maxArchiveFiles {
			return nil, fmt.Errorf("%w: more than %d files", ErrInvalid, maxArchiveFiles)
		}
		name := path.Clean("/" + hdr.Name)[1:]
		switch hdr.Typeflag {
		case tar.TypeReg:
			if hdr.Size > left {
				return nil, fmt.Errorf("%w: more than %d bytes", ErrInvalid, s.cfg.Limits.ArchiveBytes)
			}
			left -= hdr.Size
			f, err := spoolFile(filepath.Join(dir, strconv.Itoa(n)), tr)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", hdr.Name, err)
			}
			ar.files[name] = f
		case tar.TypeSymlink:
			ar.links[name] = path.Clean("/" + path.Join(path.Dir(name), hdr.Linkname))[1:]
		case tar.TypeLink:
			ar.links[name] = path.Clean("/" + hdr.Linkname)[1:]
		}
	}
}

// drain reads the data after the end of a tar. A server notices that its client has
// left, and ends the context, only after it has read the request to its end.
func drain(r io.Reader, limit int64) error {
	n, err := io.Copy(io.Discard, io.LimitReader(r, limit+1))
	if err == nil && n > limit {
		err = errors.New("no end")
	}
	if err != nil {
		return fmt.Errorf("%w: after the end of the tar: %w", ErrInvalid, err)
	}
	return nil
}

func spoolFile(name string, r io.Reader) (archiveFile, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return archiveFile{}, err
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, h), r)
	if err != nil && !isSpace(err) {
		err = fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return archiveFile{}, err
	}
	return archiveFile{name, "sha256:" + hex.EncodeToString(h.Sum(nil)), n}, nil
}

// remove deletes the spooled files. Open deletes the rest.
func (ar *archive) remove() { _ = os.RemoveAll(ar.dir) }

func (ar *archive) has(name string) bool {
	_, ok := ar.file(name)
	return ok
}

// file finds a file, through one link.
func (ar *archive) file(name string) (archiveFile, bool) {
	name = path.Clean("/" + name)[1:]
	if f, ok := ar.files[name]; ok {
		return f, true
	}
	f, ok := ar.files[ar.links[name]]
	return f, ok
}

func (ar *archive) read(name string, limit int64) ([]byte, error) {
	f, ok := ar.file(name)
	if !ok {
		return nil, fmt.Errorf("%w: %s is missing", ErrInvalid, name)
	}
	if f.size > limit {
		return nil, fmt.Errorf("%w: %s has %d bytes", ErrInvalid, name, f.size)
	}
	return os.ReadFile(f.path)
}

// blob reads a small blob of an OCI layout and verifies it.
func (ar *archive) blob(digest string, limit int64) ([]byte, error) {
	f, ok := ar.file(layoutBlob(digest))
	if ok && f.digest != digest {
		return nil, fmt.Errorf("%w: content of blob %s is %s", ErrInvalid, digest, f.digest)
	}
	return ar.read(layoutBlob(digest), limit)
}

func layoutBlob(digest string) string { return "blobs/" + strings.Replace(digest, ":", "/", 1) }
