// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// storageYAML has what the pod of TestStorage needs. NS is the namespace, which is part
// of the names of objects that have none.
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
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: NS-retain}
provisioner: local.mullion.dev
volumeBindingMode: WaitForFirstConsumer
reclaimPolicy: Retain
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: claim}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 100Mi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: kept}
spec: {accessModes: [ReadWriteOncePod], storageClassName: NS-retain, resources: {requests: {storage: 100Mi}}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: NS-by-hand}
spec:
  accessModes: [ReadWriteOnce]
  capacity: {storage: 1Gi}
  storageClassName: NS-by-hand
  persistentVolumeReclaimPolicy: Retain
  local: {path: 'C:\NS\local'}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [
    {key: kubernetes.io/hostname, operator: In, values: [win-1]}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: local}
spec: {accessModes: [ReadWriteOnce], storageClassName: NS-by-hand, resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: all, labels: {edition: first}}
spec:
  os: {name: windows}
  nodeSelector: {kubernetes.io/hostname: win-1}
  terminationGracePeriodSeconds: 1
  containers: [CONTAINERS]
  volumes:
  - {name: empty, emptyDir: {}}
  - {name: plain, hostPath: {path: 'C:\NS\plain'}}
  - {name: made, hostPath: {path: 'C:\NS\made\now', type: DirectoryOrCreate}}
  - {name: there, hostPath: {path: 'C:\NS\there', type: Directory}}
  - {name: file, hostPath: {path: 'C:\NS\file', type: File}}
  - {name: new, hostPath: {path: 'C:\NS\new', type: FileOrCreate}}
  - {name: local, persistentVolumeClaim: {claimName: local}}
  - {name: claim, persistentVolumeClaim: {claimName: claim}}
  - {name: kept, persistentVolumeClaim: {claimName: kept}}
  - {name: own, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce],
      resources: {requests: {storage: 100Mi}}}}}}
  - {name: settings, configMap: {name: settings}}
  - {name: password, secret: {secretName: password}}
  - {name: labels, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
  - name: several
    projected: {sources: [{serviceAccountToken: {path: token, expirationSeconds: 600, audience: test}},
      {configMap: {name: settings}}, {secret: {name: password}},
      {downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}]}
`

// accounts are those of the pod's containers, by the containers' names.
var accounts = map[string]string{
	"admin": "ContainerAdministrator", "user": "ContainerUser", "service": `NT AUTHORITY\NETWORK SERVICE`,
}

// writable are the volumes that every account can write to, readable the others. Each is at C:\v\NAME.
var (
	writable = []string{"empty", "plain", "made", "there", "local", "claim", "kept", "own"}
	readable = []string{"file", "new", "settings", "password", "labels", "several"}
)

// storagePod returns the manifest with a container for each account, which has every volume. kubelet.exe keeps files
// open where a container has several mounts with a subPath (docs/user/troubleshooting.md), so each has one.
func storagePod(ns string) string {
	sub := map[string]string{
		"admin":   `{name: claim, mountPath: 'C:\sub', subPath: a/b}`,
		"user":    `{name: empty, mountPath: 'C:\sub', subPathExpr: logs/$(POD)}`,
		"service": `{name: settings, mountPath: 'C:\sub\greeting', subPath: greeting}`,
	}
	var containers []string
	for name, account := range accounts {
		mounts := []string{sub[name], `{name: empty, mountPath: 'C:\fixed', readOnly: true}`}
		for _, v := range slices.Concat(writable, readable) {
			mounts = append(mounts, `{name: `+v+`, mountPath: 'C:\v\`+v+`'}`)
		}
		containers = append(containers, fmt.Sprintf(`{name: %s, image: %q, imagePullPolicy: Never, args: [wait],
    env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}],
    securityContext: {windowsOptions: {runAsUserName: '%s'}},
    volumeMounts: [%s]}`, name, winprogImage, account, strings.Join(mounts, ",\n      ")))
	}
	slices.Sort(containers) // the first is admin
	return strings.NewReplacer("NS", ns, "CONTAINERS", strings.Join(containers, ",\n    ")).Replace(storageYAML)
}

// volumes is the pod of TestStorage.
type volumes struct {
	*shared
	ns string
}

// TestStorage has every kind of volume in one pod of three accounts, and claims in their whole life.
func TestStorage(t *testing.T) {
	t.Parallel()
	c := up(t)
	c.withWinprog(t)
	v := volumes{c, c.namespace(t)}
	v.prepare(t)
	t.Cleanup(func() { v.forget(t) })
	c.apply(t, v.ns, storagePod(v.ns))
	c.kubectl(t, "wait", "-n", v.ns, "--for=condition=Ready", "pod/all", "--timeout=180s") // many mounts
	for _, tc := range []struct {
		name string
		test func(*testing.T, volumes)
	}{
		{"content", testContent},
		{"accounts", testAccounts},
		{"subPath", testSubPath},
		{"read-only", testReadOnly},
		{"hostPath", testHostPath},
		{"updates", testUpdates},
		{"statistics", testVolumeStatistics},
		{"restart of a container", testVolumesKept},
		{"resize", testResize},
		{"protection of claims", testProtection},
		{"end of claims", testEndOfClaims},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.test(t, v) })
	}
}

// prepare makes what an administrator makes on the node.
func (v volumes) prepare(t *testing.T) {
	t.Helper()
	dir := `C:\` + v.ns
	if out, err := v.try(t.Context(), "", "exec", "win-1", "--name", v.name, "--data-dir", v.dir, "--", "cmd", "/c",
		`(rd /s /q `+dir+` 2>nul) & md `+dir+`\there & md `+dir+`\local & echo of the host> `+dir+`\file`); err != nil {
		t.Fatalf("exec on win-1: %v: %s", err, out)
	}
}

// onHost is where a file of win-1 is on the machine.
func (v volumes) onHost(elem ...string) string {
	root := hostRoot(filepath.Join(v.dir, "clusters", v.name, "run", "win-1.json"))
	return filepath.Join(append([]string{root, "prefix", "drive_c"}, elem...)...)
}

// do runs a program in a container of the pod.
func (v volumes) do(t *testing.T, container string, command ...string) (string, error) {
	t.Helper()
	out, err := v.kubectlErr(t.Context(), append([]string{"exec", "-n", v.ns, "all", "-c", container, "--"},
		command...)...)
	return strings.TrimSpace(strings.ReplaceAll(out, "\r\n", "\n")), err
}

// read returns the contents of files as a container sees them.
func (v volumes) read(t *testing.T, container string, paths ...string) []string {
	t.Helper()
	out, err := v.do(t, container, "cmd", "/c", "type "+strings.Join(paths, " & echo #& type ")+" & echo #")
	contents := strings.Split(strings.TrimSuffix(out, "#"), "#")
	if err != nil || len(contents) != len(paths) {
		t.Fatalf("read %q in %s: %q, %v", paths, container, out, err)
	}
	for i, c := range contents {
		contents[i] = strings.TrimSpace(c)
	}
	return contents
}

// write writes to files as a container's account and returns Windows' error numbers.
func (v volumes) write(t *testing.T, container string, paths ...string) []string {
	t.Helper()
	const program = `C:\app\winprog.exe write `
	out, err := v.do(t, container, "cmd", "/c", program+strings.Join(paths, " & "+program))
	lines := strings.Split(out, "\n")
	if err != nil || len(lines) != len(paths) {
		t.Fatalf("write %q in %s: %q, %v", paths, container, out, err)
	}
	for i, line := range lines {
		lines[i], _, _ = strings.Cut(strings.TrimPrefix(line, "write: "), " ")
	}
	return lines
}

// testContent: every account reads what Kubernetes and the host put into volumes.
func testContent(t *testing.T, v volumes) {
	want := map[string]string{
		`C:\v\settings\greeting`: "first", `C:\v\settings\other`: "untouched", `C:\v\password\password`: "old",
		`C:\v\labels\labels`: `edition="first"`, `C:\v\several\greeting`: "first", `C:\v\several\password`: "old",
		`C:\v\several\labels`: `edition="first"`, `C:\v\file`: "of the host", `C:\v\new`: "",
	}
	var paths []string
	for path := range want {
		paths = append(paths, path)
	}
	for container := range accounts {
		for i, got := range v.read(t, container, paths...) {
			if got != want[paths[i]] {
				t.Errorf("%s reads %s: %q, want %q", container, paths[i], got, want[paths[i]])
			}
		}
		if got := v.read(t, container, `C:\v\several\token`)[0]; strings.Count(got, ".") != 2 {
			t.Errorf("%s reads the token %s", container, got)
		}
	}
}

// testAccounts: every account writes to each volume that is for writing, and reads what the others wrote.
func testAccounts(t *testing.T, v volumes) {
	file := func(volume, by string) string { return `C:\v\` + volume + `\` + by + ".txt" }
	for container := range accounts {
		var paths []string
		for _, volume := range writable {
			paths = append(paths, file(volume, container))
		}
		for i, number := range v.write(t, container, paths...) {
			if number != "0" {
				t.Errorf("%s writes %s: error %s", container, paths[i], number)
			}
		}
	}
	for container := range accounts {
		var paths []string
		for _, volume := range writable {
			for other := range accounts {
				paths = append(paths, file(volume, other))
			}
		}
		for i, got := range v.read(t, container, paths...) {
			if got != "written" {
				t.Errorf("%s reads %s: %s", container, paths[i], got)
			}
		}
	}
}

// testSubPath: a directory of a claim, a directory named by the pod, and one file of a configMap.
func testSubPath(t *testing.T, v volumes) {
	for container, at := range map[string]string{"admin": `C:\v\claim\a\b\s.txt`, "user": `C:\v\empty\logs\all\s.txt`} {
		if got := v.write(t, container, `C:\sub\s.txt`)[0]; got != "0" {
			t.Errorf("%s writes below its subPath: error %s", container, got)
		}
		if got := v.read(t, "service", at)[0]; got != "written" {
			t.Errorf("%s: %s", at, got)
		}
	}
	if got, err := v.do(t, "service", "cmd", "/c", `type C:\sub\greeting & dir /b C:\sub`); got != "firstgreeting" {
		t.Errorf("the file of the configMap and its directory: %q, %v", got, err)
	}
}

// testReadOnly: Windows reports ERROR_ACCESS_DENIED or ERROR_WRITE_PROTECT, also to administrators.
func testReadOnly(t *testing.T, v volumes) {
	paths := []string{`C:\fixed\x`, `C:\v\settings\x`, `C:\v\password\x`, `C:\v\labels\x`, `C:\v\several\x`,
		`C:\v\settings\greeting`}
	for container := range accounts {
		for i, number := range v.write(t, container, paths...) {
			if number != "5" && number != "19" {
				t.Errorf("%s writes %s: %s", container, paths[i], number)
			}
		}
		if got := v.read(t, container, `C:\fixed\admin.txt`)[0]; got != "written" {
			t.Errorf("%s reads what the volume has elsewhere: %s", container, got)
		}
	}
}

// testHostPath: the host sees the files; a path of another type than asked for is refused.
func testHostPath(t *testing.T, v volumes) {
	for _, dir := range []string{"plain", `made/now`, "there", "local"} {
		if got, err := os.ReadFile(v.onHost(v.ns, dir, "user.txt")); err != nil || string(got) != "written" {
			t.Errorf("on the host, the file in %s is %q, %v", dir, got, err)
		}
	}
	for name, want := range map[string]string{
		"missing-directory": "is not a directory", "missing-file": "is not a file", "no-file": "is not a file",
	} {
		path, kind := `C:\`+v.ns+`\missing`, "Directory"
		if strings.HasSuffix(name, "-file") {
			kind = "File"
		}
		if name == "no-file" {
			path = `C:\` + v.ns + `\there`
		}
		v.pod(t, v.ns, name, onNode+`
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: "`+winprogImage+`", imagePullPolicy: Never, volumeMounts: [
    {name: v, mountPath: 'C:\v'}]}]
  volumes: [{name: v, hostPath: {path: '`+path+`', type: `+kind+`}}]`)
		v.event(t, v.ns, name, "hostPath type check failed: "+path+" "+want)
	}
}

// testUpdates changes everything that volumes show, and waits for all of it together.
func testUpdates(t *testing.T, v volumes) {
	v.kubectl(t, "patch", "configmap", "-n", v.ns, "settings", "-p", `{"data":{"greeting":"second"}}`)
	v.kubectl(t, "patch", "secret", "-n", v.ns, "password", "-p", `{"stringData":{"password":"new"}}`)
	v.kubectl(t, "label", "--overwrite", "pod", "-n", v.ns, "all", "edition=second")
	want := map[string]string{
		`C:\v\settings\greeting`: "second", `C:\v\password\password`: "new", `C:\v\labels\labels`: `edition="second"`,
		`C:\v\several\greeting`: "second", `C:\v\several\password`: "new", `C:\v\several\labels`: `edition="second"`,
		`C:\v\settings\other`: "untouched",
		// A file that is mounted by itself stays.
		`C:\sub\greeting`: "first",
	}
	var paths []string
	for path := range want {
		paths = append(paths, path)
	}
	n := 0
	eventually(t, 3*time.Minute, "updates", func() error {
		// The kubelet looks once a minute; a change of the pod wakes it.
		n++
		v.kubectl(t, "annotate", "--overwrite", "pod", "-n", v.ns, "all", fmt.Sprintf("look=%d", n))
		var left []error
		for i, got := range v.read(t, "service", paths...) {
			if got != want[paths[i]] {
				left = append(left, fmt.Errorf("%s: %q, want %q", paths[i], got, want[paths[i]]))
			}
		}
		return errors.Join(left...)
	})
}

// testVolumeStatistics: the kubelet counts each volume but those of the host, claims with their names.
func testVolumeStatistics(t *testing.T, v volumes) {
	claims := map[string]string{"local": "local", "claim": "claim", "kept": "kept", "own": "all-own"}
	eventually(t, 2*time.Minute, "statistics of volumes", func() error {
		var s struct {
			Pods []struct {
				PodRef struct{ Name, Namespace string }
				Volume []struct {
					Name                     string
					PVCRef                   struct{ Name string }
					UsedBytes, CapacityBytes uint64
				}
			}
		}
		text := v.kubectl(t, "get", "--raw", "/api/v1/nodes/win-1/proxy/stats/summary")
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			return err
		}
		counted := map[string]bool{}
		for _, p := range s.Pods {
			for _, volume := range p.Volume {
				if p.PodRef.Namespace == v.ns && p.PodRef.Name == "all" && volume.UsedBytes > 0 &&
					volume.CapacityBytes > volume.UsedBytes && volume.PVCRef.Name == claims[volume.Name] {
					counted[volume.Name] = true
				}
			}
		}
		var left []error
		for _, name := range []string{"empty", "local", "claim", "kept", "own", "settings", "password", "several"} {
			if !counted[name] {
				left = append(left, fmt.Errorf("%s is not counted", name))
			}
		}
		return errors.Join(left...)
	})
}

// testVolumesKept kills a container: the next one has the volumes as they were.
func testVolumesKept(t *testing.T, v volumes) {
	if err := syscall.Kill(v.containerProcess(t, v.ns, "all"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	v.until(t, v.ns, "all", "{.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}",
		"1 true")
	for i, got := range v.read(t, "admin", `C:\v\empty\admin.txt`, `C:\v\claim\user.txt`, `C:\sub\s.txt`) {
		if got != "written" {
			t.Errorf("file %d: %s", i, got)
		}
	}
}
