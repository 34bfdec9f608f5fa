// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package runc

import (
	"bytes"
	"io"
	"testing"
)

// packets reads as a socket of packets does: one with each call.
type packets [][]byte

func (p *packets) Read(b []byte) (int, error) {
	if len(*p) == 0 {
		return 0, io.EOF
	}
	n := copy(b, (*p)[0])
	*p = (*p)[1:]
	return n, nil
}

// FuzzCopyPackets: what conmon's packets say of a stream arrives at that stream,
// up to the first packet of an unknown one.
func FuzzCopyPackets(f *testing.F) {
	f.Add([]byte("\x02out"), []byte("\x03err"), []byte("\x02more"))
	f.Add([]byte("\x02"), []byte{}, []byte("\x02after the end"))
	f.Add([]byte("\x09?"), []byte("\x02x"), []byte(nil))
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		var wantOut, wantErr []byte
		wantFailure := false
		for _, p := range [][]byte{a, b, c} {
			p = p[:min(len(p), packetBytes)]
			if len(p) == 0 {
				break // an empty packet is the end
			}
			if len(p) > 1 && p[0] == packetStdout {
				wantOut = append(wantOut, p[1:]...)
			} else if len(p) > 1 && p[0] == packetStderr {
				wantErr = append(wantErr, p[1:]...)
			} else if len(p) > 1 {
				wantFailure = true
				break
			}
		}
		var stdout, stderr bytes.Buffer
		err := copyPackets(&packets{a, b, c}, &stdout, &stderr)
		gotOut, gotErr := stdout.Bytes(), stderr.Bytes()
		if (err != nil) != wantFailure || !bytes.Equal(gotOut, wantOut) || !bytes.Equal(gotErr, wantErr) {
			t.Errorf("%q: %q, %q, %v; want %q, %q", [][]byte{a, b, c}, gotOut, gotErr, err, wantOut, wantErr)
		}
	})
}
