// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// filler is how pods of one operating system fill a directory and write one line to a file.
type filler struct {
	node, image, dir, full string
	wait, log              string // commands of containers, in JSON; log prints 20 MB
	fill                   func(dir string) []string
	write                  func(file string) []string
	onHost, volumes        string // directories of the host's disk
	archive                func(t *testing.T) []byte
}

func fillers() []filler {
	const doubling = `echo 0123456789> %[1]s\a & (for /L %%i in (1,1,30) do ` +
		`@copy /b /y %[1]s\a+%[1]s\a+%[1]s\a+%[1]s\a %[1]s\b >nul && copy /b /y %[1]s\b %[1]s\a >nul) 2>&1`
	line := strings.Repeat("x", 98)
	return []filler{
		{
			node: "win-1", image: "mcr.microsoft.com/windows/servercore:ltsc2019", dir: `C:`,
			full: "There is not enough space on the disk.",
			wait: `["cmd", "/c", "ping -t localhost >nul"]`,
			log:  `["cmd", "/c", "for /L %i in (1,1,200000) do @echo ` + line + `"]`,
			fill: func(dir string) []string { return []string{"cmd", "/c", fmt.Sprintf(doubling, dir)} },
			write: func(file string) []string {
				return []string{"cmd", "/c", "echo here> " + file + " & type " + file}
			},
			onHost: "node/cri", volumes: "prefix/drive_c/ProgramData/mullion/volumes",
			archive: func(t *testing.T) []byte { return layoutOf(t, "example.test/late:v1", randomSpec(t, 32<<20)) },
		},
		{
			node: "linux-1", image: linuxprogImage, full: "no space left on device",
			wait: `["/linuxprog", "wait"]`, log: `["/linuxprog", "print", "` + line + `", "200000"]`,
			fill:   func(dir string) []string { return []string{"/linuxprog", "fill", dir + "/a"} },
			write:  func(file string) []string { return []string{"/linuxprog", "append", file, "here"} },
			onHost: "var/lib", volumes: "var/lib/mullion/volumes",
			archive: func(t *testing.T) []byte {
				linuxprogArchive(t)
				archive, err := linuxImage(linuxprog.layer, "example.test/late:v1")
				if err != nil {
					t.Fatal(err)
				}
				return archive
			},
		},
	}
}

// path returns the place of a volume, or a file in it, in a pod.
func (f filler) path(elem ...string) string {
	separator := "/"
	if f.dir != "" {
		separator = `\`
	}
	return f.dir + separator + strings.Join(elem, separator)
}

// claim returns the manifest of a claim.
func (f filler) claim(name, size string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %s-%s}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: %s}}}
`, name, f.node, size)
}

// pod returns the manifest of a pod with a claim of its name and an emptyDir. The containers are commands by name.
// The kubelet evicts no critical pod, and a pod that is too late for the taint of a full node gets there all the same.
func (f filler) pod(name, policy string, containers map[string]string) string {
	var b strings.Builder
	for _, c := range []string{"main", "claim", "empty", "log"} {
		if command, ok := containers[c]; ok {
			fmt.Fprintf(&b, "  - {name: %s, image: %q, imagePullPolicy: IfNotPresent, command: %s, volumeMounts: [\n"+
				"      {name: claim, mountPath: '%s'}, {name: empty, mountPath: '%s'}]}\n", c, f.image, command,
				f.path("v"), f.path("e"))
		}
	}
	return fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s-%[2]s}
spec:
  nodeSelector: {kubernetes.io/hostname: %[2]s}
  priorityClassName: system-node-critical
  tolerations: [{operator: Exists}]
  restartPolicy: %[3]s
  terminationGracePeriodSeconds: 1
  containers:
%[4]s  volumes: [{name: claim, persistentVolumeClaim: {claimName: %[1]s-%[2]s}}, {name: empty, emptyDir: {}}]
`, name, f.node, policy, b.String())
}

func inJSON(argv []string) string {
	b, _ := json.Marshal(argv) // strings always marshal
	return string(b)
}

// TestFiller: a pod fills its claim; the program is told that the disk is full, and neither the node nor a neighbour
// notices. A pod that fills its claim, its emptyDir and its log at once is ended alone. With the disk of the host full
// to the last byte, claims that exist can be written, a new one waits, images are refused; then all goes on.
func TestFiller(t *testing.T) {
	t.Parallel()
	dir := ownCluster(t)
	testenv.Compiles(t, "test/e2e/testdata/linuxprog")
	s := newSingle(t, "budget", dir, 24)
	s.mullion("up", "--windows", "2019", "--linux", "1", "--disk", "1Gi")
	if out, err := s.try(linuxprogArchive(t), "load", "-"); err != nil {
		t.Fatalf("load: %v: %s", err, out)
	}
	for _, f := range fillers() {
		t.Run(f.node, func(t *testing.T) {
			s.t = t
			s.fillOne(f)
		})
	}
}

func (s single) fillOne(f filler) {
	t := s.t
	main := map[string]string{"main": f.wait}
	s.applyPod(f.claim("filler", "100Mi") + f.claim("neighbour", "64Mi") + f.pod("filler", "Always", main) +
		f.pod("neighbour", "Always", main))
	s.mullion("kubectl", "wait", "--for=condition=Ready", "pod/filler-"+f.node, "pod/neighbour-"+f.node,
		"--timeout=180s")
	out, _ := s.try(nil, append([]string{"kubectl", "exec", "filler-" + f.node, "--"}, f.fill(f.path("v"))...)...)
	if !strings.Contains(out, f.full) {
		t.Errorf("the filler printed %q", out)
	}
	s.neighbour(f, f.path("n"), f.path("e", "n"), f.path("v", "n"))
	s.noPressure(f)

	s.applyPod(f.claim("glutton", "64Mi") + f.pod("glutton", "Never", map[string]string{
		"claim": inJSON(f.fill(f.path("v"))), "empty": inJSON(f.fill(f.path("e"))), "log": f.log}))
	eventually(t, 3*time.Minute, "the glutton ends", func() error {
		phase := s.mullion("kubectl", "get", "pod", "glutton-"+f.node, "-o", "jsonpath={.status.phase}")
		if phase != "Failed" && phase != "Succeeded" {
			return errors.New(phase)
		}
		s.neighbour(f, f.path("v", "n"))
		return nil
	})
	s.mullion("kubectl", "delete", "pod", "glutton-"+f.node, "--timeout=180s")
	eventually(t, time.Minute, "the neighbour has room", func() error {
		_, err := s.try(nil, append([]string{"kubectl", "exec", "neighbour-" + f.node, "--"},
			f.write(f.path("e", "m"))...)...)
		return err
	})
	if got := s.mullion("kubectl", "get", "pod", "neighbour-"+f.node, "-o",
		"jsonpath={.status.containerStatuses[0].restartCount}"); got != "0" {
		t.Errorf("the neighbour was restarted %s times", got)
	}
	s.fullHost(f)
}

// neighbour has the other pod write files.
func (s single) neighbour(f filler, files ...string) {
	s.t.Helper()
	for _, file := range files {
		out, err := s.try(nil, append([]string{"kubectl", "exec", "neighbour-" + f.node, "--"}, f.write(file)...)...)
		if err != nil || !strings.Contains(out, "here") {
			s.t.Errorf("the neighbour writes %s: %q, %v", file, out, err)
		}
	}
}

// noPressure checks that the kubelet has more free space than any of its thresholds, and has not seen less.
func (s single) noPressure(f filler) {
	s.t.Helper()
	var stats struct {
		Node struct {
			FS struct{ AvailableBytes, CapacityBytes float64 }
		}
	}
	text := s.mullion("kubectl", "get", "--raw", "/api/v1/nodes/"+f.node+"/proxy/stats/summary")
	if err := json.Unmarshal([]byte(text), &stats); err != nil {
		s.t.Fatal(err)
	}
	if fs := stats.Node.FS; fs.AvailableBytes < fs.CapacityBytes*0.2 {
		s.t.Errorf("%s has %v of %v bytes free", f.node, fs.AvailableBytes, fs.CapacityBytes)
	}
	if got := s.mullion("kubectl", "get", "events", "-A", "-o", "name", "--field-selector",
		"reason=NodeHasDiskPressure,involvedObject.name="+f.node); got != "" {
		s.t.Errorf("events: %s", got)
	}
}

// fullHost leaves no byte on the disk of a host.
func (s single) fullHost(f filler) {
	t := s.t
	images := s.mullion("images")
	root := hostRoot(filepath.Join(s.dir(), "run", f.node+".json"))
	ballast, err := os.Create(filepath.Join(root, f.onHost, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	free := func() {
		_ = errors.Join(ballast.Truncate(0), ballast.Close(), os.Remove(ballast.Name())) // done at the second call
	}
	defer free()
	// The loader and others give room back.
	toTheBrim := func() {
		for piece := 1 << 20; piece >= 1<<12; {
			if _, err := ballast.Write(make([]byte, piece)); errors.Is(err, syscall.ENOSPC) {
				piece /= 16
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	toTheBrim()
	// Not by exec, for which the runtime needs room.
	claim := s.mullion("kubectl", "get", "pvc", "neighbour-"+f.node, "-o", "jsonpath={.spec.volumeName}")
	file, err := os.Create(filepath.Join(root, f.volumes, claim, "full"))
	if err == nil {
		_, err = file.Write(make([]byte, 16<<20))
		err = errors.Join(err, file.Sync(), file.Close())
	}
	if err != nil {
		t.Errorf("a claim on a full host: %v", err)
	}
	archive := f.archive(t)
	out, err := s.try(archive, "load", "-", "--nodes", f.node)
	if err == nil || !strings.Contains(out, "no space left on device") || !strings.Contains(out, "mullion up --disk") {
		t.Errorf("load onto a full host: %v: %s", err, out)
	}
	if got := s.mullion("images"); got != images {
		t.Errorf("images were\n%s\nand are\n%s", images, got)
	}
	toTheBrim()
	// With no byte left, the kubelet itself makes no pod.
	if at, err := ballast.Seek(0, io.SeekCurrent); err != nil || ballast.Truncate(at-48<<20) != nil {
		t.Fatal(err)
	}
	s.applyPod(f.claim("late", "64Mi") + f.pod("late", "Always", map[string]string{"main": f.wait}))
	eventually(t, 2*time.Minute, "an event says that there is no room", func() error {
		events := s.mullion("kubectl", "get", "events", "--field-selector", "involvedObject.name=late-"+f.node, "-o",
			"jsonpath={.items[*].message}")
		// The node reports its room once a minute: before that, the pod gets there.
		if !strings.Contains(events, "`mullion up --disk SIZE`") &&
			!strings.Contains(events, "did not have enough free storage") {
			return errors.New(events)
		}
		return nil
	})
	free()
	if out, err := s.try(archive, "load", "-", "--nodes", f.node); err != nil {
		t.Errorf("load with room again: %v: %s", err, out)
	}
	s.neighbour(f, f.path("v", "n"))
	s.mullion("kubectl", "wait", "--for=condition=Ready", "pod/late-"+f.node, "--timeout=180s")
}
