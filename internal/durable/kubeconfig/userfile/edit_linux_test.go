// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package userfile

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/mullion-k8s/mullion/internal/durable/kubeconfig"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

const others = `apiVersion: v1
kind: Config
current-context: work
clusters:
- name: work
  cluster: {server: "https://work.example", certificate-authority: ca.crt}
contexts:
- name: work
  context: {cluster: work, user: ann, namespace: shop}
users:
- name: ann
  user: {token: secret}
`

// newContext is the context of a cluster with a directory of its own.
func newContext(t *testing.T, name string) Context {
	t.Helper()
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.crt")
	write(t, ca, "a certificate", 0o600)
	admin := filepath.Join(dir, "admin.kubeconfig")
	data, err := json.Marshal(kubeconfig.ForUser("default",
		kubeconfig.WithCA("default", "https://127.0.0.1:6443", ca),
		kubeconfig.User{Name: "admin", User: kubeconfig.Credentials{Token: name}}))
	if err != nil {
		t.Fatal(err)
	}
	write(t, admin, string(data), 0o600)
	config, err := Named(admin, name)
	if err != nil {
		t.Fatal(err)
	}
	return Context{Name: name, Directory: dir, Config: config}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func read1(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestAddAndRemove(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	write(t, path, others, 0o640)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	f, c := File{Path: link, UID: os.Getuid(), GID: os.Getgid()}, newContext(t, "mullion-a")
	for range 2 { // once more changes nothing
		if err := f.Add(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if config.CurrentContext != c.Name || len(config.Contexts) != 2 || config.AuthInfos[c.Name].Token != c.Name ||
		string(config.Clusters[c.Name].CertificateAuthorityData) != "a certificate" {
		t.Errorf("after Add: %s", read1(t, path))
	}
	if work := config.Clusters["work"]; work == nil || work.CertificateAuthority != "ca.crt" {
		t.Errorf("another entry changed: %s", read1(t, path))
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link became %v, %v", info, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode: %v, %v", info, err)
	}
	removed, err := f.Remove(t.Context(), c)
	if err != nil || !removed {
		t.Fatalf("Remove: %t, %v", removed, err)
	}
	config, err = clientcmd.LoadFromFile(path)
	if err != nil || len(config.Contexts) != 1 || len(config.Clusters) != 1 || len(config.AuthInfos) != 1 ||
		config.CurrentContext != "" || config.Contexts["work"].Namespace != "shop" {
		t.Errorf("after Remove: %s, %v", read1(t, path), err)
	}
	if removed, err := f.Remove(t.Context(), c); err != nil || removed {
		t.Errorf("Remove once more: %t, %v", removed, err)
	}
}

// TestForeignEntries: entries that are not the cluster's stay as they are.
func TestForeignEntries(t *testing.T) {
	mine, theirs := newContext(t, "mullion-a"), newContext(t, "mullion-a")
	path := filepath.Join(t.TempDir(), "config")
	f := File{Path: path, UID: os.Getuid(), GID: os.Getgid()}

	write(t, path, strings.ReplaceAll(others, "work", "mullion-a"), 0o600)
	before := read1(t, path)
	if err := f.Add(t.Context(), mine); err == nil || !strings.Contains(err.Error(), "mullion did not write") {
		t.Errorf("Add over a user's context: %v", err)
	}
	if removed, err := f.Remove(t.Context(), mine); err != nil || removed || read1(t, path) != before {
		t.Errorf("Remove of a user's context: %t, %v, %s", removed, err, read1(t, path))
	}

	write(t, path, "", 0o600)
	if err := f.Add(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	if err := f.Add(t.Context(), mine); err == nil || !strings.Contains(err.Error(), theirs.Directory) {
		t.Errorf("Add over another cluster's context: %v", err)
	}
	if err := os.RemoveAll(theirs.Directory); err != nil {
		t.Fatal(err)
	}
	if err := f.Add(t.Context(), mine); err != nil {
		t.Errorf("Add over the context of a cluster that is gone: %v", err)
	}
}

// TestContextOfOnesOwn: a context that the user made for the cluster keeps working.
func TestContextOfOnesOwn(t *testing.T) {
	f := File{Path: filepath.Join(t.TempDir(), "new", "config"), UID: os.Getuid(), GID: os.Getgid()}
	c := newContext(t, "m")
	if err := f.Add(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(f.Path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("a new file: %v, %v", info, err)
	}
	own := "contexts:\n- context: {cluster: m, user: m}\n  name: own\n"
	text := strings.Replace(read1(t, f.Path), "contexts:\n", own, 1)
	write(t, f.Path, text, 0o600)
	if removed, err := f.Remove(t.Context(), c); err != nil || !removed {
		t.Fatalf("Remove: %t, %v", removed, err)
	}
	if config, err := clientcmd.LoadFromFile(f.Path); err != nil || config.Clusters["m"] == nil ||
		config.CurrentContext != "" {
		t.Errorf("after Remove: %s, %v", read1(t, f.Path), err)
	}
}

// TestBadFiles: a file that cannot be changed stays as it is, and the error says why.
func TestBadFiles(t *testing.T) {
	c := newContext(t, "m")
	for name, test := range map[string]struct {
		text    string
		mode    os.FileMode
		prepare func(path string) error
		want    string
	}{
		"malformed":     {text: "clusters: {", mode: 0o600, want: "not a kubeconfig"},
		"of other kind": {text: "kind: Pod\napiVersion: v1", mode: 0o600, want: "not a kubeconfig"},
		"read-only":     {text: others, mode: 0o400, want: "read-only"},
		"huge":          {text: strings.Repeat("#", maxFile+1), mode: 0o600, want: "more than"},
		"a directory": {prepare: func(p string) error { return os.Mkdir(p, 0o700) },
			want: "not a regular file"},
		"a dangling link": {prepare: func(p string) error { return os.Symlink("nowhere", p) },
			want: "a link to a file that does not exist"},
		"below a file": {prepare: func(p string) error { return os.WriteFile(filepath.Dir(p)+"/d", nil, 0o600) },
			want: "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config")
			if test.prepare == nil {
				write(t, path, test.text, test.mode)
			} else if err := test.prepare(path); err != nil {
				t.Fatal(err)
			}
			if name == "below a file" {
				path = filepath.Join(filepath.Dir(path), "d", "config")
			}
			err := File{Path: path, UID: os.Getuid(), GID: os.Getgid()}.Add(t.Context(), c)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%v; want %q", err, test.want)
			}
			if test.prepare == nil && read1(t, path) != test.text {
				t.Error("the file changed")
			}
			if _, err := os.Stat(path + ".lock"); err == nil {
				t.Error("the lock stayed")
			}
		})
	}
}

// TestLocked: who changes the file waits for kubectl and for others like it.
func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	f := File{Path: path, UID: os.Getuid(), GID: os.Getgid()}
	write(t, path+".lock", "", 0o600)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	c := newContext(t, "m")
	if err := f.Add(ctx, c); err == nil || !strings.Contains(err.Error(), path+".lock exists") {
		t.Errorf("with a lock: %v", err)
	}
	if err := os.Remove(path + ".lock"); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		c := newContext(t, name)
		all.Go(func() {
			if err := f.Add(t.Context(), c); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if config, err := clientcmd.LoadFromFile(path); err != nil || len(config.Contexts) != 5 {
		t.Errorf("of five contexts, written at once: %s, %v", read1(t, path), err)
	}
}

// TestOwner: under sudo the file is the user's, and root's rights are not used.
func TestOwner(t *testing.T) {
	testenv.Need(t, testenv.Root)
	const uid, gid = 4242, 4243
	home := t.TempDir()
	for d := home; d != "/tmp" && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			break // a directory of others
		}
	}
	if err := os.Chown(home, uid, gid); err != nil {
		t.Fatal(err)
	}
	c := newContext(t, "m")
	f := File{Path: filepath.Join(home, ".kube", "config"), UID: uid, GID: gid}
	if err := f.Add(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{f.Path, filepath.Dir(f.Path)} {
		var st syscall.Stat_t
		if err := syscall.Stat(path, &st); err != nil || st.Uid != uid || st.Gid != gid {
			t.Errorf("%s: owner %d:%d, %v", path, st.Uid, st.Gid, err)
		}
	}
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, secret, others, 0o600)
	planted := filepath.Join(home, "planted")
	if err := os.Symlink(secret, planted); err != nil {
		t.Fatal(err)
	}
	if err := (File{Path: planted, UID: uid, GID: gid}).Add(t.Context(), c); err == nil || read1(t, secret) != others {
		t.Errorf("through a link to a file of root's: %v", err)
	}
	if err := os.WriteFile(filepath.Join(t.TempDir(), "root"), nil, 0o600); err != nil {
		t.Errorf("other goroutines lost their rights: %v", err)
	}
}
