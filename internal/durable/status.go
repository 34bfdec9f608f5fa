// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package durable

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// statusPage is the size, in bytes, to which a status document is padded: a block of most file systems, so that
// padding takes no space.
const statusPage = 4096

// WriteStatus replaces the status document at path as WriteDocument does. If the disk is full, it writes the document
// into the blocks of the one before: users look at the status to find out that the disk is full. A reader at that
// moment, or after a crash, may find a part, which ReadStatus refuses.
func WriteStatus(path string, doc any) error {
	data, err := EncodeDocument(doc)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	// Spare room of at least a page, because the messages about a full disk are long.
	size := (len(data)/statusPage + 2) * statusPage
	err = WriteFile(path, pad(data, size), 0o600)
	if !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	if overwrite(path, data) == nil {
		return nil
	}
	return err // the first error says why
}

// pad appends spaces up to a size.
func pad(data []byte, size int) []byte {
	return append(data, bytes.Repeat([]byte{' '}, max(0, size-len(data)))...)
}

// overwrite writes data and spaces over the content of a file, which keeps its size.
func overwrite(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err == nil && st.Size() < int64(len(data)) {
		err = &os.PathError{Op: "overwrite", Path: path, Err: syscall.ENOSPC}
	}
	if err == nil {
		_, err = f.WriteAt(pad(data, int(st.Size())), 0)
	}
	return errors.Join(err, f.Close())
}
