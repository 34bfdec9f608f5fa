// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controlplane

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
)

// damaged returns the error for a datastore that a restart does not repair.
func damaged(path string, err error) error {
	return &config.UnusableError{Err: fmt.Errorf("the datastore %s is damaged: %w: restore a backup ('mullion down "+
		"--purge', then 'mullion restore FILE'), or start over with 'mullion down --purge'", path, err)}
}

// openDatabase opens etcd's database for reading. It returns nil if there is none to read: it does not exist, is
// empty, or is in use.
func openDatabase(db string) (*bbolt.DB, error) {
	if st, err := os.Stat(db); err != nil || st.Size() == 0 {
		return nil, nil // etcd makes it, or fails with the reason
	}
	b, err := bbolt.Open(db, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	switch {
	case errors.Is(err, bbolterrors.ErrTimeout):
		return nil, nil // in use; etcd waits for it
	case err != nil && errors.As(err, new(syscall.Errno)):
		return nil, err // of the machine, not of the content
	case err != nil:
		return nil, damaged(db, err)
	}
	return b, nil
}

// readable returns an error if etcd could not open its database; etcd itself would panic.
func readable(db string) error {
	b, err := openDatabase(db)
	if b == nil {
		return err
	}
	return b.Close()
}

// inDatabase returns the index of the last entry of etcd's log whose effect is in its database, or 0 if there is no
// such entry. Damaged pages may end the process, so it comes after begin.
func inDatabase(db string) (index uint64, err error) {
	b, err := openDatabase(db)
	if b == nil {
		return 0, err
	}
	defer b.Close() // opened for reading
	err = b.View(func(tx *bbolt.Tx) error {
		if meta := tx.Bucket(schema.Meta.Name()); meta != nil {
			if v := meta.Get(schema.MetaConsistentIndexKeyName); len(v) == 8 {
				index = binary.BigEndian.Uint64(v)
			}
		}
		return nil
	})
	return index, err
}

// Examine reads all of an etcd's data directory that is not in use, and returns an
// error if it is damaged. It may also panic, or be killed by the kernel: damaged
// pages send bbolt to addresses that do not exist.
func Examine(dir string, log *slog.Logger) error {
	snaps, err := wal.ValidSnapshotEntries(etcdLog(log), datadir.ToWALDir(dir))
	if err != nil {
		return fmt.Errorf("its log: %w", err)
	}
	if len(snaps) == 0 {
		return errors.New("its log has no beginning")
	}
	last := snaps[len(snaps)-1]
	if _, err := wal.Verify(etcdLog(log), datadir.ToWALDir(dir), last); err != nil {
		return fmt.Errorf("its log: %w", err)
	}
	db := datadir.ToBackendFileName(dir)
	st, err := os.Stat(db)
	if errors.Is(err, fs.ErrNotExist) && last.Index == 0 {
		return nil // everything is in the log
	}
	if err != nil {
		return err
	}
	b, err := bbolt.Open(db, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return err
	}
	defer b.Close() // opened for reading
	return b.View(func(tx *bbolt.Tx) error {
		if tx.Size() > st.Size() {
			return fmt.Errorf("its database was cut from %d bytes to %d", tx.Size(), st.Size())
		}
		for err := range tx.Check() {
			return fmt.Errorf("its database: %w", err)
		}
		return nil
	})
}

// examineLimit bounds examine. A database of the largest size takes a few seconds.
const examineLimit = time.Minute

// examine runs Examine in a separate process, because it may end the process.
func examine(ctx context.Context, dir string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("examine datastore: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, examineLimit)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, self, "examine", dir)
	cmd.Stderr = &out
	err = cmd.Run()
	if _, failed := errors.AsType[*exec.ExitError](err); !failed || ctx.Err() != nil {
		return nil // it is intact, or its state is unknown
	}
	return damaged(dir, errors.New(firstError(out.String())))
}

// firstError returns the message of the first line of a program's output with an error or
// a crash.
func firstError(out string) string {
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		for _, mark := range []string{"mullion: error: ", "panic: ", "fatal error: "} {
			if why, ok := strings.CutPrefix(line, mark); ok {
				return why
			}
		}
	}
	return "reading it crashes"
}

// starting returns the name of the file that exists while etcd starts. If it is there
// at a start, the last one failed, for a reason that may be in the data.
func starting(c config.Config) string { return filepath.Join(c.Run(), "etcd.starting") }

// begin notes that etcd starts. If the last start failed, the data are examined first.
func begin(ctx context.Context, c config.Config) error {
	note := starting(c)
	_, err := os.Stat(note)
	if _, none := os.Stat(datadir.ToWALDir(c.Etcd())); err == nil && none == nil {
		if err := examine(ctx, c.Etcd()); err != nil {
			return err
		}
	}
	// It need not survive a power cut.
	return os.WriteFile(note, nil, 0o600)
}
