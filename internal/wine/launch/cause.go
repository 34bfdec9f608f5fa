// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Windows' own words for why CreateProcess fails. Pods show them, so they name no path
// of Linux.
var (
	errNotFound     = errors.New("The system cannot find the file specified.") //nolint:staticcheck // see above
	errPathNotFound = errors.New("The system cannot find the path specified.") //nolint:staticcheck // see above
	errDenied       = errors.New("Access is denied.")                          //nolint:staticcheck // see above
	// errBadImage is ERROR_BAD_EXE_FORMAT.
	errBadImage = errors.New("%1 is not a valid Win32 application.") //nolint:staticcheck // see above
	// errDirectory is ERROR_DIRECTORY (0x10b), the error for each working directory that cannot be used.
	errDirectory = errors.New("The directory name is invalid.") //nolint:staticcheck // see above
)

// windowsError returns Windows' error for one of Linux.
func windowsError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errNotFound
	case errors.Is(err, unix.ENOTDIR):
		return errPathNotFound
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
		return errDenied
	}
	return withoutPath(err)
}

// withoutPath returns the cause of an error of package os.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err
	}
	return err
}

// findDir finds the working directory. One of a HostProcess container is made if it does not exist.
func findDir(c Config) (string, error) {
	dir, err := resolve(c.Root, c.Dir)
	if errors.Is(err, errNotFound) && c.Host {
		return makeDir(c.Root, c.Dir)
	}
	if err == nil {
		var info fs.FileInfo
		if info, err = os.Stat(dir); err == nil && !info.IsDir() {
			err = unix.ENOTDIR
		}
	}
	if err != nil {
		return "", invalidDir(c)
	}
	return dir, nil
}

// enterDir makes the working directory the current one.
func enterDir(c Config, dir string) error {
	if os.Chdir(dir) != nil {
		return invalidDir(c)
	}
	return nil
}

// invalidDir is the error for a working directory that cannot be used. hcsshim, which starts
// the programs of HostProcess containers itself, adds its own words
// (internal/jobcontainers/jobcontainer.go, CreateProcess).
func invalidDir(c Config) error {
	if c.Host {
		return fmt.Errorf("failed to start host process: failed to create process: %w", errDirectory)
	}
	return errDirectory
}

// makeDir makes a working directory that does not exist, as hcsshim does for host
// process containers.
func makeDir(root, name string) (string, error) {
	_, rest, ok := strings.Cut(name, ":")
	if !ok {
		rest = name
	}
	at := filepath.Clean(root)
	for part := range strings.SplitSeq(strings.ReplaceAll(rest, `\`, "/"), "/") {
		if part == "" || part == "." || part == ".." {
			continue
		}
		next, err := child(at, part)
		if err != nil {
			next = filepath.Join(at, part)
			err = os.Mkdir(next, 0o755)
		}
		if err != nil {
			return "", fmt.Errorf("mkdir %s: %w", name, windowsError(err))
		}
		at = next
	}
	return at, nil
}
