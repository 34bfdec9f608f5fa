// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package archive

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/version"
)

// sources writes the files of a small backup.
func sources(t testing.TB) []Source {
	t.Helper()
	dir := t.TempDir()
	var all []Source
	for _, f := range []struct{ name, content string }{
		{Cluster, `{"name":"x"}`}, {"pki/cluster-ca.key", "key"}, {"pki/initialised", ""},
		{Snapshot, strings.Repeat("data", 1000)},
	} {
		path := filepath.Join(dir, filepath.Base(f.name))
		if err := os.WriteFile(path, []byte(f.content), 0o600); err != nil {
			t.Fatal(err)
		}
		all = append(all, Source{f.name, path})
	}
	return all
}

func manifest() Manifest {
	return Manifest{
		Mullion:    "v0.1.0",
		Kubernetes: version.Kubernetes,
		Name:       "x",
		Created:    time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Revision:   7,
		Keys:       3,
	}
}

// written returns the archive of sources.
func written(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, manifest(), sources(t)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	m, err := Extract(bytes.NewReader(written(t)), dir)
	if err != nil {
		t.Fatal(err)
	}
	if m.Name != "x" || m.Revision != 7 || m.Keys != 3 || !m.Created.Equal(manifest().Created) || len(m.Files) != 4 {
		t.Errorf("manifest %+v", m)
	}
	var names []string
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		st, err := d.Info()
		if err != nil || st.Mode() != 0o600 {
			t.Errorf("%s: mode %v, %v", path, st.Mode(), err)
		}
		name, _ := filepath.Rel(dir, path) // path is below dir
		names = append(names, name)
		return nil
	})
	want := []string{Cluster, Snapshot, "pki/cluster-ca.key", "pki/initialised"}
	if err != nil || !slices.Equal(names, want) {
		t.Errorf("files %q, %v; want %q", names, err, want)
	}
	if data, err := os.ReadFile(filepath.Join(dir, Snapshot)); err != nil || len(data) != 4000 {
		t.Errorf("snapshot of %d bytes, %v", len(data), err)
	}
}

// TestDamage: no archive that was cut short or changed in any place is taken for
// whole.
func TestDamage(t *testing.T) {
	whole := written(t)
	extract := func(data []byte) error {
		_, err := Extract(bytes.NewReader(data), t.TempDir())
		return err
	}
	end := len(whole) - 2*512 // tar's own end mark, which says nothing
	for _, n := range []int{0, 1, 511, 512, 600, 1024, 1500, end / 2, end - 513, end - 600, end - 1000} {
		if err := extract(whole[:n]); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut to %d of %d bytes: %v", n, len(whole), err)
		}
	}
	snapshot := bytes.Index(whole, []byte("datadata"))
	key := bytes.LastIndex(whole, []byte("key\x00"))
	for _, at := range []int{snapshot, snapshot + 3999, key} {
		changed := bytes.Clone(whole)
		changed[at] ^= 1
		if err := extract(changed); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "checksum") {
			t.Errorf("a bit of byte %d flipped: %v", at, err)
		}
	}
}

// member is one entry of an archive made by hand.
type member struct {
	name    string
	content string
	kind    byte
	link    string
}

func handmade(t *testing.T, members ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		h := &tar.Header{Name: m.name, Size: int64(len(m.content)), Typeflag: m.kind, Linkname: m.link, Mode: 0o777}
		if m.kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, m.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// described returns a manifest that names files without content.
func described(t *testing.T, edit func(*Manifest), names ...string) string {
	t.Helper()
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	m := manifest()
	m.Format = format
	for _, n := range names {
		m.Files = append(m.Files, File{Name: n, SHA256: empty})
	}
	if edit != nil {
		edit(&m)
	}
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestHostileArchives(t *testing.T) {
	files := []string{Cluster, "pki/a.key", Snapshot}
	good := described(t, nil, files...)
	all := []member{{name: manifestName, content: good}, {name: Cluster}, {name: "pki/a.key"}, {name: Snapshot}}
	if _, err := Extract(bytes.NewReader(handmade(t, all...)), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name    string
		archive []byte
		want    string
	}{
		{"not an archive", bytes.Repeat([]byte("x"), 2048), "not an archive that mullion backup has made"},
		{"a compressed one", []byte("\x1f\x8b\x08\x00"), "use 'gzip -dc FILE | mullion restore -'"},
		{"another archive", handmade(t, member{name: "README"}), `it begins with "README"`},
		{"manifest is a link", handmade(t, member{name: manifestName, kind: tar.TypeSymlink, link: "/etc/passwd"}),
			"not an archive that mullion"},
		{"manifest too large", handmade(t, member{name: manifestName, content: strings.Repeat(" ", maxManifest+1)}),
			"not an archive that mullion"},
		{"manifest is not JSON", handmade(t, member{name: manifestName, content: "{"}), "unexpected end of JSON"},
		{"no format", handmade(t, member{name: manifestName, content: "{}"}), "format 0"},
		{"unknown field", handmade(t, member{name: manifestName, content: `{"format":1,"x":1}`}), `unknown field "x"`},
		{"member out of order", handmade(t, all[0], all[2], all[1], all[3]),
			`"pki/a.key" is in the place of cluster.json`},
		{"member missing", handmade(t, all[:3]...), "it ends before the end of etcd.snapshot"},
		{"member too many", handmade(t, append(slices.Clone(all), member{name: "../x"})...),
			`member "../x" is not in its list`},
		{"member is a link", handmade(t, all[0], all[1], member{name: "pki/a.key", kind: tar.TypeSymlink,
			link: "/etc/shadow"}, all[3]), `"pki/a.key" is in the place of pki/a.key`},
		{"member longer than listed", handmade(t, all[0], all[1], all[2], member{name: Snapshot, content: "x"}),
			"1 bytes instead of 0"},
	} {
		t.Run(tc.name, func(t *testing.T) { refused(t, tc.archive, tc.want) })
	}
	for name, want := range map[string]string{
		"../evil": "a backup has no such file", "/etc/passwd": "a backup has no such file",
		"pki/../../evil": "a backup has no such file", "pki/a/b": "a backup has no such file",
		"pki/..": "a backup has no such file", "pki/.a.tmp-1": "a backup has no such file",
		"pki": "a backup has no such file", "pki/a\x00b": "a backup has no such file",
		"nodes/win-1/x": "a backup has no such file", Cluster: "listed twice",
	} {
		t.Run("lists "+name, func(t *testing.T) {
			list := described(t, nil, append(files, name)...)
			refused(t, handmade(t, member{name: manifestName, content: list}), want)
		})
	}
	for i, name := range files {
		t.Run("lacks "+name, func(t *testing.T) {
			rest := slices.Delete(slices.Clone(files), i, i+1)
			refused(t, handmade(t, member{name: manifestName, content: described(t, nil, rest...)}), "missing")
		})
	}
	for name, edit := range map[string]func(*Manifest){
		"negative size": func(m *Manifest) { m.Files[0].Size = -1 },
		"huge key":      func(m *Manifest) { m.Files[1].Size = maxKey + 1 },
		"huge snapshot": func(m *Manifest) { m.Files[2].Size = maxSnapshot + 1 },
		"many files":    func(m *Manifest) { m.Files = append(m.Files, make([]File, maxFiles)...) },
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, handmade(t, member{name: manifestName, content: described(t, edit, files...)}), "at most")
		})
	}
}

// refused checks that an archive is damaged, and that nothing is outside of the
// directory that it was unpacked in.
func refused(t *testing.T, data []byte, want string) {
	t.Helper()
	outer := t.TempDir()
	dir := filepath.Join(outer, "in")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Extract(bytes.NewReader(data), dir)
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v; want %q", err, want)
	}
	if left, err := os.ReadDir(outer); err != nil || len(left) != 1 {
		t.Errorf("beside the directory: %v, %v", left, err)
	}
}

// TestNewer: an archive of a later version says so, whatever else it has.
func TestNewer(t *testing.T) {
	for name, text := range map[string]string{
		"format":     `{"format":2,"mullion":"v9.1.0","kubernetes":"v1.36.0","new":{}}`,
		"Kubernetes": `{"format":1,"mullion":"v9.1.0","kubernetes":"v1.99.0","new":{}}`,
	} {
		_, err := Extract(bytes.NewReader(handmade(t, member{name: manifestName, content: text})), t.TempDir())
		if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "made by mullion v9.1.0") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What is in the place of a version does not reach the terminal.
	_, err := Extract(bytes.NewReader(handmade(t, member{name: manifestName,
		content: `{"format":2,"mullion":"\u001b[2J"}`})), t.TempDir())
	if !errors.Is(err, ErrNewer) || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%q", err)
	}
}

func TestWriteRefuses(t *testing.T) {
	all := sources(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(all[1].Path, link); err != nil {
		t.Fatal(err)
	}
	for name, members := range map[string][]Source{
		"a link":            {all[0], {all[1].Name, link}, all[3]},
		"a missing file":    {all[0], {all[1].Name, link + "x"}, all[3]},
		"no snapshot":       all[:3],
		"a foreign name":    append(slices.Clone(all), Source{"logs/server.log", all[0].Path}),
		"the same twice":    append(slices.Clone(all), all[0]),
		"no key material":   {all[0], all[3]},
		"a directory's own": append(slices.Clone(all), Source{"pki/x", t.TempDir()}),
	} {
		if err := Write(io.Discard, manifest(), members); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// FuzzExtract: whatever an archive holds, Extract returns and writes only below its
// directory; what it accepts has every member that it lists.
func FuzzExtract(f *testing.F) {
	whole := written(f)
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		outer := t.TempDir()
		dir := filepath.Join(outer, "in")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		m, err := Extract(bytes.NewReader(data), dir)
		if left, lerr := os.ReadDir(outer); lerr != nil || len(left) != 1 {
			t.Fatalf("beside the directory: %v, %v", left, lerr)
		}
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewer) {
				t.Fatalf("an error that does not blame the archive: %v", err)
			}
			return
		}
		for _, file := range m.Files {
			if st, err := os.Lstat(filepath.Join(dir, file.Name)); err != nil || st.Size() != file.Size {
				t.Errorf("%s: %v, %v", file.Name, st, err)
			}
		}
	})
}
