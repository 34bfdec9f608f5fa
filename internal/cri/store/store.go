// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/durable"
)

// ErrNotFound is returned, wrapped, for an unknown ID.
var ErrNotFound = errors.New("not found")

// ErrReserved is returned, wrapped, for a name that another object has.
var ErrReserved = errors.New("name is reserved")

// Store holds all sandboxes and containers of a host.
type Store struct {
	Sandboxes  *Table[Sandbox]
	Containers *Table[Container]
}

// Open reads the records in dir, which is made if needed. Records that cannot be
// read are returned as bad, with their directories; they are not touched.
func Open(dir string) (s *Store, bad []error, err error) {
	s = &Store{
		Sandboxes: &Table[Sandbox]{
			dir: filepath.Join(dir, "sandboxes"), kind: "sandbox",
			key:    func(r Sandbox) (string, string) { return r.ID, r.Name },
			config: func(r Sandbox) proto.Message { return r.Config },
			fresh:  func(r *Sandbox) proto.Message { r.Config = &runtime.PodSandboxConfig{}; return r.Config },
		},
		Containers: &Table[Container]{
			dir: filepath.Join(dir, "containers"), kind: "container",
			key:    func(r Container) (string, string) { return r.ID, r.Name },
			config: func(r Container) proto.Message { return r.Config },
			fresh:  func(r *Container) proto.Message { r.Config = &runtime.ContainerConfig{}; return r.Config },
		},
	}
	b1, err1 := s.Sandboxes.load()
	b2, err2 := s.Containers.load()
	return s, append(b1, b2...), errors.Join(err1, err2)
}

// Table holds the objects of one kind.
type Table[T any] struct {
	dir    string
	kind   string
	key    func(T) (id, name string)
	config func(T) proto.Message
	// fresh gives a record an empty configuration and returns it.
	fresh func(*T) proto.Message

	mu      sync.RWMutex
	records map[string]T             // by ID; guarded by mu
	names   map[string]string        // name to ID; guarded by mu
	locks   map[string]chan struct{} // by ID; guarded by mu
}

const recordName = "record.json"

func (t *Table[T]) load() (bad []error, err error) {
	t.records, t.names, t.locks = map[string]T{}, map[string]string{}, map[string]chan struct{}{}
	if err := os.MkdirAll(t.dir, 0o711); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	entries, err := os.ReadDir(t.dir)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(t.dir, e.Name(), recordName))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var record T
		if err == nil {
			config := t.fresh(&record)
			if err = decode(data, &record, config); err == nil {
				t.setConfig(&record, config)
				if id, _ := t.key(record); id != e.Name() {
					err = fmt.Errorf("record is of %s", id)
				}
			}
		}
		if err != nil {
			bad = append(bad, fmt.Errorf("read record of %s %s: %w", t.kind, e.Name(), err))
			continue
		}
		id, name := t.key(record)
		t.records[id], t.names[name] = record, id
	}
	return bad, nil
}

// setConfig puts the decoded configuration back: decode replaced the record.
func (t *Table[T]) setConfig(record *T, config proto.Message) {
	proto.Merge(t.fresh(record), config)
}

// Dir returns an object's directory.
func (t *Table[T]) Dir(id string) string { return filepath.Join(t.dir, id) }

// Reserve takes a name for an ID, before there is a record.
func (t *Table[T]) Reserve(id, name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if owner, ok := t.names[name]; ok && owner != id {
		return fmt.Errorf("name %q is reserved for %q: %w", name, owner, ErrReserved)
	}
	t.names[name] = id
	return nil
}

// Unreserve releases the name of an object that never got a record.
func (t *Table[T]) Unreserve(id, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.records[id]; !ok && t.names[name] == id {
		delete(t.names, name)
	}
}

// Put makes or replaces a record, first on disk.
func (t *Table[T]) Put(record T) error {
	id, name := t.key(record)
	data, err := encode(record, t.config(record))
	if err != nil {
		return fmt.Errorf("save %s %s: %w", t.kind, id, err)
	}
	if err := os.MkdirAll(t.Dir(id), 0o711); err != nil {
		return fmt.Errorf("save %s %s: %w", t.kind, id, err)
	}
	if err := durable.WriteFile(filepath.Join(t.Dir(id), recordName), data, 0o600); err != nil {
		return fmt.Errorf("save %s %s: %w", t.kind, id, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.records[id], t.names[name] = record, id
	return nil
}

// Delete removes an object's directory, the record last, and forgets it.
// Preconditions: there is no mount in the directory.
func (t *Table[T]) Delete(id string) error {
	if err := removeAll(t.Dir(id)); err != nil {
		return fmt.Errorf("remove %s %s: %w", t.kind, id, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if r, ok := t.records[id]; ok {
		_, name := t.key(r)
		delete(t.names, name)
		delete(t.records, id)
	}
	delete(t.locks, id)
	return nil
}

// removeAll is os.RemoveAll with the record last, so that a kill leaves either a
// record with Removing set or only disposable files.
func removeAll(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != recordName {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return os.RemoveAll(dir)
}

// Get finds an object by its ID or by a prefix that fits only one.
func (t *Table[T]) Get(id string) (T, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if r, ok := t.records[id]; ok {
		return r, nil
	}
	var found []T
	for full, r := range t.records {
		if id != "" && strings.HasPrefix(full, id) {
			found = append(found, r)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	var zero T
	return zero, ErrNotFound
}

// List returns all records, in the order of their IDs.
func (t *Table[T]) List() []T {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]T, 0, len(t.records))
	for _, r := range t.records {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b T) int {
		x, _ := t.key(a)
		y, _ := t.key(b)
		return cmp.Compare(x, y)
	})
	return out
}

// Leftovers returns the IDs of directories without a record.
func (t *Table[T]) Leftovers() ([]string, error) {
	entries, err := os.ReadDir(t.dir)
	if err != nil {
		return nil, fmt.Errorf("look for leftovers: %w", err)
	}
	var ids []string
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(t.dir, e.Name(), recordName)); errors.Is(err, fs.ErrNotExist) {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

// Lock serialises the operations on one object. The object need not exist.
func (t *Table[T]) Lock(ctx context.Context, id string) (unlock func(), err error) {
	t.mu.Lock()
	l, ok := t.locks[id]
	if !ok {
		l = make(chan struct{}, 1)
		t.locks[id] = l
	}
	t.mu.Unlock()
	select {
	case l <- struct{}{}:
		return func() { <-l }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for %s %s: %w", t.kind, id, context.Cause(ctx))
	}
}

// Hold finds an object as Get does and locks it. The record that it returns does
// not change until unlock is called.
func (t *Table[T]) Hold(ctx context.Context, id string) (record T, unlock func(), err error) {
	if record, err = t.Get(id); err != nil {
		return record, nil, err
	}
	id, _ = t.key(record)
	if unlock, err = t.Lock(ctx, id); err != nil {
		return record, nil, err
	}
	// It may have been changed, or removed, before the lock was free.
	if record, err = t.Get(id); err != nil {
		unlock()
		return record, nil, err
	}
	return record, unlock, nil
}
