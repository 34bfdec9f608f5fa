// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cni

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// FuzzParse: a configuration that is accepted has plugins, and no plugin's name
// leads out of their directory.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"win-bridge"},{"type":"portmap"}]}`,
		`{"cniVersion":"0.3.0","name":"cbr0","type":"win-bridge",
			"capabilities":{"portMappings":true},"ipam":{"type":"host-local"}}`,
		"\ufeff{\"name\":\"n\",\"type\":\"..\\\\..\\\\x\"}", `{"plugins":[]}`, `{"plugins":[null]}`, `{"plugins":{}}`,
		`null`, `[]`, ``,
	} {
		f.Add([]byte(s))
	}
	drive := f.TempDir()
	if err := os.MkdirAll(filepath.Join(drive, "cni", "bin"), 0o755); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(drive, "x.exe"), nil, 0o755); err != nil {
		f.Fatal(err)
	}
	p := plugins{Config{Drive: drive, BinDir: `C:\cni\bin`}}
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := parse(data)
		if err != nil {
			return
		}
		if len(list.Plugins) == 0 || !bytes.Contains(data, []byte("{")) {
			t.Fatalf("accepted %q without plugins", data)
		}
		pluginNames(list)
		for _, plugin := range list.Plugins {
			if exe, err := p.FindInPath(plugin.Network.Type, nil); err == nil {
				t.Errorf("plugin %q was found at %s, in an empty directory", plugin.Network.Type, exe)
			}
		}
	})
}
