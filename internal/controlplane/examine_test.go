// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controlplane

import (
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

// TestInDatabase: a database that etcd makes or waits for is left to etcd.
func TestInDatabase(t *testing.T) {
	dir := t.TempDir()
	check := func(name string, want uint64) {
		t.Helper()
		if got, err := inDatabase(filepath.Join(dir, name)); got != want || err != nil {
			t.Errorf("%s: %d, %v, want %d", name, got, err, want)
		}
		if err := readable(filepath.Join(dir, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	check("absent", 0)
	if err := os.WriteFile(filepath.Join(dir, "empty"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check("empty", 0)
	b, err := bbolt.Open(filepath.Join(dir, "db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Update(func(tx *bbolt.Tx) error {
		meta, err := tx.CreateBucket(schema.Meta.Name())
		if err != nil {
			return err
		}
		return meta.Put(schema.MetaConsistentIndexKeyName, []byte{0, 0, 0, 0, 0, 0, 1, 2})
	}); err != nil {
		t.Fatal(err)
	}
	check("db", 0) // in use
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	check("db", 0x102)
}
