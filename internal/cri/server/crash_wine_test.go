// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestCrash: the status of a container whose program crashes has the exception's code, and its log is empty. All
// kinds of crashes are in TestContainerCrashes of package wine.
func TestCrash(t *testing.T) {
	testenv.Need(t, testenv.MinGW)
	testenv.Compiles(t, "internal/wine/testdata/crash")
	l := newWineLab(t)
	dir := filepath.Join(l.drive, "crash")
	must(t, os.Mkdir(dir, 0o755))
	const gcc, source = "x86_64-w64-mingw32-gcc", "internal/wine/testdata/crash"
	library, program := filepath.Join(dir, "library.dll"), filepath.Join(dir, "crash.exe")
	for _, args := range [][]string{
		{"-shared", "-DNUMBER=number", "-o", library, testenv.Repo(source, "library.c")},
		{"-o", program, testenv.Repo(source, "crash.c"), library},
	} {
		if out, err := exec.Command(gcc, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "text.exe"), []byte("no program"), 0o755))
	crashing := func(name string, args ...string) *runtime.ContainerConfig {
		c := windowsContainer(name, args...)
		c.Mounts = []*runtime.Mount{{HostPath: `C:\crash`, ContainerPath: `C:\crash`}}
		return c
	}
	config := sandboxConfig("web")
	sb := l.runSandbox(config)
	for way, code := range map[string]int32{
		"load-null": -1073741819, "fail-fast": -1073740791, "recurse": -1073741571,
	} {
		got := l.wait(l.run(sb, crashing(way, `C:\crash\crash.exe`, way)))
		if log := l.logText(config, way); got.ExitCode != code || got.Reason != "Error" || log != "" {
			t.Errorf("%s: %v; log %q", way, got, log)
		}
	}
	id := l.create(sb, crashing("text", `C:\crash\text.exe`))
	_, err := l.Runtime.StartContainer(t.Context(), &runtime.StartContainerRequest{ContainerId: id})
	if got := l.status(id); err == nil || !strings.Contains(err.Error(), "%1 is not a valid Win32 application.") ||
		got.Reason != "StartError" || got.ExitCode != 128 {
		t.Errorf("a text: %v; %v", err, got)
	}
}
