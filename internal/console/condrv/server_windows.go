// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package condrv

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/mullion-k8s/mullion/internal/console"
)

// Server is the host's end of a console.
type Server struct {
	handle windows.Handle
	number uint32
	call   *windows.Proc
	in     []byte
}

// The mark of a module that has been installed into a runtime, and its place
// (internal/wine, markBuiltin).
const (
	mark       = "Wine builtin DLL"
	markOffset = 0x40
)

// Open takes the handle that the host was started with.
func Open(handle windows.Handle) (*Server, error) {
	ntdll, err := windows.LoadDLL("ntdll.dll")
	if err != nil {
		return nil, fmt.Errorf("open console: %w", err)
	}
	call, err := ntdll.FindProc("wine_server_call")
	if err != nil {
		return nil, fmt.Errorf("open console: not running under Wine: %w", err)
	}
	var self windows.Handle
	if err := windows.GetModuleHandleEx(0, nil, &self); err != nil {
		return nil, fmt.Errorf("open console: %w", err)
	}
	//nolint:govet // the image stays where it is
	image := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(nil), uintptr(self))), NumberOffset+4)
	if string(image[markOffset:markOffset+len(mark)]) != mark {
		return nil, fmt.Errorf("open console: this conhost.exe was not installed by mullion: it does not know %s",
			RequestName)
	}
	number := binary.LittleEndian.Uint32(image[NumberOffset:])
	return &Server{handle: handle, number: number, call: call, in: make([]byte, 1<<16)}, nil
}

// Wait returns when a request may be there, or when the console has ended.
func (s *Server) Wait() error {
	_, err := windows.WaitForSingleObject(s.handle, windows.INFINITE)
	return err
}

// serverInfo is struct __server_request_info of Wine's include/wine/server.h.
type serverInfo struct {
	union [requestSize]byte
	count uint32
	reply uintptr
	data  [5]struct {
		pointer uintptr
		size    uint32
	}
}

// Statuses of the server request.
const (
	statusOverflow = 0x80000005
)

// Next gives the answer to the last request, if it was not one that waits, and
// returns the next one; ok is false without one. signal reports waiting input to
// the server.
func (s *Server) Next(answer console.Reply, signal bool) (r console.Request, ok bool, err error) {
	for {
		got := s.do(request{server: uint32(s.handle), signal: signal, status: answer.Status}, answer.Data)
		switch got.status {
		case 0:
			data := append([]byte(nil), s.in[:got.data]...)
			return console.Request{Code: got.code, Output: got.output, Data: data, Size: got.size}, true, nil
		case console.StatusPending:
			return r, false, nil
		case statusOverflow:
			// The request's own data are larger than the buffer, and size has their
			// length. The answer has been taken.
			s.in = make([]byte, got.size)
			answer = console.Reply{}
		default:
			return r, false, fmt.Errorf("ask for console calls: status %#x", got.status)
		}
	}
}

// Answer answers the call that waited for input.
func (s *Server) Answer(answer console.Reply, signal bool) {
	// A status other than success: the caller is gone.
	s.do(request{server: uint32(s.handle), signal: signal, read: true, status: answer.Status}, answer.Data)
}

// Signal reports to the server whether input waits. No call may be waiting for it.
func (s *Server) Signal(signal bool) {
	s.Answer(console.Reply{Status: console.StatusPending}, signal)
}

func (s *Server) do(r request, out []byte) reply {
	info := &serverInfo{}
	var pin runtime.Pinner
	defer pin.Unpin()
	in := len(s.in)
	if r.read {
		in = 0
	}
	info.union = r.encode(s.number, len(out), in)
	if in > 0 {
		pin.Pin(&s.in[0])
		info.reply = uintptr(unsafe.Pointer(&s.in[0]))
	}
	if len(out) > 0 {
		pin.Pin(&out[0])
		info.count = 1
		info.data[0].pointer, info.data[0].size = uintptr(unsafe.Pointer(&out[0])), uint32(len(out))
	}
	pin.Pin(info)
	status, _, _ := s.call.Call(uintptr(unsafe.Pointer(info)))
	got := decodeReply(info.union)
	got.status = uint32(status)
	return got
}
