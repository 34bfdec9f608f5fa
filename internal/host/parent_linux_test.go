// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
)

// TestListenBounds: a report without an end takes no more memory than the limit, is left out, and so is its end.
func TestListenBounds(t *testing.T) {
	p := &Parent{log: slog.New(slog.DiscardHandler)}
	p.spec.Status = filepath.Join(t.TempDir(), "status")
	const last = `{"components": [{"name": "kubelet"}]}`
	reports := strings.Repeat("x", 3*reportLimit) + `{"fatal": "forged"}` + "\n" + last + "\n"
	fatal := make(chan string, 1)
	p.listen(t.Context(), strings.NewReader(reports), fatal)
	if len(fatal) > 0 || len(p.status.Components) != 1 || p.status.Components[0].Name != "kubelet" {
		t.Errorf("status %+v, %d fatal reports", p.status, len(fatal))
	}
}
