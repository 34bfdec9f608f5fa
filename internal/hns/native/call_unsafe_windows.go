// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package native

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// arg is one parameter of a function of the DLLs.
type arg struct {
	value uintptr
	text  *uint16
	guid  *schema.GUID // Windows' layout
	out   outKind
}

type outKind int

// The kinds of parameters.
const (
	given     outKind = iota // not an out parameter
	outText                  // PWSTR*, allocated by the callee
	outError                 // the same, with an error
	outObject                // an opaque pointer
)

// Out parameters, which the caller does not fill in.
var (
	outString = arg{out: outText}
	outRecord = arg{out: outError}
	outHandle = arg{out: outObject}
)

func textArg(s string) arg {
	// A NUL inside cuts the string, as every C caller would.
	p, err := windows.UTF16PtrFromString(s)
	if err != nil {
		p = new(uint16)
	}
	return arg{text: p}
}

func guidArg(id schema.GUID) arg {
	g := id.Windows()
	return arg{guid: &g}
}

func handleArg(h uintptr) arg { return arg{value: h} }

// result holds the return value and the out pointers of a function.
type result struct {
	code         hresult.Code
	text, record string
	handle       uintptr
	// nullText is set if a requested string is missing.
	nullText bool
}

// garbage is the value of out pointers before a call: the callee must write all
// of them, whatever happens (rule G2).
const garbage = 0x6761726261676521

// invoke calls a function. An error means that it could not be called, or broke
// the rules for out pointers.
func (s *Service) invoke(dll *windows.LazyDLL, name string, args ...arg) (result, error) {
	proc := dll.NewProc(name)
	if err := proc.Find(); err != nil {
		return result{}, &hresult.Error{Code: hresult.NotImplemented, Op: "find " + name, Err: err}
	}
	outs := make([]uintptr, len(args))
	values := make([]uintptr, len(args))
	for i, a := range args {
		outs[i] = garbage
		switch {
		case a.out != given:
			values[i] = uintptr(unsafe.Pointer(&outs[i]))
		case a.text != nil:
			values[i] = uintptr(unsafe.Pointer(a.text))
		case a.guid != nil:
			values[i] = uintptr(unsafe.Pointer(a.guid))
		default:
			values[i] = a.value
		}
	}
	code, _, _ := proc.Call(values...)
	runtime.KeepAlive(args)
	runtime.KeepAlive(outs)
	r := result{code: hresult.Code(code)}
	for i, a := range args {
		if a.out == given {
			continue
		}
		if outs[i] == garbage {
			return r, fmt.Errorf("%s left an out pointer as it was (0x%08x)", name, uint32(r.code))
		}
		switch a.out {
		case outText:
			r.text, r.nullText = take(outs[i]), outs[i] == 0
		case outError:
			r.record = take(outs[i])
		case outObject:
			r.handle = outs[i]
		}
	}
	if !r.code.Failed() && r.nullText {
		return r, fmt.Errorf("%s succeeded without a string", name)
	}
	return r, nil
}

// take copies and frees a string of the callee's.
func take(p uintptr) string {
	if p == 0 {
		return ""
	}
	ptr := *(**uint16)(unsafe.Pointer(&p))
	defer windows.CoTaskMemFree(unsafe.Pointer(ptr))
	return windows.UTF16PtrToString(ptr)
}
