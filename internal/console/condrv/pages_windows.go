// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package condrv

import (
	"unicode/utf8"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/mullion-k8s/mullion/internal/console"
)

// utf8Page is CP_UTF8, winnls.h.
const utf8Page = 65001

// Pages are the system's code pages.
type Pages struct{}

var _ console.CodePages = Pages{}

var (
	isValidCodePage     = kernel32.NewProc("IsValidCodePage")
	wideCharToMultiByte = kernel32.NewProc("WideCharToMultiByte")
)

// Valid reports whether the system supports the code page.
func (Pages) Valid(page uint32) bool {
	ok, _, _ := isValidCodePage.Call(uintptr(page))
	return ok != 0
}

// Decode returns the text of bytes; rest is the beginning of a UTF-8 character
// whose end is missing.
func (Pages) Decode(page uint32, data []byte) (text []uint16, rest []byte) {
	if page == utf8Page {
		for back := 1; back < utf8.UTFMax && back <= len(data); back++ {
			if tail := data[len(data)-back:]; utf8.RuneStart(tail[0]) {
				if !utf8.FullRune(tail) {
					data, rest = data[:len(data)-back], append(rest, tail...)
				}
				break
			}
		}
	}
	if len(data) == 0 {
		return nil, rest
	}
	text = make([]uint16, len(data)+1) // never more units than bytes
	n, err := windows.MultiByteToWideChar(page, 0, &data[0], int32(len(data)), &text[0], int32(len(text)))
	if err != nil {
		return nil, rest
	}
	return text[:n], rest
}

// Encode returns the bytes of text.
func (Pages) Encode(page uint32, text []uint16) []byte {
	if len(text) == 0 {
		return nil
	}
	data := make([]byte, 4*len(text))
	n, _, _ := wideCharToMultiByte.Call(uintptr(page), 0, uintptr(unsafe.Pointer(&text[0])), uintptr(len(text)),
		uintptr(unsafe.Pointer(&data[0])), uintptr(len(data)), 0, 0)
	return data[:n]
}
