// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package userfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/mullion-k8s/mullion/internal/durable"
)

// maxFile bounds a kubeconfig file, in bytes: one of 1,000 clusters with
// certificates has about 8 MB.
const maxFile = 32 << 20

// maxWait limits the wait for another program that changes the file.
const maxWait = 5 * time.Second

// Add puts the context into the file and makes it the current one. It creates the file,
// and its directory, if necessary.
func (f File) Add(ctx context.Context, c Context) error {
	err := f.edit(ctx, func(config *api.Config) (bool, error) { return true, c.add(config) })
	if err != nil {
		return fmt.Errorf("add context %s to %s: %w", c.Name, f.Path, err)
	}
	return nil
}

// Remove takes the context out of the file and reports whether it was there.
func (f File) Remove(ctx context.Context, c Context) (removed bool, err error) {
	err = f.edit(ctx, func(config *api.Config) (bool, error) {
		removed = c.remove(config)
		return removed, nil
	})
	if err != nil {
		return false, fmt.Errorf("remove context %s from %s: %w", c.Name, f.Path, err)
	}
	return removed, nil
}

// edit replaces the file with the result of change, if change reports one. It uses the
// rights of the file's owner: a link that a user planted must not make root write
// anywhere else.
func (f File) edit(ctx context.Context, change func(*api.Config) (bool, error)) error {
	return f.asOwner(func() error {
		path, err := target(f.Path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		unlock, err := lock(ctx, path)
		if err != nil {
			return err
		}
		defer unlock()
		config, mode, err := read(path)
		if err != nil {
			return err
		}
		changed, err := change(config)
		if err != nil || !changed {
			return err
		}
		data, err := clientcmd.Write(*config)
		if err != nil {
			return err
		}
		return durable.WriteFile(path, data, mode)
	})
}

// asOwner calls fn with the rights of the file's owner for files. These are rights
// of a thread (setfsuid(2)).
func (f File) asOwner(fn func() error) error {
	if os.Geteuid() != 0 || f.UID == 0 {
		return fn()
	}
	done := make(chan error)
	go func() {
		// Never unlocked: the thread, which ends with the goroutine, has given up
		// its rights and its groups.
		runtime.LockOSThread()
		done <- func() error {
			if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); e != 0 {
				return fmt.Errorf("become user %d: %w", f.UID, e)
			}
			if err := errors.Join(unix.Setfsgid(f.GID), unix.Setfsuid(f.UID)); err != nil {
				return fmt.Errorf("become user %d: %w", f.UID, err)
			}
			if now, err := unix.SetfsuidRetUid(-1); err != nil || now != f.UID {
				return fmt.Errorf("become user %d: not permitted", f.UID)
			}
			return fn()
		}()
	}()
	return <-done
}

// target returns the file that a name leads to, which need not exist: a link stays
// a link.
func target(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path); err == nil {
			return "", fmt.Errorf("%s is a link to a file that does not exist", path)
		}
		return path, nil
	}
	return real, err
}

// lock takes the lock that kubectl takes: a file whose creation succeeds only once.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	name := path + ".lock"
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	for {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL, 0)
		if err == nil {
			return func() { _ = os.Remove(name) }, f.Close()
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s exists: another program changes the file; if not, remove the lock", name)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func read(path string) (*api.Config, fs.FileMode, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return api.NewConfig(), 0o600, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer f.Close() // opened for reading
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, errors.New("not a regular file")
	}
	// Replacing a file would also work where its owner forbade writing to it.
	err = unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS)
	if info.Mode().Perm()&0o200 == 0 || err != nil {
		return nil, 0, errors.New("the file is read-only")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("more than %d bytes", maxFile)
	}
	if err != nil {
		return nil, 0, err
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		return nil, 0, fmt.Errorf("the file is not a kubeconfig: %w", err)
	}
	return config, info.Mode().Perm(), nil
}
