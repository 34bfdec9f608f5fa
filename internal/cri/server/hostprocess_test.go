// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/cri/oci"
	"github.com/mullion-k8s/mullion/internal/wine/launch"
)

// TestHostCapabilities: wineserver reads the memory of HostProcess containers
// and of the host's own programs only if all have the same capabilities.
func TestHostCapabilities(t *testing.T) {
	var names []string
	for _, c := range launch.Capabilities() {
		names = append(names, c.Name)
	}
	if !slices.Equal(names, oci.HostCapabilities()) {
		t.Errorf("%v and %v", names, oci.HostCapabilities())
	}
}

func TestHostAccount(t *testing.T) {
	id := strings.Repeat("0123456789", 7)[:64]
	for user, want := range map[string]string{
		`NT AUTHORITY\SYSTEM`: `NT AUTHORITY\SYSTEM`, `NT AUTHORITY\Local service`: `NT AUTHORITY\LOCAL SERVICE`,
		`NT AUTHORITY\NetworkService`: `NT AUTHORITY\NETWORK SERVICE`,
		"Users":                       `h\01234567890123456789`, "hpc": `h\01234567890123456789`,
		"HPC": `h\01234567890123456789`,
		"":    "empty username", "SYSTEM": "failed to logon user", `nt authority\SYSTEM`: "failed to logon user",
		`NT AUTHORITY\stranger`: "failed to logon user", `a\b\c`: "invalid user string `a\\b\\c`",
		"ContainerUser": "failed to logon user", `h\Administrator`: "failed to logon user",
	} {
		a, err := hostAccount(user, id, []string{"Administrators", "Users", "hpc"})
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %s", user, err, want)
			}
		} else if got := a.FullName("h"); got != want {
			t.Errorf("%q: %s, want %s", user, got, want)
		}
	}
}

// TestHostGroups: the file is a container's to write.
func TestHostGroups(t *testing.T) {
	s := &Server{cfg: Config{Drive: t.TempDir()}}
	file := filepath.Join(s.cfg.Drive, accountsFile)
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	known := len(builtinGroups())
	for content, want := range map[string]int{`{"groups":{"a":[],"b":["x"]}}`: known + 2, "": known, "{": known,
		`{"groups":[]}`: known, "\x00": known} {
		must(t, os.WriteFile(file, []byte(content), 0o644))
		if got := s.hostGroups(); len(got) != want {
			t.Errorf("%q: %v", content, got)
		}
	}
	must(t, os.Remove(file))
	must(t, os.Symlink("/etc/passwd", file))
	if got := s.hostGroups(); len(got) != known {
		t.Errorf("through a link: %v", got)
	}
}

func TestHostEnvironment(t *testing.T) {
	got, err := json.Marshal(hostEnvironment([]string{"A=%CONTAINER_SANDBOX_MOUNT_POINT%/x", `path=C:\p;`,
		"B=$env:CONTAINER_SANDBOX_MOUNT_POINT"}))
	must(t, err)
	want := `["A=C:\\hpc/x","B=C:\\hpc",` +
		`"Path=C:\\p;C:\\hpc\\;C:\\WINDOWS\\System32\\WindowsPowerShell\\v1.0\\;C:\\WINDOWS\\System32\\Wbem",` +
		`"CONTAINER_SANDBOX_MOUNT_POINT=C:\\hpc\\"]`
	if string(got) != want {
		t.Errorf("%s", got)
	}
}
