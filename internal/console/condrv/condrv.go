// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package condrv connects Wine's server and the console host. The server queues
// the console calls of programs. In one server request, get_next_console_request,
// the host answers the last call and requests the next one (server/protocol.def of
// Wine 10).
package condrv

import "encoding/binary"

// RequestName is the server request's name. Its number differs between versions
// of Wine.
const RequestName = "get_next_console_request"

// NumberOffset is where the console host finds the number of the request: in
// its own image, in the DOS stub, which has no other use. internal/wine writes it
// there when it lays out a runtime.
const NumberOffset = 0x60

// requestSize is the size of union generic_request and generic_reply.
const requestSize = 64

// request is struct get_next_console_request_request without its header.
type request struct {
	server uint32 // handle of the console's server end
	signal bool   // some input waits
	read   bool   // the answer is one to a call that waited for input
	status uint32 // of the answer
}

// encode lays the request out as the server reads it. number is the request's
// number, out and in are the sizes of its data.
func (r request) encode(number uint32, out, in int) [requestSize]byte {
	var b [requestSize]byte
	flag := func(at int, on bool) {
		if on {
			b[at] = 1
		}
	}
	le := binary.LittleEndian
	le.PutUint32(b[0:], number)
	le.PutUint32(b[4:], uint32(out))
	le.PutUint32(b[8:], uint32(in))
	le.PutUint32(b[12:], r.server)
	flag(16, r.signal)
	flag(20, r.read)
	le.PutUint32(b[24:], r.status)
	return b
}

// reply is struct get_next_console_request_reply.
type reply struct {
	status uint32
	data   int // bytes of the call's own data
	code   uint32
	output uint32
	size   int // of the caller's buffer
}

func decodeReply(b [requestSize]byte) reply {
	le := binary.LittleEndian
	return reply{
		status: le.Uint32(b[0:]),
		data:   int(le.Uint32(b[4:])),
		code:   le.Uint32(b[8:]),
		output: le.Uint32(b[12:]),
		size:   int(le.Uint32(b[16:])),
	}
}
