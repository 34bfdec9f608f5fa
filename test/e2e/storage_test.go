// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const storageYAML = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {greeting: first, other: untouched}
---
apiVersion: v1
kind: Secret
metadata: {name: password}
stringData: {password: old}
---
apiVersion: v1
kind: Pod
metadata: {name: volumes}
spec:
  os: {name: windows}
  nodeName: win-1
  containers:
  - name: main
    image: example.test/winprog:v1
    imagePullPolicy: Never
    args: [wait]
    volumeMounts:
    - {name: settings, mountPath: 'C:\settings'}
    - {name: password, mountPath: 'C:\password', readOnly: true}
    - {name: token, mountPath: 'C:\token'}
    - {name: scratch, mountPath: 'C:\scratch'}
    - {name: scratch, mountPath: 'C:\sub', subPath: a/b}
    - {name: scratch, mountPath: 'C:\fixed', readOnly: true}
    - {name: host, mountPath: 'C:\host'}
  volumes:
  - {name: settings, configMap: {name: settings}}
  - {name: password, secret: {secretName: password}}
  - {name: scratch, emptyDir: {}}
  - {name: host, hostPath: {path: 'C:\made\for\pods', type: DirectoryOrCreate}}
  - name: token
    projected: {sources: [{serviceAccountToken: {path: token, expirationSeconds: 600, audience: test}},
      {configMap: {name: settings}}]}
`

// TestStorage: volumes as Windows' pods have them.
func TestStorage(t *testing.T) {
	t.Parallel()
	c := up(t)
	c.withWinprog(t)
	ns := c.namespace(t)
	c.apply(t, ns, storageYAML)
	c.ready(t, ns, "volumes")
	read := func(path string) (string, error) {
		return c.execErr(t.Context(), ns, "volumes", "cmd.exe", "/c", "type "+path)
	}
	is := func(path, want string) {
		t.Helper()
		if got, err := read(path); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", path, got, err, want)
		}
	}
	is(`C:\settings\greeting`, "first")
	is(`C:\token\greeting`, "first")
	if got, err := read(`C:\token\token`); err != nil || strings.Count(got, ".") != 2 {
		t.Errorf("token %q, %v", got, err)
	}

	t.Run("written", func(t *testing.T) {
		c.exec(t, ns, "volumes", "cmd.exe", "/c", `echo sub> C:\sub\s.txt`)
		is(`C:\scratch\a\b\s.txt`, "sub")
		is(`C:\fixed\a\b\s.txt`, "sub")
		c.exec(t, ns, "volumes", "cmd.exe", "/c", `echo host> C:\host\h.txt`)
		if got, err := os.ReadFile(filepath.Join(c.dir, "clusters", name, "nodes", "win-1", "prefix", "upper",
			"drive_c", "made", "for", "pods", "h.txt")); err != nil || strings.TrimSpace(string(got)) != "host" {
			t.Errorf("on the host: %q, %v", got, err)
		}
	})
	t.Run("refused", func(t *testing.T) {
		// Windows reports ERROR_ACCESS_DENIED or ERROR_WRITE_PROTECT.
		for _, path := range []string{`C:\fixed\new.txt`, `C:\password\new.txt`} {
			out := c.exec(t, ns, "volumes", `C:\app\winprog.exe`, "write", path)
			if !strings.HasPrefix(out, "write: 5 ") && !strings.HasPrefix(out, "write: 19 ") {
				t.Errorf("writing %s: %q", path, out)
			}
		}
	})
	t.Run("updated", func(t *testing.T) {
		c.kubectl(t, "patch", "configmap", "-n", ns, "settings", "-p", `{"data":{"greeting":"second"}}`)
		c.kubectl(t, "patch", "secret", "-n", ns, "password", "-p", `{"stringData":{"password":"new"}}`)
		for path, want := range map[string]string{`C:\settings\greeting`: "second", `C:\password\password`: "new",
			`C:\token\greeting`: "second"} {
			// The kubelet looks once a minute; a change of the pod wakes it.
			n := 0
			eventually(t, 3*time.Minute, path, func() error {
				n++
				c.kubectl(t, "annotate", "--overwrite", "pod", "-n", ns, "volumes", fmt.Sprintf("look=%d", n))
				got, err := read(path)
				if err == nil && got != want {
					err = fmt.Errorf("%q", got)
				}
				return err
			})
		}
		is(`C:\settings\other`, "untouched")
	})
	t.Run("kept over a restart of the container", func(t *testing.T) {
		if err := syscall.Kill(c.containerProcess(t, ns, "volumes"), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		c.until(t, ns, "volumes", "{.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}",
			"1 true")
		is(`C:\scratch\a\b\s.txt`, "sub")
		is(`C:\settings\greeting`, "second")
	})
}
