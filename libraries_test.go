// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package mullion

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// theProduct has the modules that docs/adr/0005-libraries.md does not justify, because they are the product: a prefix
// each.
var theProduct = []string{"k8s.io/", "go.etcd.io/etcd/", "github.com/coredns/", "sigs.k8s.io/metrics-server", module}

// TestLibraries compares the table of docs/adr/0005-libraries.md with the direct requirements of the programs' modules.
func TestLibraries(t *testing.T) {
	required := map[string]bool{}
	for _, name := range []string{"go.mod", "pwsh/go.mod"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := modfile.Parse(name, text, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range file.Require {
			if !r.Indirect {
				required[r.Mod.Path] = true
			}
		}
	}
	page, err := os.ReadFile("docs/adr/0005-libraries.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| (\S+\.[^|]*) \|`).FindAllStringSubmatch(string(page), -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			if rows[name] {
				t.Errorf("docs/adr/0005-libraries.md has two rows for %s", name)
			}
			rows[name] = true
		}
	}
	for name := range required {
		product := false
		for _, prefix := range theProduct {
			product = product || strings.HasPrefix(name, prefix)
		}
		if !product && !rows[name] {
			t.Errorf("docs/adr/0005-libraries.md has no row for %s: say for which work, and instead of which other way",
				name)
		}
		delete(rows, name)
	}
	for name := range rows {
		t.Errorf("docs/adr/0005-libraries.md has a row for %s, which no module requires directly", name)
	}
}
