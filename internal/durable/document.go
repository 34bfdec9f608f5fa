// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package durable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxDocument bounds a document, in bytes. The largest that mullion writes, the
// status of a cluster of 250 hosts, has about 100 kB; a much larger file is not a
// document.
const maxDocument = 1 << 20

// errTooLarge is returned, wrapped, for a file that is too large for a document.
var errTooLarge = fmt.Errorf("more than %d bytes", maxDocument)

// byteOrderMark is the prefix that editors on Windows write before UTF-8.
const byteOrderMark = "\xef\xbb\xbf"

// ParseDocument reads a JSON document strictly: a field that T lacks is an error, because
// a misspelt field must not silently become a default, and so is anything after the
// document. A byte order mark is skipped. Then check is called, which may fill in
// defaults, and returns an error for invalid content.
func ParseDocument[T any](data []byte, check func(*T) error) (T, error) {
	var doc, zero T
	if len(data) > maxDocument {
		return zero, errTooLarge
	}
	d := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte(byteOrderMark))))
	d.DisallowUnknownFields()
	if err := d.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("empty file")
		}
		return zero, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return zero, errors.New("more than one document")
	}
	if err := check(&doc); err != nil {
		return zero, err
	}
	return doc, nil
}

// ReadDocument is ParseDocument of the file at path.
func ReadDocument[T any](path string, check func(*T) error) (T, error) {
	data, err := readLimited(path)
	if err == nil {
		var doc T
		if doc, err = ParseDocument(data, check); err == nil {
			return doc, nil
		}
		err = fmt.Errorf("read %s: %w", path, err)
	}
	var zero T
	return zero, err
}

// ReadStatus reads a JSON document leniently: unknown fields are ignored,
// because the program that wrote it may be newer.
func ReadStatus[T any](path string) (T, error) {
	var doc, zero T
	data, err := readLimited(path)
	if err != nil {
		return zero, err
	}
	if doc, err = ParseStatus[T](data); err != nil {
		return zero, fmt.Errorf("read %s: %w", path, err)
	}
	return doc, nil
}

// ParseStatus is ReadStatus of a text.
func ParseStatus[T any](data []byte) (T, error) {
	var doc, zero T
	if err := json.Unmarshal(data, &doc); err != nil {
		return zero, err
	}
	return doc, nil
}

// EncodeDocument returns the text of a document: indented, for people, and with
// a final newline.
func EncodeDocument(doc any) ([]byte, error) {
	data, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode document: %w", err)
	}
	return append(data, '\n'), nil
}

// WriteDocument replaces the document at path as WriteFile does. Only the owner
// can read it.
func WriteDocument(path string, doc any) error {
	data, err := EncodeDocument(doc)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return WriteFile(path, data, 0o600)
}

// readLimited reads a file of at most maxDocument bytes. Its errors name the
// path.
func readLimited(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // opened for reading
	data, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	if err == nil && len(data) > maxDocument {
		err = errTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data, nil
}
