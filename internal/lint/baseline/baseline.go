// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package baseline keeps the findings that a repository has accepted, so that
// lint reports only new ones.
package baseline

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/lint"
	"github.com/mullion-k8s/mullion/internal/lint/checkout"
)

// version is the version of the format.
const version = 1

// header is the first line of a file.
type header struct {
	Version int `json:"mullionBaseline"`
}

// maxBytes bounds a file: about 200,000 findings.
const maxBytes = 64 << 20

// entry is a finding, and how often it is accepted.
type entry struct {
	lint.Identity
	Count int `json:"count,omitempty"` // 0 stands for 1
}

// Baseline holds accepted findings. It is not safe for concurrent use.
type Baseline struct {
	paths  *lint.Paths
	counts map[lint.Identity]int
}

// New returns an empty baseline for a file. In a checkout, names of files are
// relative to it, otherwise to the folder of the baseline.
func New(file string) *Baseline {
	root := filepath.Dir(checkout.Real(file))
	if top := checkout.Root(root); top != "" {
		root = top
	}
	return &Baseline{paths: lint.NewPaths(root), counts: map[lint.Identity]int{}}
}

// Read reads a file.
func Read(file string) (*Baseline, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read the baseline: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, err
	}
	b := New(file)
	if err := b.parse(text); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return b, nil
}

// parse reads JSON, a document on each line: merging two branches that both have
// new lines leaves a baseline.
func (b *Baseline) parse(text []byte) error {
	if len(text) > maxBytes {
		return fmt.Errorf("larger than %d MiB", maxBytes>>20)
	}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		err := b.line(number, bytes.TrimSpace(line))
		if err != nil {
			return fmt.Errorf("line %d: not a baseline: %w", number, err)
		}
	}
	if number == 0 {
		return errors.New("not a baseline: it is empty")
	}
	return nil
}

func (b *Baseline) line(number int, text []byte) error {
	if number == 1 {
		_, err := durable.ParseDocument(text, func(h *header) error {
			if h.Version != version {
				return fmt.Errorf("it has version %d, but this mullion supports %d", h.Version, version)
			}
			return nil
		})
		return err
	}
	e, err := durable.ParseDocument(text, func(e *entry) error {
		if e.Rule == "" || e.Count < 0 {
			return errors.New("want a rule, and no count or one above 0")
		}
		return nil
	})
	if err == nil {
		b.counts[e.Identity] += max(e.Count, 1)
	}
	return err
}

func (b *Baseline) identity(r lint.Result) lint.Identity { return r.Identity(b.paths.Of(r.File)) }

// mayHold reports whether a finding can be accepted: not that a file is missing,
// because its content is unknown.
func mayHold(r lint.Result) bool { return r.Code != "WIN910" }

// Known reports whether a finding is accepted. A finding that is accepted once
// is known once.
func (b *Baseline) Known(r lint.Result) bool {
	id := b.identity(r)
	if b.counts[id] == 0 || !mayHold(r) {
		return false
	}
	b.counts[id]--
	return true
}

// Add accepts a finding, and reports whether it can be.
func (b *Baseline) Add(r lint.Result) bool {
	if !mayHold(r) {
		return false
	}
	b.counts[b.identity(r)]++
	return true
}

// Write writes the file.
func (b *Baseline) Write(file string) error {
	text, err := b.encode()
	if err != nil {
		return err
	}
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return &os.PathError{Op: "write", Path: file, Err: errors.New("not a file")}
	}
	return durable.WriteFile(file, text, 0o644)
}

// encode returns a line for each finding, in an order that stays.
func (b *Baseline) encode() ([]byte, error) {
	var entries []entry
	for id, n := range b.counts {
		if n > 0 {
			entries = append(entries, entry{Identity: id, Count: n})
		}
	}
	slices.SortFunc(entries, func(x, y entry) int {
		return cmp.Or(cmp.Compare(x.File, y.File), cmp.Compare(x.Object, y.Object), cmp.Compare(x.Field, y.Field),
			cmp.Compare(x.Rule, y.Rule))
	})
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	if err := enc.Encode(header{version}); err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Count == 1 {
			e.Count = 0
		}
		if err := enc.Encode(e); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}
