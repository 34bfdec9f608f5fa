// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package condrv

import (
	"encoding/hex"
	"testing"
)

// TestLayout compares with the structures that Wine's tools/make_requests makes
// of server/protocol.def: a header of three words, then the fields.
func TestLayout(t *testing.T) {
	r := request{server: 0x24, signal: true, read: true, status: 0x103}
	b := r.encode(58, 7, 4096)
	want := "3a000000" + "07000000" + "00100000" + "24000000" + "01000000" + "01000000" + "03010000"
	if got := hex.EncodeToString(b[:28]); got != want {
		t.Errorf("request %s, want %s", got, want)
	}
	b = [requestSize]byte{0: 1, 4: 2, 8: 3, 12: 4, 16: 5}
	if got, want := decodeReply(b), (reply{status: 1, data: 2, code: 3, output: 4, size: 5}); got != want {
		t.Errorf("reply %+v, want %+v", got, want)
	}
}
