// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// parseDigest checks a digest and returns its hex part. Only SHA-256: Windows
// images use no other algorithm, and a second algorithm would let one content have
// two names.
func parseDigest(digest string) (string, error) {
	h, ok := strings.CutPrefix(digest, "sha256:")
	// Exactly one spelling: upper case would be another file name.
	if !ok || len(h) != 2*sha256.Size || strings.Trim(h, "0123456789abcdef") != "" {
		return "", fmt.Errorf("%w: digest %q is not sha256", ErrInvalid, digest)
	}
	return h, nil
}

// blobs are files named by the hash of their content.
type blobs struct {
	dir    string // …/blobs/sha256
	ingest string
}

func (b blobs) path(digest string) (string, error) {
	h, err := parseDigest(digest)
	if err != nil {
		return "", err
	}
	return filepath.Join(b.dir, h), nil
}

func (b blobs) has(digest string, size int64) bool {
	p, err := b.path(digest)
	if err != nil {
		return false
	}
	st, err := os.Stat(p)
	return err == nil && st.Mode().IsRegular() && (size < 0 || st.Size() == size)
}

// put stores content under its digest. The content is not visible under that name
// before every byte was hashed and synced. A size below zero is unknown.
func (b blobs) put(digest string, size int64, r io.Reader) (err error) {
	final, err := b.path(digest)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(b.ingest, "blob-*")
	if err != nil {
		return fmt.Errorf("store blob %s: %w", digest, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // half a blob is of no use; the first error counts
			err = fmt.Errorf("store blob %s: %w", digest, err)
		}
	}()
	if size >= 0 {
		// One byte more than promised is enough to detect an error.
		r = io.LimitReader(r, size+1)
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, h), r)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if size >= 0 && n != size {
		return fmt.Errorf("%w: %d bytes, expected %d", ErrInvalid, n, size)
	}
	if got := "sha256:" + hex.EncodeToString(h.Sum(nil)); got != digest {
		return fmt.Errorf("%w: content is %s", ErrInvalid, got)
	}
	return adopt(f.Name(), final)
}

// link stores a file of the same file system whose content has the digest. The
// caller has made sure of that.
func (b blobs) link(digest, from string) error {
	final, err := b.path(digest)
	if err != nil {
		return err
	}
	if err := syncFile(from); err != nil {
		return fmt.Errorf("store blob %s: %w", digest, err)
	}
	if err := os.Link(from, final); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("store blob %s: %w", digest, err)
	}
	return syncDir(b.dir)
}

// adopt moves a synced file to its place, durably.
func adopt(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

// read returns a small blob and verifies it again: metadata is cheap to hash
// and worth it after years on a disk.
func (b blobs) read(digest string, limit int64) ([]byte, error) {
	p, err := b.path(digest)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(p)
	if err != nil {
		return nil, err
	}
	defer f.Close() // opened for reading
	data, err := readAtMost(f, limit)
	if err != nil {
		return nil, fmt.Errorf("read blob %s: %w", digest, err)
	}
	if got := digestOf(data); got != digest {
		return nil, fmt.Errorf("read blob %s: %w: content is %s", digest, ErrInvalid, got)
	}
	return data, nil
}

func readAtMost(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrInvalid, limit)
	}
	return data, nil
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func syncFile(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
