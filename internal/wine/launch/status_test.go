// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package launch

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzReadStatus: a container may write anything into its status file.
func FuzzReadStatus(f *testing.F) {
	for _, s := range []string{
		`{"exit_code":3}`, `{"exit_code":4294967295,"error":"The system cannot find the file specified."}`,
		`{"exit_code":-1}`, `null`, `[]`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		file := filepath.Join(dir, "status")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := ReadStatus(file)
		if err != nil {
			return
		}
		if unixStatus(s.ExitCode) == 0 && s.ExitCode != 0 {
			t.Errorf("exit code %d became success", s.ExitCode)
		}
		if len(s.Error) > maxStatusBytes {
			t.Errorf("an error of %d bytes", len(s.Error))
		}
		if err := s.write(dir, "again"); err != nil {
			t.Fatal(err)
		}
		again, err := ReadStatus(filepath.Join(dir, "again"))
		// JSON's escapes make a text longer: one at the limit may not come back.
		if err == nil && again != s || err != nil && len(s.Error) < maxStatusBytes/8 {
			t.Errorf("%+v came back as %+v, %v", s, again, err)
		}
	})
}
