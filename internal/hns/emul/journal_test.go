// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package emul

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/hnstest"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
)

// childDir makes the test binary a program that makes endpoints in the store of
// that name until it is killed, and prints the id of each when it is made.
const childDir = "MULLION_TEST_HNS_STORE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		makeEndpoints(dir)
	}
	os.Exit(m.Run())
}

func makeEndpoints(dir string) {
	ctx := context.Background() // a program of its own
	s, err := Open(ctx, Config{Dir: dir, DataPlane: &hnstest.Plane{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	n, err := schema.ParseGUID(os.Getenv(childDir + "_NETWORK"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for i := 0; ; i++ {
		doc := fmt.Sprintf(`{"Flags":1,"IpConfigurations":[{"IpAddress":"192.0.2.%d"}],"SchemaVersion":{"Major":2}}`,
			i%250+1)
		id, err := s.Create(ctx, hns.Endpoint, n, schema.GUID{}, doc)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(id)
	}
}

// TestKill9 kills a process in the middle of its work. Everything that it said
// was made must be there, and at most one thing that it had no time to say.
func TestKill9(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := openTest(t, dir, nil)
	n := createBridge(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	acknowledged := 0
	for range 5 {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), childDir+"="+dir, childDir+"_NETWORK="+n.String())
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		made := map[string]bool{}
		lines := bufio.NewScanner(out)
		for stop := 20 + rand.IntN(200); len(made) < stop && lines.Scan(); {
			made[lines.Text()] = true
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // what it said before it died
			made[lines.Text()] = true
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the child ended by itself")
		}
		before := acknowledged
		s := openTest(t, dir, nil)
		have := s.current.Load().endpoints.order
		for id := range made {
			if schema.CanonicalGUID(id) == "" || !slices.Contains(have, id) {
				t.Errorf("%q was acknowledged and is gone", id)
			}
		}
		if extra := len(have) - before - len(made); extra < 0 || extra > 1 {
			t.Errorf("%d endpoints, %d before, %d acknowledged", len(have), before, len(made))
		}
		acknowledged = len(have)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTornWrite cuts the journal at every byte of its last record.
func TestTornWrite(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir, nil)
	n := createBridge(t, s)
	path := filepath.Join(dir, journalName)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	createRemote(t, s, n, "192.0.2.1")
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for cut := len(before); cut <= len(after); cut++ {
		if err := os.WriteFile(path, after[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		s := openTest(t, dir, nil)
		want := 0
		if cut == len(after) {
			want = 1
		}
		if got := len(s.current.Load().endpoints.order); got != want {
			t.Errorf("cut at %d of %d: %d endpoints, want %d", cut, len(after), got, want)
		}
		// The store can be written again.
		createRemote(t, s, n, "192.0.2.2")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDamage changes a byte in the middle: that is no crash, and not repaired by
// forgetting what follows.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir, nil)
	n := createBridge(t, s)
	createRemote(t, s, n, "192.0.2.1")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, journalName)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content[bytes.IndexByte(content, '\n')/2] ^= 1
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), Config{Dir: dir, DataPlane: &hnstest.Plane{}, Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "damaged at byte 0") || !strings.Contains(err.Error(), path) {
		t.Errorf("%v, want an error that names the file and the place", err)
	}
}

func TestStoreIsLocked(t *testing.T) {
	dir := t.TempDir()
	openTest(t, dir, nil)
	_, err := Open(t.Context(), Config{Dir: dir, DataPlane: &hnstest.Plane{}, Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("second open: %v", err)
	}
}

func TestUnknownFormat(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, snapshotName), []byte(`{"f":99,"n":1,"c":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Config{Dir: dir, DataPlane: &hnstest.Plane{}, Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "format 99") {
		t.Errorf("%v", err)
	}
}

// TestCompaction writes more than the journal may hold, and crashes between the
// snapshot and the emptying of the journal.
func TestCompaction(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir, nil)
	n := createBridge(t, s)
	padding := strings.Repeat("x", 100_000)
	var old []byte
	for i := range 30 {
		doc := fmt.Sprintf(`{"Name":"%s","Flags":1,"IpConfigurations":[{"IpAddress":"192.0.2.%d"}],`+
			`"SchemaVersion":{"Major":2}}`, padding, i+1)
		if _, err := os.Stat(filepath.Join(dir, snapshotName)); err != nil {
			old, _ = os.ReadFile(filepath.Join(dir, journalName))
		}
		if _, err := s.Create(t.Context(), hns.Endpoint, n, schema.GUID{}, doc); err != nil {
			t.Fatal(err)
		}
	}
	want, err := s.current.Load().dump()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	check := func(what string) {
		t.Helper()
		s := openTest(t, dir, nil)
		got, err := s.current.Load().dump()
		if err != nil {
			t.Fatal(err)
		}
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		if !bytes.Equal(a, b) {
			t.Errorf("%s: the store differs: %d changes, want %d", what, len(got), len(want))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	check("after compaction")
	// The journal as it was before it was emptied, in front of what came after.
	path := filepath.Join(dir, journalName)
	now, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(old, now...), 0o600); err != nil {
		t.Fatal(err)
	}
	check("after a crash before the journal was emptied")
}

func FuzzDecodeRecord(f *testing.F) {
	good, err := encodeRecord(record{Seq: 1,
		Changes: []change{{Table: "endpoint", ID: "x", Value: json.RawMessage(`{"ID":"x"}`)},
			{Table: "endpoint", ID: "x"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte("00000000 {}\n"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := decodeRecord(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			return
		}
		tx := newTxn(&state{})
		for _, c := range r.Changes {
			_ = tx.replay(c) // an error is fine, a panic is not
		}
		if _, err := tx.dump(); err != nil {
			t.Fatal(err)
		}
	})
}
