// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package archive

import (
	"archive/tar"
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/mullion-k8s/mullion/internal/durable"
)

// Extract writes the members of an archive below dir, which must be empty, each
// with mode 0600 and synced. The error is ErrDamaged or ErrNewer if it is the
// archive's fault; dir may then hold some of the members.
func Extract(r io.Reader, dir string) (Manifest, error) {
	b := bufio.NewReader(r)
	if program := compressor(b); program != "" {
		return Manifest{}, fmt.Errorf("%w: it is compressed: use '%s -dc FILE | mullion restore -'", ErrDamaged,
			program)
	}
	t := tar.NewReader(b)
	m, err := readManifest(t)
	if err != nil {
		return Manifest{}, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Manifest{}, fmt.Errorf("restore: %w", err)
	}
	defer root.Close() // opened for names only
	if err := root.Mkdir(PKI, 0o700); err != nil {
		return Manifest{}, fmt.Errorf("restore: %w", err)
	}
	for _, f := range m.Files {
		if err := next(t, f.Name, f.Size); err != nil {
			return Manifest{}, err
		}
		if err := extract(root, f, t); err != nil {
			return Manifest{}, err
		}
	}
	if h, err := t.Next(); err == nil {
		return Manifest{}, fmt.Errorf("%w: member %q is not in its list", ErrDamaged, h.Name)
	} else if !errors.Is(err, io.EOF) {
		return Manifest{}, damaged("the end", err)
	}
	return m, errors.Join(durable.SyncDir(filepath.Join(dir, PKI)), durable.SyncDir(dir))
}

// compressor returns the program that makes files which begin as r does, or "".
func compressor(r *bufio.Reader) string {
	for program, magic := range map[string]string{
		"gzip": "\x1f\x8b", "xz": "\xfd7zXZ\x00", "zstd": "\x28\xb5\x2f\xfd", "bzip2": "BZh",
	} {
		// Too short is not an error here: the archive's reader returns it.
		if head, _ := r.Peek(len(magic)); string(head) == magic {
			return program
		}
	}
	return ""
}

func readManifest(t *tar.Reader) (Manifest, error) {
	h, err := t.Next()
	if err != nil {
		return Manifest{}, fmt.Errorf("%w: it is not an archive that mullion backup has made: %w", ErrDamaged, err)
	}
	if h.Name != manifestName || h.Typeflag != tar.TypeReg || h.Size > maxManifest {
		return Manifest{}, fmt.Errorf("%w: it is not an archive that mullion backup has made: it begins with %q",
			ErrDamaged, h.Name)
	}
	data, err := io.ReadAll(t)
	if err != nil {
		return Manifest{}, damaged(manifestName, err)
	}
	return parse(data)
}

// next moves to the next member, which must be this one.
func next(t *tar.Reader, name string, size int64) error {
	h, err := t.Next()
	switch {
	case err != nil:
		return damaged(name, err)
	case h.Typeflag != tar.TypeReg || h.Name != name:
		return fmt.Errorf("%w: %q is in the place of %s", ErrDamaged, h.Name, name)
	case h.Size != size:
		return fmt.Errorf("%w: %s has %d bytes instead of %d", ErrDamaged, name, h.Size, size)
	}
	return nil
}

// extract writes one member and compares its checksum.
func extract(root *os.Root, f File, r io.Reader) error {
	w, err := root.OpenFile(filepath.FromSlash(f.Name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	defer w.Close() // closed again below, where its error counts
	h := sha256.New()
	if _, err := io.Copy(w, readErrors{io.TeeReader(r, h), f.Name}); err != nil {
		return fmt.Errorf("restore %s: %w", f.Name, err)
	}
	if hex.EncodeToString(h.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("%w: %s has another checksum than when it was written", ErrDamaged, f.Name)
	}
	if err := errors.Join(w.Sync(), w.Close()); err != nil {
		return fmt.Errorf("restore %s: %w", f.Name, err)
	}
	return nil
}

// readErrors marks the errors of reading an archive, to distinguish them from errors of
// writing its content.
type readErrors struct {
	io.Reader
	member string
}

func (r readErrors) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = damaged(r.member, err)
	}
	return n, err
}

// damaged returns the error for an archive that ends or breaks at a member.
func damaged(member string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends before the end of %s", ErrDamaged, member)
	}
	return fmt.Errorf("%w: %s: %w", ErrDamaged, member, err)
}
