// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package archive

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/mullion-k8s/mullion/internal/durable"
)

// Source is a member to be written: the file Path under the name Name.
type Source struct {
	Name string
	Path string
}

// Write writes an archive with these members. It fills in m's Format and Files.
// The files must not change meanwhile; if one does, Write fails.
func Write(w io.Writer, m Manifest, members []Source) error {
	m.Format, m.Files = format, nil
	for _, s := range members {
		f, err := s.describe()
		if err != nil {
			return fmt.Errorf("back up %s: %w", s.Name, err)
		}
		m.Files = append(m.Files, f)
	}
	if err := m.check(); err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	head, err := durable.EncodeDocument(m)
	if err != nil {
		return err
	}
	t := tar.NewWriter(w)
	if err := t.WriteHeader(header(manifestName, int64(len(head)), m.Created)); err != nil {
		return fmt.Errorf("write %s: %w", manifestName, err)
	}
	if _, err := t.Write(head); err != nil {
		return fmt.Errorf("write %s: %w", manifestName, err)
	}
	for i, s := range members {
		if err := s.write(t, m.Files[i], m.Created); err != nil {
			return fmt.Errorf("back up %s: %w", s.Name, err)
		}
	}
	return t.Close()
}

func header(name string, size int64, at time.Time) *tar.Header {
	return &tar.Header{
		Typeflag: tar.TypeReg,
		Name:     name,
		Size:     size,
		Mode:     0o600,
		ModTime:  at,
		Format:   tar.FormatPAX,
	}
}

// open opens the file of a member. A link in its place would put a file of the
// machine into the backup.
func (s Source) open() (*os.File, error) {
	st, err := os.Lstat(s.Path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: s.Path, Err: fs.ErrInvalid}
	}
	return os.Open(s.Path)
}

// describe returns the member's entry in the manifest.
func (s Source) describe() (File, error) {
	r, err := s.open()
	if err != nil {
		return File{}, err
	}
	defer r.Close() // opened for reading
	h := sha256.New()
	n, err := io.Copy(h, r)
	return File{Name: s.Name, Size: n, SHA256: hex.EncodeToString(h.Sum(nil))}, err
}

// write writes the member, and fails if the source no longer matches f.
func (s Source) write(t *tar.Writer, f File, at time.Time) error {
	r, err := s.open()
	if err != nil {
		return err
	}
	defer r.Close() // opened for reading
	if err := t.WriteHeader(header(f.Name, f.Size, at)); err != nil {
		return err
	}
	h := sha256.New()
	if _, err := io.Copy(t, io.TeeReader(r, h)); err != nil {
		return err
	}
	if hex.EncodeToString(h.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("%s changed while it was read", s.Path)
	}
	return nil
}
