// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/winsys/winpath"
)

// ErrInvalid marks a mount that no retry will make right.
var ErrInvalid = errors.New("invalid mount")

// ErrOtherKind is for a file that is to be mounted on a directory, or the reverse.
var ErrOtherKind = errors.New("a file and a directory cannot be mounted on each other")

// WithoutPath returns the cause of an error of package os. Its path is one of the machine,
// which pods must not show.
func WithoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err
	}
	return err
}

// Invalid is an ErrInvalid with its own text.
type Invalid struct{ Err error }

func (e Invalid) Error() string { return e.Err.Error() }

// Is reports whether the target is ErrInvalid.
func (Invalid) Is(target error) bool { return target == ErrInvalid }

func (e Invalid) Unwrap() error { return e.Err }

// OpenSource finds a file or directory by its Windows path on the drive of the
// emulated host, and makes a directory if it does not exist, as containerd does.
func OpenSource(drive, p string) (*os.File, fs.FileInfo, error) {
	host, err := os.OpenRoot(drive)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = host.Close() }() // opened for look-ups
	rel, err := winpath.ResolveIn(host, p)
	if err != nil {
		return nil, nil, Invalid{fmt.Errorf("failed to stat %q: %w", p, err)}
	}
	f, err := OpenBeneath(drive, rel)
	if errors.Is(err, fs.ErrNotExist) {
		if err := host.MkdirAll(rel, 0o755); err != nil {
			return nil, nil, fmt.Errorf("failed to mkdir %q: %w", p, err)
		}
		f, err = OpenBeneath(drive, rel)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("failed to stat %q: %w", p, err)
	}
	info, err := f.Stat()
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		err = Invalid{fmt.Errorf("mount %q: only files and directories can be mounted", p)}
	}
	if err != nil {
		_ = f.Close() // only a handle
		return nil, nil, err
	}
	return f, info, nil
}

// OpenBeneath opens a file at a path without links below a directory with O_PATH:
// the descriptor cannot be read. A link that has come into the path meanwhile is an
// error; one that has come to its end is opened itself.
func OpenBeneath(dir, rel string) (*os.File, error) {
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	defer func() { _ = unix.Close(at) }() // only a handle
	fd, err := unix.Openat2(at, rel, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, &os.PathError{Op: "openat2", Path: rel, Err: err}
	}
	return os.NewFile(uintptr(fd), rel), nil
}

// Handle returns a path that names the open file, even if it was moved.
func Handle(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }
