// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wine

import (
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/console/condrv"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// TestRequestNumber compares with the order in server/protocol.def, whose
// beginning has not changed for years.
func TestRequestNumber(t *testing.T) {
	testenv.Need(t, testenv.Wine)
	for name, want := range map[string]uint32{"get_new_process_info": 1, "new_thread": 2, "get_startup_info": 3} {
		got, err := requestNumber("/"+serverPath, name)
		if err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", name, got, err, want)
		}
	}
	if n, err := requestNumber("/"+serverPath, condrv.RequestName); err != nil || n < 4 {
		t.Errorf("%s: %d, %v", condrv.RequestName, n, err)
	}
	if _, err := requestNumber("/"+serverPath, "no_such_request"); err == nil ||
		!strings.Contains(err.Error(), "no_such_request") {
		t.Errorf("%v", err)
	}
	if _, err := requestNumber("/etc/passwd", condrv.RequestName); err == nil {
		t.Error("a text file has requests")
	}
}
