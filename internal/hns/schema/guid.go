// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package schema

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
)

// GUID in its text order (the order of the digits). The in-memory layout of
// Windows has the first three groups little-endian: see Windows.
type GUID [16]byte

// IsZero reports whether all digits are zero.
func (g GUID) IsZero() bool { return g == GUID{} }

// String returns the form of every GUID that the service writes: 36 characters, lower
// case, no braces.
func (g GUID) String() string {
	h := hex.EncodeToString(g[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// NewGUID returns a random GUID of version 4.
func NewGUID() GUID {
	var g GUID
	_, _ = rand.Read(g[:]) // never fails: crypto/rand ends the program instead
	g[6] = g[6]&0x0f | 0x40
	g[8] = g[8]&0x3f | 0x80
	return g
}

// ParseGUID reads the 36 characters in any case, with or without braces.
func ParseGUID(s string) (GUID, error) {
	var g GUID
	t := s
	if len(t) == 38 && t[0] == '{' && t[37] == '}' {
		t = t[1:37]
	}
	if len(t) != 36 || t[8] != '-' || t[13] != '-' || t[18] != '-' || t[23] != '-' {
		return GUID{}, fmt.Errorf("parse GUID %q: want 8-4-4-4-12 digits", s)
	}
	if _, err := hex.Decode(g[:], []byte(t[:8]+t[9:13]+t[14:18]+t[19:23]+t[24:])); err != nil {
		return GUID{}, fmt.Errorf("parse GUID %q: %w", s, err)
	}
	return g, nil
}

// CanonicalGUID returns s in the form of GUID.String, or "" if s is not a GUID.
func CanonicalGUID(s string) string {
	g, err := ParseGUID(s)
	if err != nil {
		return ""
	}
	return g.String()
}

// Windows converts between the text order and the in-memory layout of the
// Windows type GUID, in both directions.
func (g GUID) Windows() GUID {
	return GUID{g[3], g[2], g[1], g[0], g[5], g[4], g[7], g[6], g[8], g[9], g[10], g[11], g[12], g[13], g[14], g[15]}
}
