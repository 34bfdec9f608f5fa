// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mullion-k8s/mullion/internal/cri/image/imagebuild"
	"github.com/mullion-k8s/mullion/internal/testenv"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// winprogImage holds testdata/winprog on every host of the guide's build.
const winprogImage = "example.test/winprog:v1"

// winprog is the program of testdata/winprog, built once.
type winprog struct {
	once sync.Once
	exe  []byte
	err  error
}

// program is written under its sync.Once only.
var program = &winprog{}

// build2019 returns the guide's build, which two hosts of the cluster have.
func build2019(t *testing.T) winver.Build {
	t.Helper()
	b, err := winver.Parse("2019")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (p *winprog) bytes(t *testing.T) []byte {
	t.Helper()
	testenv.Compiles(t, "test/e2e/testdata/winprog")
	p.once.Do(func() {
		var dir string
		if dir, p.err = os.MkdirTemp("", "mullion-winprog-"); p.err != nil {
			return
		}
		defer func() { _ = os.RemoveAll(dir) }() // a temporary directory
		file := filepath.Join(dir, "winprog.exe")
		cmd := exec.Command("go", "build", "-trimpath", "-o", file, "./testdata/winprog")
		cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			p.err = fmt.Errorf("build winprog: %w: %s", err, out)
			return
		}
		p.exe, p.err = os.ReadFile(file)
	})
	if p.err != nil {
		t.Fatal(p.err)
	}
	return p.exe
}

// winprogSpec returns an image on Server Core with the program and a configuration.
func winprogSpec(t *testing.T) imagebuild.Spec {
	t.Helper()
	return imagebuild.Spec{
		Build: build2019(t), Base: "servercore",
		Layers: []imagebuild.Layer{{Entries: []imagebuild.Entry{{Path: "app/winprog.exe", Content: program.bytes(t)}}}},
		Config: v1.Config{
			Entrypoint: []string{`C:\app\winprog.exe`}, Cmd: []string{"show", "two words"}, WorkingDir: `C:\app`,
			Env: []string{"FROM_IMAGE=yes", "FROM_POD=no"}, User: "ContainerUser",
		},
	}
}

func buildImage(t *testing.T, spec imagebuild.Spec) *imagebuild.Image {
	t.Helper()
	img, err := imagebuild.Build(spec)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// archive writes images as an OCI layout or as docker does.
func archive(t *testing.T, write func(*bytes.Buffer) error) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := write(&buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// winprogArchive makes an image of the program.
func winprogArchive(t *testing.T) []byte {
	t.Helper()
	img := buildImage(t, winprogSpec(t))
	return archive(t, func(b *bytes.Buffer) error {
		return imagebuild.WriteLayout(b, map[string]*imagebuild.Image{winprogImage: img})
	})
}

// withWinprog loads the program's image, once for all tests of the cluster.
func (c *shared) withWinprog(t *testing.T) {
	t.Helper()
	c.winprog.Do(func() {
		if out, err := c.load(t, winprogArchive(t)); err != nil {
			t.Fatalf("load: %v: %s", err, out)
		}
	})
}

// load hands an archive to `mullion load -` for the hosts of the guide's build.
func (c *shared) load(t *testing.T, tar []byte) (string, error) {
	t.Helper()
	return c.try(t.Context(), string(tar), "load", "-", "--name", c.name, "--data-dir", c.dir, "--nodes", "win-1,win-2")
}

// onNode puts a pod onto the first host.
const onNode = `os: {name: windows}
  nodeName: win-1`

// apply applies a manifest from a string.
func (c *shared) apply(t *testing.T, ns, manifest string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	c.kubectl(t, "apply", "-n", ns, "-f", file)
}

// pod applies a pod of winprog; spec is the text below "spec:", indented by two
// spaces.
func (c *shared) pod(t *testing.T, ns, pod, spec string) {
	t.Helper()
	c.apply(t, ns, "apiVersion: v1\nkind: Pod\nmetadata: {name: "+pod+", labels: {app: "+pod+"}}\nspec:\n  "+spec+"\n")
}

// ready waits until pods are.
func (c *shared) ready(t *testing.T, ns string, pods ...string) {
	t.Helper()
	for _, p := range pods {
		c.kubectl(t, "wait", "-n", ns, "--for=condition=Ready", "pod/"+p, "--timeout=180s")
	}
}

// get reads a field of a pod.
func (c *shared) get(t *testing.T, ns, pod, path string) string {
	t.Helper()
	return c.kubectl(t, "get", "pod", "-n", ns, pod, "-o", "jsonpath="+path)
}

// until waits until a field of a pod is as wanted.
func (c *shared) until(t *testing.T, ns, pod, path string, want ...string) {
	t.Helper()
	eventually(t, 2*time.Minute, pod, func() error {
		got, err := c.kubectlErr(t.Context(), "get", "pod", "-n", ns, pod, "-o", "jsonpath="+path)
		if err != nil {
			return err
		}
		if slices.Contains(want, got) {
			return nil
		}
		return fmt.Errorf("%s of %s is %q, want %q", path, pod, got, want)
	})
}

// event waits for an event of a pod that says something.
func (c *shared) event(t *testing.T, ns, pod, text string) {
	t.Helper()
	eventually(t, 2*time.Minute, "event of "+pod, func() error {
		out, err := c.kubectlErr(t.Context(), "get", "events", "-n", ns, "--field-selector=involvedObject.name="+pod,
			"-o", `jsonpath={range .items[*]}{.message}{"\n"}{end}`)
		if err == nil && !strings.Contains(out, text) {
			err = fmt.Errorf("events %q lack %q", out, text)
		}
		return err
	})
}

// logs waits until a pod's log has a text, and returns the log.
func (c *shared) logs(t *testing.T, ns, pod, text string) string {
	t.Helper()
	var out string
	eventually(t, 2*time.Minute, "log of "+pod, func() error {
		var err error
		out, err = c.kubectlErr(t.Context(), "logs", "-n", ns, pod)
		if err == nil && !strings.Contains(out, text) {
			err = fmt.Errorf("log %q lacks %q", out[max(0, len(out)-2000):], text)
		}
		return err
	})
	return out
}

// exec runs a command in a pod.
func (c *shared) exec(t *testing.T, ns, pod string, command ...string) string {
	t.Helper()
	out, err := c.execErr(t.Context(), ns, pod, command...)
	if err != nil {
		t.Fatalf("exec in %s: %v", pod, err)
	}
	return out
}

func (c *shared) execErr(ctx context.Context, ns, pod string, command ...string) (string, error) {
	out, err := c.kubectlErr(ctx, append([]string{"exec", "-n", ns, pod, "--"}, command...)...)
	return strings.TrimSpace(out), err
}
