// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mullion-k8s/mullion/internal/cri/image/imagebuild"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// flannelTests are the tests of flannel's packages that change routes and settings
// of a host, by running PowerShell as flanneld.exe does. The other tests of
// pkg/ip only calculate.
var flannelTests = map[string][]string{
	"routing": {"TestCreateAndRemoveRoute", "TestGetAllRoutes"},
	"ip": {"TestEnableForwardingForInterface", "TestGetDefaultGatewayInterface", "TestGetInterfaceByIP",
		"TestGetInterfaceIP4Addr"},
}

// flannelTest compiles the tests of a package of flannel that upstream/flannel pins.
func flannelTest(t *testing.T, pkg string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), pkg+".test.exe")
	cmd := exec.Command("go", "test", "-mod=mod", "-c", "-o", file, "github.com/flannel-io/flannel/pkg/"+pkg)
	cmd.Dir = testenv.Repo("upstream/flannel")
	cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build tests of %s: %v: %s", pkg, err, out)
	}
	exe, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// TestFlannelSuite runs flannel's own tests on a host.
func TestFlannelSuite(t *testing.T) {
	c := alone(t)
	testenv.Compiles(t, "upstream")
	ns := c.namespace(t)
	const image = "example.test/flannel-tests:v1"
	var files []imagebuild.Entry
	for pkg := range flannelTests {
		files = append(files, imagebuild.Entry{Path: "tests/" + pkg + ".test.exe", Content: flannelTest(t, pkg)})
	}
	img := buildImage(t, imagebuild.Spec{
		Build: build2019(t), Base: "servercore", Layers: []imagebuild.Layer{{Entries: files}},
		Config: v1.Config{Cmd: []string{"cmd.exe"}},
	})
	tar := archive(t, func(b *bytes.Buffer) error {
		return imagebuild.WriteLayout(b, map[string]*imagebuild.Image{image: img})
	})
	if out, err := c.load(t, tar); err != nil {
		t.Fatalf("load: %v: %s", err, out)
	}
	c.pod(t, ns, "tests", hostProcess(`NT AUTHORITY\SYSTEM`)+`
  containers: [{name: main, image: "`+image+`", command: [powershell, -Command, "Start-Sleep 1000"],
    resources: {limits: {memory: 512Mi}}}]`)
	c.ready(t, ns, "tests")
	for pkg, want := range flannelTests {
		t.Run(pkg, func(t *testing.T) {
			exe := `C:\hpc\tests\` + pkg + ".test.exe"
			out, err := c.kubectlErr(t.Context(), "exec", "-n", ns, "tests", "--", exe, "-test.v")
			var passed []string
			for _, m := range regexp.MustCompile(`(?m)^--- PASS: (\S+)`).FindAllStringSubmatch(out, -1) {
				passed = append(passed, m[1])
			}
			for _, name := range want {
				if !slices.Contains(passed, name) {
					t.Errorf("%s did not pass", name)
				}
			}
			if err != nil || regexp.MustCompile(`(?m)^\s*--- (FAIL|SKIP)`).MatchString(out) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
