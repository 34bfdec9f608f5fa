// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package durable_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/durable"
)

type room struct {
	Name  string   `json:"name"`
	Doors int      `json:"doors"`
	Parts []string `json:"parts"`
}

// complete gives a room a door and refuses one without a name.
func (r *room) complete() error {
	if r.Doors == 0 {
		r.Doors = 1
	}
	if r.Name == "" {
		return errors.New("name is missing")
	}
	return nil
}

func TestParseDocument(t *testing.T) {
	for _, text := range []string{`{"name":"a"}`, "\xef\xbb\xbf{\"name\":\"a\"}", " {\"name\":\"a\"}\r\n\n"} {
		got, err := durable.ParseDocument([]byte(text), (*room).complete)
		if want := (room{Name: "a", Doors: 1}); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestParseDocumentRefuses(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"unknown field", `{"name":"a","door":1}`, `unknown field "door"`},
		{"another document", `{"name":"a"}{}`, "more than one document"},
		{"trailing text", `{"name":"a"} x`, "more than one document"},
		{"trailing bracket", `{"name":"a"}}`, "more than one document"},
		{"cut off", `{"name":"a"`, "unexpected EOF"},
		{"nothing", " \n", "empty file"},
		{"another type", `{"name":1}`, "cannot unmarshal"},
		{"list", `[]`, "cannot unmarshal"},
		{"refused by its check", `{}`, "name is missing"},
		{"too large", `{"name":"` + strings.Repeat("a", 1<<20) + `"}`, "more than 1048576 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := durable.ParseDocument([]byte(tt.text), (*room).complete)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if !reflect.DeepEqual(got, room{}) {
				t.Errorf("%v beside the error", got)
			}
			// From a file, the error names the file.
			path := filepath.Join(t.TempDir(), "room.json")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err = durable.ReadDocument(path, (*room).complete)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v, want %q and the path", err, tt.want)
			}
		})
	}
}

func TestReadDocumentMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "room.json")
	_, err := durable.ReadDocument(path, (*room).complete)
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
	}
	if _, err := durable.ReadStatus[room](path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

func TestWriteDocument(t *testing.T) {
	path := filepath.Join(t.TempDir(), "room.json")
	want := room{Name: "a", Doors: 2, Parts: []string{"wall"}}
	if err := durable.WriteDocument(path, want); err != nil {
		t.Fatal(err)
	}
	for what, read := range map[string]func() (room, error){
		"document": func() (room, error) { return durable.ReadDocument(path, (*room).complete) },
		"status":   func() (room, error) { return durable.ReadStatus[room](path) },
	} {
		if got, err := read(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v; want %v", what, got, err, want)
		}
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if err := durable.WriteDocument(path, func() {}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("what JSON cannot hold: %v", err)
	}
}

func TestReadStatus(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status.json")
	for _, tt := range []struct {
		text string
		ok   bool
	}{
		{`{"name":"a","ofANewerVersion":1}`, true},
		{`{"name":"a"`, false},
		{``, false},
		{`{"name":"` + strings.Repeat("a", 1<<20) + `"}`, false},
	} {
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := durable.ReadStatus[room](path)
		if tt.ok && (err != nil || got.Name != "a") || !tt.ok && (err == nil || !strings.Contains(err.Error(), path)) {
			t.Errorf("%.40q: %v, %v", tt.text, got, err)
		}
	}
}

// FuzzDocument: what is accepted is one document, and what is written of it is
// accepted again.
func FuzzDocument(f *testing.F) {
	for _, s := range []string{
		`{"name":"a"}`, `{"name":"a","parts":[]}`, `{"name":"a","parts":["x",null]}{}`, "\xef\xbb\xbf{}", `null`,
		`{"NAME":"a"}]`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := durable.ParseDocument(data, (*room).complete)
		if err != nil {
			return
		}
		for _, more := range []string{"{}", "]", "}", "x"} {
			if _, err := durable.ParseDocument(append(slices.Clip(data), more...), (*room).complete); err == nil {
				t.Errorf("accepted with %q after it", more)
			}
		}
		text, err := durable.EncodeDocument(doc)
		if err != nil {
			t.Fatal(err)
		}
		again, err := durable.ParseDocument(text, (*room).complete)
		if err != nil || !reflect.DeepEqual(again, doc) {
			t.Errorf("written and read: %v, %v; want %v", again, err, doc)
		}
	})
}
