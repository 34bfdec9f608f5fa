// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package hostprocess

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAccount(t *testing.T) {
	id := strings.Repeat("0123456789", 7)[:64]
	for user, want := range map[string]string{
		`NT AUTHORITY\SYSTEM`:         `NT AUTHORITY\SYSTEM`,
		`NT AUTHORITY\Local service`:  `NT AUTHORITY\LOCAL SERVICE`,
		`NT AUTHORITY\NetworkService`: `NT AUTHORITY\NETWORK SERVICE`,
		"Users":                       `h\01234567890123456789`,
		"hpc":                         `h\01234567890123456789`,
		"HPC":                         `h\01234567890123456789`,
		"":                            "empty username",
		"SYSTEM":                      "failed to logon user",
		`nt authority\SYSTEM`:         "failed to logon user",
		`NT AUTHORITY\stranger`:       "failed to logon user",
		`a\b\c`:                       "invalid user string `a\\b\\c`",
		"ContainerUser":               "failed to logon user",
		`h\Administrator`:             "failed to logon user",
	} {
		a, err := account(user, id, []string{"Administrators", "Users", "hpc"})
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %s", user, err, want)
			}
		} else if got := cmp.Or(a.Domain, "h") + `\` + a.Name; got != want {
			t.Errorf("%q: %s, want %s", user, got, want)
		}
	}
}

// TestGroups: a container can write anything to the file.
func TestGroups(t *testing.T) {
	h := &Host{Drive: t.TempDir()}
	file := filepath.Join(h.Drive, accountsFile)
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	known := len(builtinGroups())
	for content, want := range map[string]int{
		`{"groups":{"a":[],"b":["x"]}}`: known + 2,
		"":                              known,
		"{":                             known,
		`{"groups":[]}`:                 known,
		"\x00":                          known,
	} {
		must(t, os.WriteFile(file, []byte(content), 0o644))
		if got := h.groups(); len(got) != want {
			t.Errorf("%q: %v", content, got)
		}
	}
	must(t, os.Remove(file))
	must(t, os.Symlink("/etc/passwd", file))
	if got := h.groups(); len(got) != known {
		t.Errorf("through a link: %v", got)
	}
}
