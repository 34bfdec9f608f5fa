// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"fmt"
	"os"
)

// escape tries to read a file of the machine by each way that Wine offers. The
// test puts a secret at the Unix path of the argument, outside of the container.
func escape(t *probe) {
	path := os.Args[2]
	for _, p := range []string{
		`Z:` + path, `\\?\unix` + path, `\\.\unix` + path, `\??\unix` + path, `C:\..\..\..` + path, path,
		`\\?\GLOBALROOT\DosDevices\unix` + path, `\\?\C:\..\..` + path,
	} {
		if data, err := os.ReadFile(p); err == nil {
			t.errorf("read %s: %q", p, data)
		}
	}
	for _, p := range []string{`Z:\`, `D:\`, `\\?\unix\root\`, `\\?\unix\home\`} {
		if entries, err := os.ReadDir(p); err == nil && len(entries) > 0 {
			t.errorf("listed %s: %v", p, entries)
		}
	}
	fmt.Println("tried")
}
