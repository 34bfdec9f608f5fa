// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package logfile provides log files that rotate, so that their size is bounded.
// The node agent, its service wrapper and the hosts write their logs with it.
package logfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// Rotating is a file that is set aside as NAME.1 when it has reached its size;
// NAME.1 becomes NAME.2 and so on. Writes are never split between two files.
// Safe for concurrent use.
type Rotating struct {
	path string
	max  int64
	keep int

	mu   sync.Mutex
	file *os.File // guarded by mu
	size int64    // guarded by mu
}

// Defaults fit for a component that logs a few hundred bytes per second: some
// days of history.
const (
	DefaultBytes = 16 << 20
	DefaultKeep  = 3
)

// Open opens the file for appending, making its directory if needed. At most
// keep older files of about max bytes stay.
func Open(path string, max int64, keep int) (*Rotating, error) {
	if max <= 0 || keep < 1 {
		return nil, fmt.Errorf("open log %s: size %d or number %d of files is not positive", path, max, keep)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	r := &Rotating{path: path, max: max, keep: keep}
	return r, r.open()
}

// open opens the current file.
// Preconditions: r.mu is held, or r is not shared yet.
func (r *Rotating) open() error {
	f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	st, err := f.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("open log: %w", err), f.Close())
	}
	r.file, r.size = f, st.Size()
	return nil
}

// Write appends p to the file.
func (r *Rotating) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		// An earlier rotation could not open the new file: a full disk, perhaps,
		// and it may have room again.
		if err := r.open(); err != nil {
			return 0, err
		}
	}
	if r.size > 0 && r.size+int64(len(p)) > r.max {
		if err := r.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := r.file.Write(p)
	r.size += int64(n)
	return n, err
}

// rotate shifts the files. Windows refuses to rename an open file, so the
// current one is closed first.
// Preconditions: r.mu is held.
func (r *Rotating) rotate() error {
	err := r.file.Close()
	r.file = nil
	for i := r.keep; i > 0 && err == nil; i-- {
		from := r.path
		if i > 1 {
			from += "." + strconv.Itoa(i-1)
		}
		if e := os.Rename(from, r.path+"."+strconv.Itoa(i)); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = e
		}
	}
	if err != nil {
		return fmt.Errorf("rotate log: %w", err)
	}
	return r.open()
}

// Close closes the file.
func (r *Rotating) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}
