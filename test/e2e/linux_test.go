// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"archive/tar"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	containername "github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// linuxprogImage holds testdata/linuxprog on the Linux worker.
const linuxprogImage = "example.test/linuxprog:v1"

// linuxprog is built once for all tests.
var linuxprog struct {
	built   sync.Once
	layer   []byte // with the program
	archive []byte
	err     error
}

// linuxprogArchive builds the program and makes an image of it.
func linuxprogArchive(t *testing.T) []byte {
	t.Helper()
	testenv.Compiles(t, "test/e2e/testdata/linuxprog")
	linuxprog.built.Do(func() {
		file := filepath.Join(t.TempDir(), "linuxprog")
		build := exec.Command("go", "build", "-trimpath", "-o", file, "./testdata/linuxprog")
		build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			linuxprog.err = fmt.Errorf("build linuxprog: %w: %s", err, out)
			return
		}
		program, err := os.ReadFile(file)
		if err == nil {
			linuxprog.layer, err = linuxLayer(program)
		}
		if err == nil {
			linuxprog.archive, err = linuxImage(linuxprog.layer, linuxprogImage)
		}
		linuxprog.err = err
	})
	if linuxprog.err != nil {
		t.Fatal(linuxprog.err)
	}
	return linuxprog.archive
}

// withLinuxprog loads the program's image, once for all tests of the cluster.
func (c *shared) withLinuxprog(t *testing.T) {
	t.Helper()
	archive := linuxprogArchive(t)
	c.linuxprog.Do(func() {
		out, err := c.try(t.Context(), string(archive), "load", "-", "--name", c.name, "--data-dir", c.dir)
		if err != nil || !strings.Contains(out, linuxprogImage+" (linux/amd64, ") ||
			!strings.HasSuffix(strings.TrimSpace(out), " on linux-1") {
			linuxprog.err = fmt.Errorf("load printed %q: %w", out, cmp.Or(err, errors.New("not as expected")))
		}
	})
	if linuxprog.err != nil {
		t.Fatal(linuxprog.err)
	}
}

// linuxImage returns an image with one layer as `docker save` writes it.
func linuxImage(layer []byte, ref string) ([]byte, error) {
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layer)), nil
	})
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		return nil, err
	}
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{OS: "linux", Architecture: "amd64",
		Config: v1.Config{Entrypoint: []string{"/linuxprog"}}, RootFS: mustConfig(img).RootFS})
	if err != nil {
		return nil, err
	}
	tag, err := containername.NewTag(ref)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = tarball.Write(tag, img, &out)
	return out.Bytes(), err
}

// linuxLayer returns a layer with the program.
func linuxLayer(program []byte) ([]byte, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777},
		{Typeflag: tar.TypeReg, Name: "linuxprog", Mode: 0o755, Size: int64(len(program))},
	} {
		if err := w.WriteHeader(&h); err != nil {
			return nil, err
		}
	}
	if _, err := w.Write(program); err != nil {
		return nil, err
	}
	err := w.Close()
	return layer.Bytes(), err
}

// mustConfig returns the configuration of an image that was made here.
func mustConfig(img v1.Image) *v1.ConfigFile {
	c, err := img.ConfigFile()
	if err != nil {
		panic(err)
	}
	return c
}

// linuxPod returns a manifest; nothing in it says Linux but the image.
func linuxPod(pod, args string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {app: %[1]s}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: %[2]s, args: [%[3]s]}
---
`, pod, linuxprogImage, args)
}

func (c *shared) linuxServer(t *testing.T, ns string) {
	t.Helper()
	c.apply(t, ns, linuxPod("web", "serve")+`apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, selector: {app: web}, ports: [{port: 80}]}
`)
	c.kubectl(t, "wait", "-n", ns, "--for=condition=Ready", "pod/web", "--timeout=180s")
}

// TestMixed is the example of the README: a Linux front end with a Windows back end, and
// the other way round.
func TestMixed(t *testing.T) {
	t.Parallel()
	c := up(t)
	ns := c.namespace(t)
	if out, err := c.try(t.Context(), "", "load", testenv.Bin("linux", "hello.tar"), "--name", c.name, "--data-dir",
		c.dir); err != nil {
		t.Fatalf("load: %v: %s", err, out)
	}
	c.kubectl(t, "apply", "-n", ns, "-f", filepath.Join("..", "..", "examples", "mixed.yaml"))
	c.kubectl(t, "wait", "-n", ns, "--for=condition=Available", "deployment", "--all", "--timeout=120s")
	for front, want := range map[string][]string{
		"linux-front": {"Linux container linux-front-", "behind it: Windows container WIN-BACK-"},
		"win-front":   {"Windows container WIN-FRONT-", "behind it: Linux container linux-back-"},
	} {
		url := c.url(t, front, "-n", ns)
		eventually(t, 30*time.Second, front, func() error {
			body, err := get(url)
			for _, part := range want {
				if err == nil && !strings.Contains(body, part) {
					err = fmt.Errorf("%q is not in %q", part, body)
				}
			}
			return err
		})
	}
}

// TestLinuxPod uses a Linux pod as people do: by every address, with exec, logs, attach
// and port-forward, and from a Windows pod.
func TestLinuxPod(t *testing.T) {
	t.Parallel()
	c := up(t)
	c.withLinuxprog(t)
	c.withWinprog(t)
	ns := c.namespace(t)
	c.linuxServer(t, ns)
	c.apply(t, ns, linuxPod("client", "wait")+linuxPod("counter", "count"))
	c.pod(t, ns, "win", onNode+"\n  containers:\n  - {name: main, image: "+winprogImage+", args: [wait]}")
	c.kubectl(t, "wait", "-n", ns, "--for=condition=Ready", "pod", "--all", "--timeout=180s")
	field := func(of, path string) string { return c.kubectl(t, "get", "-n", ns, of, "-o", "jsonpath={"+path+"}") }
	if node := field("pod/web", ".spec.nodeName"); node != "linux-1" {
		t.Fatalf("the pod is on %q", node)
	}
	nodePort := field("service/web", ".spec.ports[0].nodePort")
	addresses := []string{
		"web", "web." + ns, "web." + ns + ".svc.cluster.local", field("service/web", ".spec.clusterIP"),
		field("pod/web", ".status.podIP"),
	}
	for _, node := range []string{"linux-1", "win-1"} {
		addresses = append(addresses, field("node/"+node, ".status.addresses[?(@.type==\"InternalIP\")].address")+":"+
			nodePort)
	}
	eventually(t, 30*time.Second, "kube-proxy on all nodes", func() error {
		_, err := get("http://" + addresses[len(addresses)-1])
		return err
	})
	for _, a := range addresses {
		if out := c.exec(t, ns, "client", "/linuxprog", "get", "http://"+a); !strings.HasPrefix(out, "linux web, ") {
			t.Errorf("from a Linux pod, %s answers %q", a, out)
		}
	}
	own := field("pod/client", ".status.podIP")
	if out := c.exec(t, ns, "client", "/linuxprog", "get", "http://web"); !strings.Contains(out, "asked by "+own) {
		t.Errorf("the server does not see the pod's address, %s: %q", own, out)
	}
	for _, a := range []string{"web", addresses[3], addresses[4]} {
		if out := c.exec(t, ns, "win", "curl.exe", "-s", "http://"+a); !strings.HasPrefix(out, "linux web, ") {
			t.Errorf("from a Windows pod, %s answers %q", a, out)
		}
	}
	out, err := c.try(t.Context(), "one\ntwo\n", "kubectl", "--name", c.name, "--data-dir", c.dir, "exec", "-i", "-n",
		ns, "client", "--", "/linuxprog", "cat")
	if err != nil || out != "one\ntwo\n" {
		t.Errorf("exec -i: %q, %v", out, err)
	}
	if out := c.kubectl(t, "logs", "-n", ns, "counter"); !strings.HasPrefix(out, "0\n1\n") {
		t.Errorf("logs %q", out)
	}
	_, err = c.execErr(t.Context(), ns, "client", "/linuxprog", "get", "http://127.0.0.1:1")
	if err == nil || !strings.Contains(err.Error(), "exit code 1") {
		t.Errorf("an exit code: %v", err)
	}
}

// TestLinuxKill kills every kind of process of a worker with -9. Pods live on, but for the
// whole host's end, after which they are started again.
func TestLinuxKill(t *testing.T) {
	c := alone(t)
	c.withLinuxprog(t)
	ns := c.namespace(t)
	c.linuxServer(t, ns)
	url := c.url(t, "web", "-n", ns)
	restarts := func() string {
		return c.kubectl(t, "get", "pod", "-n", ns, "web", "-o", "jsonpath={.status.containerStatuses[0].restartCount}")
	}
	before := restarts()
	for _, tc := range []struct {
		argv  string
		lives bool
	}{
		{"linux/containerd --config", true}, {"linux/kubelet", true}, {"linux/kube-proxy", true},
		{"mullion-linuxhost --config", false},
	} {
		t.Run(tc.argv, func(t *testing.T) {
			victims := c.kill(t, tc.argv, "linux-1", true)
			eventually(t, 90*time.Second, "everything ready again", func() error {
				if _, err := c.try(t.Context(), "", "status", "--name", c.name, "--data-dir", c.dir); err != nil {
					return err
				}
				if now := c.processes(t, tc.argv, "linux-1", true); len(now) == 0 || slices.Equal(now, victims) {
					return fmt.Errorf("%s is not back", tc.argv)
				}
				if _, err := c.execErr(t.Context(), ns, "web", "/linuxprog", "get", "http://web"); err != nil {
					return err
				}
				_, err := get(url)
				return err
			})
			after := restarts()
			if tc.lives && after != before {
				t.Errorf("the container was restarted (%s, then %s); it must live on", before, after)
			}
			before = after
		})
	}
}

// TestWorkerLeavesTheMachineAlone compares the machine's settings with those of the
// worker, and tries to touch the machine from pods. A privileged pod can become root on the
// machine if it wants to (SECURITY.md); it must not be able to by an ordinary mistake.
func TestWorkerLeavesTheMachineAlone(t *testing.T) {
	c := up(t)
	c.withLinuxprog(t)
	ns := c.namespace(t)
	before := machineState(t)
	c.apply(t, ns, linuxPod("plain", "wait")+`apiVersion: v1
kind: Pod
metadata: {name: root}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: `+linuxprogImage+`
    securityContext: {privileged: true}
    volumeMounts: [{name: host, mountPath: /host}]
  volumes: [{name: host, hostPath: {path: /}}]
`)
	c.kubectl(t, "wait", "-n", ns, "--for=condition=Ready", "pod", "--all", "--timeout=180s")
	for _, tc := range []struct {
		pod     string
		command []string
		want    string // in the error
	}{
		{"plain", []string{"write", "/proc/sys/kernel/panic", "99"}, "read-only file system"},
		{"plain", []string{"device", "/tmp/sda", "b", "8", "0"}, "operation not permitted"},
		{"plain", []string{"device", "/tmp/mem", "c", "1", "1"}, "operation not permitted"},
		{"root", []string{"device", "/tmp/sda", "b", "8", "0"}, "operation not permitted"},
		{"root", []string{"device", "/tmp/mem", "c", "1", "1"}, "operation not permitted"},
		{"root", []string{"device", "/tmp/kmsg", "c", "1", "11"}, "operation not permitted"},
		{"root", []string{"write", "/host/proc/sys/kernel/panic", "99"}, "read-only file system"},
		{"root", []string{"write", "/host/proc/sys/kernel/core_pattern", "x"}, "read-only file system"},
		{"root", []string{"write", "/proc/sys/kernel/core_pattern", "x"}, "read-only file system"},
		{"root", []string{"write", "/proc/sys/vm/overcommit_memory", "1"}, "read-only file system"},
		{"root", []string{"write", "/proc/irq/default_smp_affinity", "1"}, "read-only file system"},
		{"root", []string{"write", "/sys/kernel/mm/transparent_hugepage/enabled", "never"}, "read-only file system"},
		{"root", []string{"write", "/host/etc/shadow", "x"}, "no such file"},
		{"root", []string{"write", "/host/usr/bin/true", "x"}, "read-only file system"},
		{"root", []string{"write", "/host/opt/mullion/linux/pause.tar", "x"}, "read-only file system"},
	} {
		_, err := c.execErr(t.Context(), ns, tc.pod, append([]string{"/linuxprog"}, tc.command...)...)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s, %v: %v, want %q", tc.pod, tc.command, err, tc.want)
		}
	}
	// Those of the pod's own namespaces stay its own.
	for _, name := range []string{"net/ipv4/ip_forward", "kernel/shm_rmid_forced"} {
		c.exec(t, ns, "root", "/linuxprog", "write", "/proc/sys/"+name, "1")
	}
	var bounding uint64
	for line := range strings.Lines(c.exec(t, ns, "root", "/linuxprog", "status")) {
		if text, ok := strings.CutPrefix(line, "CapBnd:"); ok {
			if _, err := fmt.Sscanf(strings.TrimSpace(text), "%x", &bounding); err != nil {
				t.Fatal(err)
			}
		}
	}
	const given = 1<<unix.CAP_SYS_MODULE | 1<<unix.CAP_SYS_RAWIO | 1<<unix.CAP_SYS_BOOT | 1<<unix.CAP_SYS_TIME
	if bounding == 0 || bounding&given != 0 {
		t.Errorf("a privileged pod has the capabilities %x", bounding)
	}
	if now := machineState(t); now != before {
		t.Errorf("the machine was\n%s\nand is\n%s", before, now)
	}
}

// TestLinuxPodIsFiltered: a pod that names no seccomp profile has containerd's, and one in a user namespace of its own
// needs a runc that can map the ids of volumes.
func TestLinuxPodIsFiltered(t *testing.T) {
	t.Parallel()
	c := up(t)
	c.withLinuxprog(t)
	ns := c.namespace(t)
	c.apply(t, ns, linuxPod("plain", "wait")+strings.Replace(linuxPod("mapped", "wait"), "spec:",
		"spec:\n  hostUsers: false", 1))
	c.kubectl(t, "wait", "-n", ns, "--for=condition=Ready", "pod/plain", "--timeout=180s")
	if status := c.exec(t, ns, "plain", "/linuxprog", "status"); !strings.Contains(status, "\nSeccomp:\t2\n") {
		t.Errorf("the pod has no filter:\n%s", status)
	}
	calls := c.exec(t, ns, "plain", "/linuxprog", "calls")
	for _, call := range []string{"socket(AF_VSOCK)", "socket(AF_ALG)", "keyctl", "add_key", "request_key",
		"io_uring_setup", "perf_event_open", "bpf", "userfaultfd", "unshare(CLONE_NEWUSER)", "mount"} {
		_, got, _ := strings.Cut(calls, call+": ")
		if got, _, _ = strings.Cut(got, "\n"); got != "operation not permitted" && got != "function not implemented" {
			t.Errorf("%s: %s", call, got)
		}
	}
	eventually(t, 60*time.Second, "the pod with ids of its own runs, or an event says why not", func() error {
		phase := c.kubectl(t, "get", "pod", "-n", ns, "mapped", "-o", "jsonpath={.status.phase}")
		events := c.kubectl(t, "get", "events", "-n", ns, "--field-selector=involvedObject.name=mapped")
		if phase == "Running" || strings.Contains(events, "runtime does not support user namespaces") {
			return nil
		}
		return fmt.Errorf("%s: %s", phase, events)
	})
}

// machineState returns what kubelet, kube-proxy and CNI plugins change on a machine that is a
// node.
func machineState(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, name := range []string{"kernel/panic", "kernel/panic_on_oops", "kernel/core_pattern", "vm/overcommit_memory",
		"vm/panic_on_oom", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes", "net/ipv4/ip_forward",
		"net/ipv4/conf/all/route_localnet", "net/netfilter/nf_conntrack_max"} {
		content, err := os.ReadFile("/proc/sys/" + name)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %s", name, content)
	}
	tables, err := exec.CommandContext(t.Context(), "nft", "list", "tables").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(tables)) {
		// Those of other clusters come and go.
		if !strings.Contains(line, " mullion-") {
			b.WriteString(line)
		}
	}
	return b.String()
}
