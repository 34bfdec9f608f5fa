// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestStatefulSet takes examples/statefulset.yaml through a pod's end, a node without its volume, and a scale to
// nothing and back: each pod finds its data on the node where it wrote it.
func TestStatefulSet(t *testing.T) {
	t.Parallel()
	c := up(t)
	v := volumes{c, c.namespace(t)}
	v.kubectl(t, "apply", "-n", v.ns, "-f", filepath.Join("..", "..", "examples", "statefulset.yaml"))
	v.kubectl(t, "rollout", "status", "-n", v.ns, "statefulset/diary", "--timeout=120s")
	node := v.get(t, v.ns, "diary-0", "{.spec.nodeName}")
	starts := func(want int) {
		t.Helper()
		v.kubectl(t, "rollout", "status", "-n", v.ns, "statefulset/diary", "--timeout=120s")
		eventually(t, time.Minute, "the diary", func() error {
			out, err := v.execErr(t.Context(), v.ns, "diary-0", "cmd", "/c", `type C:\diary\starts.txt`)
			if lines := strings.Fields(out); err == nil && strings.Join(lines, " ") !=
				strings.TrimSpace(strings.Repeat("DIARY-0 ", want)) {
				err = fmt.Errorf("it has %q, want DIARY-0 %d times", lines, want)
			}
			return err
		})
		if now := v.get(t, v.ns, "diary-0", "{.spec.nodeName}"); now != node {
			t.Errorf("the pod is on %s, and its volume on %s", now, node)
		}
	}
	starts(1)
	v.kubectl(t, "delete", "pod", "-n", v.ns, "diary-0")
	starts(2)

	// Elsewhere there is no volume for it.
	other := "win-1"
	if node == other {
		other = "win-2"
	}
	selector := func(host string) {
		v.kubectl(t, "patch", "statefulset", "-n", v.ns, "diary", "-p",
			`{"spec":{"replicas":1,"template":{"spec":{"nodeSelector":{"kubernetes.io/hostname":`+host+`}}}}}`)
	}
	selector(`"` + other + `"`)
	eventually(t, time.Minute, "the reason why the pod waits", func() error {
		got, err := v.kubectlErr(t.Context(), "get", "pod", "-n", v.ns, "diary-0", "-o",
			`jsonpath={.status.phase} {.status.conditions[?(@.type=="PodScheduled")].message}`)
		if err == nil && (!strings.HasPrefix(got, "Pending ") || !strings.Contains(got,
			"PersistentVolume's node affinity")) {
			err = fmt.Errorf("%q", got)
		}
		return err
	})
	selector("null")
	starts(3)

	v.kubectl(t, "scale", "-n", v.ns, "statefulset/diary", "--replicas=0")
	v.kubectl(t, "wait", "-n", v.ns, "--for=delete", "pod/diary-0", "--timeout=180s")
	v.becomes(t, v.ns, "pvc/diary-diary-0", "{.status.phase}", "Bound")
	v.kubectl(t, "scale", "-n", v.ns, "statefulset/diary", "--replicas=1")
	starts(4)
}

// volumeOf returns the PersistentVolume of a claim.
func (v volumes) volumeOf(t *testing.T, claim string) string {
	t.Helper()
	return v.kubectl(t, "get", "pvc", "-n", v.ns, claim, "-o", "jsonpath={.spec.volumeName}")
}

// testProtection deletes claims that a pod uses: they stay until it has gone.
func testProtection(t *testing.T, v volumes) {
	v.kubectl(t, "delete", "pvc", "-n", v.ns, "claim", "kept", "--wait=false")
	for _, claim := range []string{"claim", "kept"} {
		got := v.kubectl(t, "get", "pvc", "-n", v.ns, claim, "-o",
			"jsonpath={.status.phase} {.metadata.finalizers} {.metadata.deletionTimestamp}")
		if !strings.HasPrefix(got, `Bound ["kubernetes.io/pvc-protection"`) || strings.HasSuffix(got, " ") {
			t.Errorf("claim %s is %q, want one that is Bound and ends later", claim, got)
		}
	}
	if got := v.write(t, "user", `C:\v\claim\user.txt`)[0]; got != "0" {
		t.Errorf("the pod writes to a claim that ends: error %s", got)
	}
}

// testEndOfClaims deletes the pod, with which its claims end, too: the PersistentVolume goes with
// reclaimPolicy Delete, and its node gets a mark. With Retain it stays, with the data, so that another claim can have
// it; and the data stays without it, so that another PersistentVolume can.
func testEndOfClaims(t *testing.T, v volumes) {
	deleted, kept, own := v.volumeOf(t, "claim"), v.volumeOf(t, "kept"), v.volumeOf(t, "all-own")
	renamed := v.ns + "-restored"
	t.Cleanup(func() {
		_, err := v.kubectlErr(context.Background(), "delete", "pv", kept, renamed, "--wait=false",
			"--ignore-not-found")
		if err != nil {
			t.Error(err)
		}
	})
	v.kubectl(t, "delete", "pod", "-n", v.ns, "all", "--timeout=180s")
	v.kubectl(t, "wait", "-n", v.ns, "--for=delete", "pvc/claim", "pvc/kept", "pvc/all-own", "--timeout=180s")
	v.kubectl(t, "wait", "--for=delete", "pv/"+deleted, "pv/"+own, "--timeout=180s")
	marks := v.kubectl(t, "get", "node", "win-1", "-o", "jsonpath={.metadata.annotations}")
	for volume, want := range map[string]bool{deleted: true, own: true, kept: false} {
		if strings.Contains(marks, "deleted.local.mullion.dev/"+volume) != want {
			t.Errorf("the mark of %s is in %s; want it: %v", volume, marks, want)
		}
	}
	v.becomes(t, "default", "pv/"+kept, "{.status.phase}", "Released")
	if got, err := os.ReadFile(v.onHost("ProgramData", "mullion", "volumes", kept, "user.txt")); err != nil ||
		string(got) != "written" {
		t.Errorf("the data is %q, %v", got, err)
	}

	v.kubectl(t, "patch", "pv", kept, "--type=json", "-p", `[{"op":"remove","path":"/spec/claimRef"}]`)
	v.again(t, "again", kept)
	v.kubectl(t, "delete", "pvc", "-n", v.ns, "again", "--timeout=180s")
	old := v.kubectl(t, "get", "pv", kept, "-o", "json")
	v.kubectl(t, "delete", "pv", kept, "--timeout=180s")
	v.apply(t, v.ns, rename(t, old, renamed))
	v.again(t, "restored", renamed)
}

// again reads the file of a volume through another claim, in another pod.
func (v volumes) again(t *testing.T, claim, volume string) {
	t.Helper()
	v.apply(t, v.ns, `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: `+claim+`}
spec: {accessModes: [ReadWriteOncePod], storageClassName: `+v.ns+`-retain, volumeName: `+volume+`,
  resources: {requests: {storage: 100Mi}}}
`)
	v.pod(t, v.ns, claim, `os: {name: windows}
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: "`+winprogImage+`", imagePullPolicy: Never, args: [wait], volumeMounts: [
    {name: v, mountPath: 'C:\v'}]}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: `+claim+`}}]`)
	v.ready(t, v.ns, claim)
	if got := v.exec(t, v.ns, claim, "cmd", "/c", `type C:\v\user.txt`); got != "written" {
		t.Errorf("claim %s has %s", claim, got)
	}
	v.kubectl(t, "delete", "pod", "-n", v.ns, claim, "--timeout=180s")
}

// rename returns the manifest of a PersistentVolume with the same data and another name.
func rename(t *testing.T, manifest, name string) string {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(manifest), &o); err != nil {
		t.Fatal(err)
	}
	o["metadata"] = map[string]string{"name": name}
	delete(o["spec"].(map[string]any), "claimRef")
	delete(o, "status")
	out, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// forget removes what the namespace does not take with it.
func (v volumes) forget(t *testing.T) {
	for _, object := range []string{"pv/" + v.ns + "-by-hand", "storageclass/" + v.ns + "-retain"} {
		if _, err := v.kubectlErr(context.Background(), "delete", object, "--wait=false"); err != nil {
			t.Error(err)
		}
	}
}

// testResize: a claim of mullion-local keeps its size; the API server says why.
func testResize(t *testing.T, v volumes) {
	_, err := v.kubectlErr(t.Context(), "patch", "pvc", "-n", v.ns, "claim", "-p",
		`{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`)
	if err == nil || !strings.Contains(err.Error(), "the storageclass that provisions the pvc must support resize") {
		t.Errorf("resize: %v", err)
	}
}

// TestStorageRefused: a volume that Windows does not have is refused, or reported, with the rule that says so; a
// claim that mullion-local cannot satisfy gets an event.
func TestStorageRefused(t *testing.T) {
	t.Parallel()
	c := up(t)
	ns := c.namespace(t)
	const mounts, devices = `volumeMounts: [{name: v, mountPath: 'C:\v'}]`, `volumeDevices: [{name: v, devicePath: /v}]`
	pod := func(name, volume, more string) string {
		return `apiVersion: v1
kind: Pod
metadata: {name: ` + name + `}
spec:
  containers: [{name: main, image: "mcr.microsoft.com/windows/servercore:ltsc2019", ` + more + `}]
  volumes: [{name: v, ` + volume + `}]
---
`
	}
	for _, tc := range []struct {
		volume, more, want string
		accepted           bool
	}{
		{`nfs: {server: nfs.example, path: /data}`, mounts, "WIN208", false},
		{`iscsi: {targetPortal: 192.0.2.1, iqn: 'iqn.2001-04.com.example:a', lun: 0}`, mounts, "WIN209", false},
		{`fc: {targetWWNs: ['500a0982991b8dc5'], lun: 0}`, mounts, "WIN209", false},
		{`emptyDir: {medium: HugePages}`, mounts, "WIN210", false},
		{`hostPath: {path: 'C:\d', type: CharDevice}`, mounts, "WIN212", false},
		{`hostPath: {path: 'C:\d', type: BlockDevice}`, mounts, "WIN212", false},
		{`hostPath: {path: '\\.\pipe\containerd-containerd', type: Socket}`, mounts, "WIN213", false},
		{`image: {reference: example.test/data}`, mounts, "WIN215", false},
		{`emptyDir: {medium: Memory}`, mounts, "WIN307", true},
		{`persistentVolumeClaim: {claimName: block}`, devices, "WIN211", true},
	} {
		manifest := pod("refused", tc.volume, tc.more)
		out, err := c.try(t.Context(), manifest, "kubectl", "--name", c.name, "--data-dir", c.dir,
			"apply", "-n", ns, "--dry-run=server", "-f", "-")
		if !strings.Contains(out, tc.want) || (err == nil) != tc.accepted {
			t.Errorf("%s: %v: %s; want %s", tc.volume, err, out, tc.want)
		}
	}
	out, err := c.try(t.Context(), `apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: `+ns+`}
provisioner: local.mullion.dev
`, "kubectl", "--name", c.name, "--data-dir", c.dir, "apply", "--dry-run=server", "-f", "-")
	if !strings.Contains(out, "WIN241") || err != nil {
		t.Errorf("a class that binds at once: %v: %s; want a warning", err, out)
	}
	claim := func(name, fields string) string {
		return `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: ` + name + `}
spec: {resources: {requests: {storage: 1Gi}}, ` + fields + `}
---
`
	}
	c.apply(t, ns, claim("block", `accessModes: [ReadWriteOnce], volumeMode: Block`)+
		claim("many", `accessModes: [ReadWriteMany]`)+
		pod("block", `persistentVolumeClaim: {claimName: block}`, devices)+
		pod("many", `persistentVolumeClaim: {claimName: many}`, mounts))
	c.event(t, ns, "block", "volumeMode Block: volumes of local.mullion.dev are directories")
	c.event(t, ns, "many", "access mode ReadWriteMany: volumes of local.mullion.dev are directories of one node")
}

// TestStorageOnLinux: a Linux pod keeps its data, too; it is not root, and its group owns the volume.
func TestStorageOnLinux(t *testing.T) {
	t.Parallel()
	c := up(t)
	c.withLinuxprog(t)
	ns := c.namespace(t)
	manifest := `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 100Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: keeper}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {runAsUser: 1000, runAsGroup: 1000, fsGroup: 2000}
  containers: [{name: main, image: "` + linuxprogImage + `", args: [wait], volumeMounts: [{name: v, mountPath: /v}]}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]
`
	want := ""
	for range 2 {
		want += "here\n"
		c.apply(t, ns, manifest)
		c.ready(t, ns, "keeper")
		if got := c.exec(t, ns, "keeper", "/linuxprog", "append", "/v/diary", "here"); got+"\n" != want {
			t.Errorf("the file has %q, want %q", got, want)
		}
		c.kubectl(t, "delete", "pod", "-n", ns, "keeper", "--timeout=180s")
	}
	volume := c.kubectl(t, "get", "pvc", "-n", ns, "data", "-o", "jsonpath={.spec.volumeName}")
	var st syscall.Stat_t
	file := filepath.Join(hostRoot(filepath.Join(c.dir, "clusters", c.name, "run", "linux-1.json")),
		"var", "lib", "mullion", "volumes", volume, "diary")
	if err := syscall.Stat(file, &st); err != nil || st.Uid != 1000 || st.Gid != 2000 {
		t.Errorf("the file is of %d:%d, want 1000:2000, %v", st.Uid, st.Gid, err)
	}
}
