// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// sequential writes a file of so many MiB from its begin to its end, flushes it to the disk, reads it again, and
// tells how fast both were, in MB (1e6 bytes) a second.
func sequential(dir, size string) {
	mib, err := strconv.Atoi(size)
	if err != nil {
		say("size", "%v", err)
		os.Exit(2)
	}
	name, block := filepath.Join(dir, "sequential"), make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(i * i >> 7) // not zeros, which a file system may leave out
	}
	speed := func(what string, do func(f *os.File) error, flag int) {
		began := time.Now()
		f, err := os.OpenFile(name, flag, 0o600)
		if err == nil {
			err = errors.Join(do(f), f.Close())
		}
		if err != nil {
			say(what, "%v", err)
			os.Exit(1)
		}
		say(what, "%.1f MB/s", float64(mib)*float64(len(block))/1e6/time.Since(began).Seconds())
	}
	speed("written", func(f *os.File) error {
		for range mib {
			if _, err := f.Write(block); err != nil {
				return err
			}
		}
		return f.Sync()
	}, os.O_CREATE|os.O_TRUNC|os.O_WRONLY)
	speed("read", func(f *os.File) error {
		for range mib {
			if _, err := io.ReadFull(f, block); err != nil {
				return err
			}
		}
		return nil
	}, os.O_RDONLY)
	if err := os.Remove(name); err != nil {
		say("remove", "%v", err)
		os.Exit(1)
	}
}
