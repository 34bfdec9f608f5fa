// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestIsolation runs a hostile Windows program in a container. It knows that
// it runs under Wine, and where the machine's files and services are; it must
// see only its container.
func TestIsolation(t *testing.T) {
	t.Parallel()
	c := up(t)
	c.withWinprog(t)
	ns := c.namespace(t)
	// A file on the machine and one of the emulated host, with known content.
	machineFile := filepath.Join(t.TempDir(), "secret.txt")
	//nolint:gosec // readable to all, if it can be reached
	if err := os.WriteFile(machineFile, []byte("of the machine"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Dir(machineFile), filepath.Dir(filepath.Dir(machineFile))} {
		if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // the same
			t.Fatal(err)
		}
	}
	cluster := filepath.Join(c.dir, "clusters", c.name)
	var plan struct {
		Addresses []string `json:"addresses"`
		Port      int      `json:"port"`
	}
	readJSON(t, filepath.Join(cluster, "run", "server-config.json"), &plan)
	args := []string{"escape", "file=" + machineFile, "file=/etc/shadow", "file=/etc/machine-id",
		"file=/etc/debian_version", "file=/bin/mount", "file=" + filepath.Join(cluster, "admin.kubeconfig"),
		"file=" + filepath.Join(cluster, "pki", "ca.key"), "file=/prefix/drive_c/ProgramData/mullion/agent.json",
		"file=/opt/mullion/mullion"}
	args = append(args, c.sockets(t, cluster)...)
	node := c.kubectl(t, "get", "node", "win-1", "-o", `jsonpath={.status.addresses[?(@.type=="InternalIP")].address}`)
	var machine string
	for _, a := range plan.Addresses {
		if !net.ParseIP(a).IsLoopback() {
			machine = a
		}
	}
	for _, host := range []string{"127.0.0.1", node, machine} {
		// HNS, CRI; kubelet's health, kube-proxy's health and metrics; etcd,
		// controller-manager, scheduler.
		for _, port := range []int{10270, 10271, 10248, 10249, 2379, 2380, 10257, 10259} {
			args = append(args, fmt.Sprintf("tcp=%s:%d", host, port))
		}
	}
	args = append(args, fmt.Sprintf("tcp=127.0.0.1:%d", plan.Port), "tcp=127.0.0.1:10250", "tcp=169.254.169.254:80",
		"tcp=127.0.0.1:22", "tcp="+machine+":22")
	// What any program of the machine offers on all of its addresses.
	listener, err := net.Listen("tcp4", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil {
			args = append(args, fmt.Sprintf("tcp=%s:%d", ip.IP, listener.Addr().(*net.TCPAddr).Port))
		}
	}
	quoted, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	c.pod(t, ns, "hostile", onNode+`
  restartPolicy: Never
  containers:
  - {name: main, image: "`+winprogImage+`", imagePullPolicy: Never, args: `+string(quoted)+`}
  - {name: door32, image: "`+winprogImage+`", imagePullPolicy: Never, args: [int80]}`)
	c.until(t, ns, "hostile", "{.status.containerStatuses[?(@.name=='main')].state.terminated.exitCode}", "0")
	out := c.kubectl(t, "logs", "-n", ns, "hostile", "-c", "main")
	if os.Getenv("MULLION_DEBUG") != "" {
		t.Log(out)
	}
	sawOnlyItself(t, out, c.dir, filepath.Dir(machineFile))
	// The kernel ends the program that knocks at the 32-bit door.
	// The exit code is STATUS_ACCESS_VIOLATION.
	c.until(t, ns, "hostile", "{.status.containerStatuses[?(@.name=='door32')].state.terminated.exitCode}",
		"-1073741819")
	if out := c.kubectl(t, "logs", "-n", ns, "hostile", "-c", "door32"); !strings.Contains(out, "trying") ||
		strings.Contains(out, "ESCAPED") {
		t.Errorf("32-bit system calls: %s", out)
	}
}

// sawOnlyItself checks what the hostile program wrote: it has no rights, and
// sees nothing of the machine, such as the cluster's directory or that of a file.
func sawOnlyItself(t *testing.T, out, dir, fileDir string) {
	t.Helper()
	if !strings.Contains(out, "done: all tried") {
		t.Fatalf("the program did not come to its end: %s", out)
	}
	for l := range strings.SplitSeq(out, "\n") {
		if strings.HasPrefix(l, "ESCAPED") {
			t.Error(l)
		}
	}
	for field, want := range map[string]string{
		"CapInh": "0+", "CapPrm": "0+", "CapEff": "0+", "CapBnd": "0+", "CapAmb": "0+", "NoNewPrivs": "1",
		"Seccomp": "2", "uid": "[1-9][0-9]*",
	} {
		if !regexp.MustCompile("(?m)^" + field + ": " + want + "$").MatchString(out) {
			t.Errorf("no line %s: %s in %s", field, want, lines(out, field))
		}
	}
	// Nothing of the machine by name in what it can list.
	for _, forbidden := range []string{"kubelet", "etcd", "winhost", "mullion-kube", "conmon", "containerd", dir,
		fileDir} {
		for l := range strings.SplitSeq(out, "\n") {
			// Sources of mounts have their paths; its own arguments, too.
			if strings.Contains(l, forbidden) && !strings.HasPrefix(l, "/proc/self/mountinfo") &&
				!strings.Contains(l, " escape file=") {
				t.Errorf("the container sees %s", l)
			}
		}
	}
	for l := range strings.SplitSeq(out, "\n") {
		if d, ok := strings.CutPrefix(l, "drive: "); ok && d != "C" {
			t.Errorf("drive %s exists", d)
		}
		if m := regexp.MustCompile(`^open for writing (\S+): errno 0$`).FindStringSubmatch(l); m != nil &&
			m[1] != "/proc/1/mem" {
			t.Errorf("opened for writing: %s", m[1]) // /proc/1 is the container's own
		}
	}
}

// sockets returns the Unix sockets of the cluster, as arguments.
func (c *shared) sockets(t *testing.T, cluster string) []string {
	t.Helper()
	out := []string{"unix=/run/docker.sock", "unix=/run/systemd/private", "unix=/run/dbus/system_bus_socket"}
	err := filepath.WalkDir(cluster, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Type() == os.ModeSocket {
			out = append(out, "unix="+p)
		}
		return nil //nolint:nilerr // a file that vanishes need not be tried
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func readJSON(t *testing.T, file string, v any) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, v); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func lines(out, prefix string) string {
	var got []string
	for l := range strings.SplitSeq(out, "\n") {
		if strings.HasPrefix(l, prefix) {
			got = append(got, l)
		}
	}
	return strings.Join(got, "\n")
}
