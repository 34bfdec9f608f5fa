// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mullion-k8s/mullion/internal/supervise"
)

func TestStatusFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.json")
	if _, err := ReadStatus(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	s := Status{Name: "win-1", Phase: Running, Since: time.Unix(1, 0).UTC(), Agent: json.RawMessage(`{"joined":true}`)}
	if err := supervise.WriteStatus(path, s); err != nil {
		t.Fatal(err)
	}
	got, err := ReadStatus(path)
	if err != nil || got.Name != s.Name || got.Phase != Running || !strings.Contains(string(got.Agent), "true") {
		t.Errorf("%+v, %v", got, err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
}
