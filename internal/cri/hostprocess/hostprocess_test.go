// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package hostprocess

import (
	"slices"
	"testing"

	"github.com/mullion-k8s/mullion/internal/cri/engine"
	"github.com/mullion-k8s/mullion/internal/cri/oci"
	"github.com/mullion-k8s/mullion/internal/wine/launch"
)

// TestCapabilities: wineserver reads the memory of HostProcess containers and of
// the host's own programs only if all have the same capabilities.
func TestCapabilities(t *testing.T) {
	var names []string
	for _, c := range launch.Capabilities() {
		names = append(names, c.Name)
	}
	if !slices.Equal(names, oci.HostCapabilities()) {
		t.Errorf("%v and %v", names, oci.HostCapabilities())
	}
}

func TestEnvironment(t *testing.T) {
	got := environment([]string{
		"A=%CONTAINER_SANDBOX_MOUNT_POINT%/x",
		`path=%CONTAINER_SANDBOX_MOUNT_POINT%\bin;$env:CONTAINER_SANDBOX_MOUNT_POINT\tools;`,
		"B=$env:CONTAINER_SANDBOX_MOUNT_POINT",
	})
	want := []string{
		`A=C:\hpc/x`, `B=C:\hpc`,
		`Path=C:\hpc\bin;C:\hpc\tools;C:\hpc\;C:\WINDOWS\System32\WindowsPowerShell\v1.0\;C:\WINDOWS\System32\Wbem`,
		`CONTAINER_SANDBOX_MOUNT_POINT=C:\hpc\`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestPlacesInArguments(t *testing.T) {
	args := []string{"%CONTAINER_SANDBOX_MOUNT_POINT%/a.exe", "b"}
	p := withPlaces(engine.Program{Args: args, CommandLine: `$env:CONTAINER_SANDBOX_MOUNT_POINT\a.exe b`})
	if !slices.Equal(p.Args, []string{`C:\hpc/a.exe`, "b"}) || p.CommandLine != `C:\hpc\a.exe b` {
		t.Errorf("%+v", p)
	}
	if args[0] != "%CONTAINER_SANDBOX_MOUNT_POINT%/a.exe" {
		t.Error("the caller's arguments were changed")
	}
}

func TestMainProgram(t *testing.T) {
	if p := (&Host{}).Main(engine.Program{}); p.Dir != `C:\hpc` {
		t.Errorf("directory %s", p.Dir)
	}
	if p := (&Host{}).Main(engine.Program{Dir: `%CONTAINER_SANDBOX_MOUNT_POINT%\dir`}); p.Dir != `C:\hpc\dir` {
		t.Errorf("directory %s", p.Dir)
	}
}
