// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAdapterName: programs look for the name under the GUID that Wine gives the adapter.
func TestAdapterName(t *testing.T) {
	prefix := t.TempDir()
	hive := filepath.Join(prefix, "system.reg")
	if err := os.WriteFile(hive, []byte("WINE REGISTRY Version 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (Network{Index: 12, Adapter: "vEthernet (Ethernet)"}).WriteHost(prefix); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(hive)
	if err != nil {
		t.Fatal(err)
	}
	const key = `[System\\ControlSet001\\Control\\Network\\{4D36E972-E325-11CE-BFC1-08002BE10318}\\` +
		`{0000000C-0000-0000-0000-4E6574446576}\\Connection]`
	_, after, found := strings.Cut(string(content), key)
	if !found || !strings.Contains(after, `"Name"="vEthernet (Ethernet)"`) {
		t.Errorf("the registry has no name of the adapter:\n%s", content)
	}
}
