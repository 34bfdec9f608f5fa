// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package standin

import (
	"os"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/standin/winbox"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestFidelityPageIsComplete: every name that has a stand-in, and every
// program, is on the page.
func TestFidelityPageIsComplete(t *testing.T) {
	page, err := os.ReadFile(testenv.Repo("docs", "fidelity", "images.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range catalogue() {
		if !strings.Contains(string(page), "`"+e.repo) {
			t.Errorf("%s is not on the page", e.repo)
		}
	}
	for _, name := range append(serverCoreTools(), nanoServerTools()...) {
		if name != "net1" && !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("%s is not on the page", name)
		}
	}
}

// TestProgramsExist: a flavor only links what winbox has.
func TestProgramsExist(t *testing.T) {
	have := map[string]bool{}
	for _, tool := range winbox.Tools() {
		have[tool.Name] = true
	}
	for _, f := range flavors() {
		for path, file := range f.files(Programs{Winbox: "winbox", PowerShell: "powershell"}) {
			name := strings.ToLower(strings.TrimSuffix(path[strings.LastIndexByte(path, '/')+1:], ".exe"))
			if file.link == "winbox" && !have[name] {
				t.Errorf("%s: %s is not a program of winbox", f.name, path)
			}
		}
		for _, s := range f.stack {
			if below, ok := flavorNamed(s); !ok || !below.ownDir() {
				t.Errorf("%s stacks %s, which has no directory", f.name, s)
			}
		}
	}
}
