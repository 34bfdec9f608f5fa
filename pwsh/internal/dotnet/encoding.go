// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package dotnet

import (
	"strings"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// encoding is a System.Text.Encoding.
type encoding struct {
	name, web string
	page      int
	encode    func(string) []byte
	decode    func([]byte) string
	mark      []byte
}

// encodings returns the encodings that scripts use. Source: the remarks of
// https://learn.microsoft.com/dotnet/api/system.text.encoding, read 2026-11.
func encodings() []*encoding {
	single := func(limit rune) (func(string) []byte, func([]byte) string) {
		return func(s string) []byte {
				b := make([]byte, 0, len(s))
				for _, r := range s {
					if r > limit {
						r = '?'
					}
					b = append(b, byte(r))
				}
				return b
			}, func(b []byte) string {
				var s strings.Builder
				for _, c := range b {
					if rune(c) > limit {
						s.WriteByte('?')
					} else {
						s.WriteRune(rune(c))
					}
				}
				return s.String()
			}
	}
	asciiEnc, asciiDec := single(127)
	latinEnc, latinDec := single(255)
	utf8Enc, utf8Dec := func(s string) []byte { return []byte(s) }, func(b []byte) string {
		return strings.ToValidUTF8(string(b), "\ufffd")
	}
	return []*encoding{
		{"UTF8", "utf-8", 65001, utf8Enc, utf8Dec, []byte("\ufeff")},
		{"ASCII", "us-ascii", 20127, asciiEnc, asciiDec, nil},
		{"Unicode", "utf-16", 1200, func(s string) []byte { return interp.EncodeUTF16(s, false) },
			func(b []byte) string {
				return interp.DecodeUTF16(b, false)
			}, []byte{0xff, 0xfe}},
		{"BigEndianUnicode", "utf-16BE", 1201, func(s string) []byte { return interp.EncodeUTF16(s, true) },
			func(b []byte) string {
				return interp.DecodeUTF16(b, true)
			}, []byte{0xfe, 0xff}},
		{"Latin1", "iso-8859-1", 28591, latinEnc, latinDec, nil},
		// Fidelity: simplified - the ANSI code page is Latin-1 (docs/fidelity/pwsh.md).
		{"Default", "windows-1252", 1252, latinEnc, latinDec, nil},
	}
}

func newEncoding(r *interp.Runner, e *encoding) *interp.Instance {
	class := "System.Text.Encoding"
	if e.name == "UTF8" || e.name == "ASCII" || e.name == "Unicode" {
		class = "System.Text." + e.name + "Encoding"
	}
	return instance(r, class, e, nil)
}

func encodingByName(r *interp.Runner, name string) (any, error) {
	for _, e := range encodings() {
		if strings.EqualFold(e.name, name) || strings.EqualFold(e.web, name) || value.String(i32(e.page)) == name {
			return newEncoding(r, e), nil
		}
	}
	if strings.EqualFold(name, "utf-16le") {
		return encodingByName(r, "utf-16")
	}
	return nil, argError("'%s' is not a supported encoding name.", name)
}

func encodingClasses() []*interp.Class {
	base := &interp.Class{Name: "System.Text.Encoding", Props: []interp.Property{
		get("EncodingName", func(e *encoding) any { return e.name }),
		get("WebName", func(e *encoding) any { return e.web }),
		get("BodyName", func(e *encoding) any { return e.web }),
		get("HeaderName", func(e *encoding) any { return e.web }),
		get("CodePage", func(e *encoding) any { return i32(e.page) }),
	}, Methods: []interp.Method{
		method("GetBytes", func(c *interp.Call, e *encoding) (any, error) {
			s := c.Str(0)
			if a, ok := c.Arg(0).(*value.Array); ok {
				s = value.Join(a.Items, "")
			}
			return value.NewBytes(e.encode(s)), nil
		}),
		method("GetString", func(c *interp.Call, e *encoding) (any, error) {
			if c.Arg(0) == nil {
				return nil, interp.Failf("System.ArgumentNullException", "ArgumentNullException", "NotSpecified", nil,
					"Array cannot be null.\nParameter name: bytes")
			}
			b, err := slice(c)
			return e.decode(b), err
		}),
		method("GetByteCount", func(c *interp.Call, e *encoding) (any, error) {
			return i32(len(e.encode(c.Str(0)))), nil
		}),
		method("GetChars", func(c *interp.Call, e *encoding) (any, error) {
			b, err := slice(c)
			return charArray(e.decode(b)), err
		}),
		method("GetPreamble", func(_ *interp.Call, e *encoding) (any, error) { return value.NewBytes(e.mark), nil }),
	}, StaticMethods: []interp.Method{
		static("GetEncoding", func(c *interp.Call) (any, error) { return encodingByName(c.R, c.Str(0)) }),
	}, Cast: func(r *interp.Runner, v any) (any, error) { return encodingByName(r, value.String(v)) }}
	for _, e := range encodings() {
		base.Statics = append(base.Statics, computed(e.name, func(c *interp.Call) (any, error) {
			return newEncoding(c.R, e), nil
		}))
	}
	make := func(name string) *interp.Class {
		return &interp.Class{Name: "System.Text." + name + "Encoding", Base: "System.Text.Encoding",
			New: func(c *interp.Call) (any, error) {
				return encodingByName(c.R, name)
			}}
	}
	return []*interp.Class{base, make("UTF8"), make("ASCII"), make("Unicode")}
}

func charArray(s string) *value.Array {
	a := &value.Array{Elem: "Char", Items: []any{}}
	for _, r := range s {
		a.Items = append(a.Items, value.Char(r))
	}
	return a
}
