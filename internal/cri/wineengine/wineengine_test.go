// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wineengine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mullion-k8s/mullion/internal/cri/engine"
)

func TestHasUser(t *testing.T) {
	for user, want := range map[string]bool{
		"containeruser":                true,
		`NT AUTHORITY\SYSTEM`:          true,
		`nt authority\networkservice`:  true,
		`web\Administrator`:            true,
		`other\Administrator`:          false,
		"FooLish":                      false,
		`DOMAIN\x`:                     false,
		(Engine{}).DefaultUser():       true,
		`User Manager\containeradmini`: false,
	} {
		if got := (Engine{}).HasUser(user, "web"); got != want {
			t.Errorf("%s: %v", user, got)
		}
	}
}

// TestProcess: an account that does not exist is refused by the start, so that
// what was described before does not matter.
func TestProcess(t *testing.T) {
	e := Engine{}
	for user, uid := range map[string]uint32{
		"": 64000, "FooLish": 64000, "ContainerUser": 64001, `web\Administrator`: 64000,
	} {
		p := e.Process(engine.Program{Args: []string{"cmd"}, User: user, Computer: "web", Status: "main"})
		if p.UID != uid || p.Host || !slices.Contains(p.Args, "cmd") || !slices.Contains(p.Args, "main") {
			t.Errorf("%q: %+v", user, p)
		}
	}
}

func TestStatus(t *testing.T) {
	file := filepath.Join(t.TempDir(), "main")
	if _, err := (Engine{}).Status(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a killed program: %v", err)
	}
	if err := os.WriteFile(file, []byte(`{"exit_code":4294967295,"error":"no"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := (Engine{}).Status(file); err != nil || s != (engine.Status{ExitCode: 1<<32 - 1, Error: "no"}) {
		t.Errorf("%+v, %v", s, err)
	}
}
