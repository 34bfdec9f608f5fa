// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package imagebuild

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/mullion-k8s/mullion/internal/cri/image"
)

// errChanged is wrapped by the errors for content that is not the same at a second reading.
var errChanged = errors.New("changed while it was read: try again")

// Streamed returns a layer whose content does not have to fit into memory. write writes
// its tar, the same at each call: once now for the digest, and once into each archive.
func Streamed(write func(io.Writer) error) (*Blob, error) {
	h, n := sha256.New(), counter(0)
	if err := write(io.MultiWriter(h, &n)); err != nil {
		return nil, err
	}
	d := v1.Descriptor{MediaType: types.OCIUncompressedLayer, Size: int64(n),
		Digest: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}}
	return &Blob{Descriptor: d, write: write}, nil
}

// counter counts the bytes that are written to it.
type counter int64

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// copyTo writes the content, and checks content that is not in memory.
func (b Blob) copyTo(w io.Writer) error {
	if b.write == nil {
		_, err := w.Write(b.Data)
		return err
	}
	h := sha256.New()
	err := b.write(io.MultiWriter(h, w))
	if errors.Is(err, tar.ErrWriteTooLong) || err == nil && hex.EncodeToString(h.Sum(nil)) != b.Descriptor.Digest.Hex {
		return fmt.Errorf("the folder %w", errChanged)
	}
	return err
}

// TarFolder writes a directory of this machine as a layer, as `COPY . DIR` does. at is
// the place below C:\, with slashes; empty means C:\ itself. The tar depends on names,
// content and links only. It is an error if Windows programs would not find an entry
// as it is: a link that leaves the folder, or a name that Windows does not have.
func TarFolder(ctx context.Context, w io.Writer, root *os.Root, at string) error {
	f := folder{layerWriter: newLayerWriter(w), root: root, at: at, names: map[string]string{}}
	if err := errors.Join(f.dir("Files"), f.dir("Hives"), f.dir(path.Join("Files", at))); err != nil {
		return err
	}
	err := fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		return f.entry(name, d)
	})
	if err != nil {
		return err
	}
	if len(f.names) == 0 {
		return errors.New("the folder is empty")
	}
	return f.tar.Close()
}

// folder is a directory on its way into a layer.
type folder struct {
	layerWriter
	root  *os.Root
	at    string
	names map[string]string // by the key under which Windows considers them equal
}

// entry writes one entry of the walk, which is in the order of names and does not follow links.
func (f folder) entry(name string, d fs.DirEntry) error {
	if name == "." {
		return nil
	}
	key, err := image.NameKey(path.Join(f.at, name))
	if err != nil {
		return fmt.Errorf("%q cannot be a name on Windows: %w: rename or remove it", name, err)
	}
	if other, ok := f.names[key]; ok {
		return fmt.Errorf("%q and %q are the same name on Windows: rename or remove one", other, name)
	}
	f.names[key] = name
	full := path.Join("Files", f.at, name)
	switch kind := d.Type(); {
	case kind.IsDir():
		return f.dir(full)
	case kind.IsRegular():
		return f.file(name, full)
	case kind == fs.ModeSymlink:
		return f.link(name, full)
	}
	return fmt.Errorf("%s is a pipe, a socket or a device, which an image cannot hold: remove it", name)
}

func (f folder) file(name, full string) error {
	from, err := f.root.Open(name)
	if err != nil {
		return err
	}
	defer from.Close() // opened for reading
	info, err := from.Stat()
	if err != nil {
		return err
	}
	h := header(tar.TypeReg, full, 0o644)
	h.Size = info.Size()
	if err := f.tar.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.Copy(f.tar, from)
	if errors.Is(err, tar.ErrWriteTooLong) || err == nil && n != h.Size {
		return fmt.Errorf("%s %w", name, errChanged)
	}
	return err
}

// link writes a symbolic link. Its target must exist in the folder: os.Root refuses
// absolute links, and those that leave it on the way.
func (f folder) link(name, full string) error {
	target, err := f.root.Readlink(name)
	if err != nil {
		return err
	}
	_, err = f.root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is a link to %s, which does not exist: remove it", name, target)
	}
	if err != nil {
		return fmt.Errorf("%s is a link to %s, which is not a relative path within the folder: "+
			"replace the link by a copy: %w", name, target, err)
	}
	h := header(tar.TypeSymlink, full, 0o777)
	h.Linkname = target
	return f.tar.WriteHeader(h)
}
