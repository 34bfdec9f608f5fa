// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf16"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// protocolVersion of the protocol. Both ends come from one build; the number makes a
// mixture of two builds an error instead of nonsense.
const protocolVersion = 1

// verb is the requested operation. The numbers are part of the protocol.
type verb uint8

// The verbs. Closing a handle needs no call.
const (
	verbEnumerate verb = 1
	verbCreate    verb = 2
	verbOpen      verb = 3
	verbModify    verb = 4
	verbQuery     verb = 5
	verbDelete    verb = 6
	verbCall      verb = 7 // HNSCall; the kind is 0
	verbList      verb = 8 // enumerate, with the documents
)

// Limits of a frame. A load balancer of 1,000 endpoints is 40 kB of JSON, a
// request for 10,000 addresses in a set 200 kB; the v1 list of 10,000 endpoints
// is 6 MB. In UTF-16 each is twice that.
const (
	maxRequestBytes  = 8 << 20
	maxResponseBytes = 64 << 20

	requestHeader  = 4 + 16 + 16
	responseHeader = 4 + 4 + 16
	requestStrings = 3
	noString       = 0xFFFFFFFF
)

// errFrame reports a frame that does not follow the protocol. The connection cannot
// be used any further.
var errFrame = errors.New("malformed frame")

type request struct {
	verb        verb
	kind        hns.Kind
	id, network schema.GUID // text order
	args        [requestStrings]string
}

type response struct {
	code       hresult.Code
	id         schema.GUID // text order
	properties *string
	record     *string
}

// readFrame reads a length and that many bytes. The buffer grows with the received
// data, so that a length without its bytes is cheap.
func readFrame(r io.Reader, limit uint32) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > limit {
		return nil, fmt.Errorf("%w: %d bytes, the limit is %d", errFrame, n, limit)
	}
	b, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err == nil && len(b) < int(n) {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}

func decodeRequest(b []byte) (request, error) {
	var q request
	if len(b) < requestHeader {
		return q, fmt.Errorf("%w: %d bytes", errFrame, len(b))
	}
	if b[0] != protocolVersion {
		return q, fmt.Errorf("%w: protocol version %d, this program speaks %d", errFrame, b[0], protocolVersion)
	}
	q.kind, q.verb = hns.Kind(b[1]), verb(b[2])
	q.id, q.network = schema.GUID(b[4:20]).Windows(), schema.GUID(b[20:36]).Windows()
	b = b[requestHeader:]
	for i := range q.args {
		s, rest, err := cutString(b)
		if err != nil {
			return q, err
		}
		if s != nil {
			q.args[i] = *s
		}
		b = rest
	}
	if len(b) > 0 {
		return q, fmt.Errorf("%w: %d bytes too many", errFrame, len(b))
	}
	return q, nil
}

func encodeRequest(q request) []byte {
	b := []byte{0, 0, 0, 0, protocolVersion, byte(q.kind), byte(q.verb), 0}
	id, network := q.id.Windows(), q.network.Windows()
	b = append(append(b, id[:]...), network[:]...)
	for _, s := range q.args {
		b = appendString(b, &s)
	}
	return finish(b)
}

func decodeResponse(b []byte) (response, error) {
	var r response
	if len(b) < responseHeader || b[0] != protocolVersion {
		return r, fmt.Errorf("%w: not a response of version %d", errFrame, protocolVersion)
	}
	r.code, r.id = hresult.Code(binary.LittleEndian.Uint32(b[4:])), schema.GUID(b[8:24]).Windows()
	var err error
	if r.properties, b, err = cutString(b[responseHeader:]); err != nil {
		return r, err
	}
	if r.record, b, err = cutString(b); err != nil {
		return r, err
	}
	if len(b) > 0 {
		return r, fmt.Errorf("%w: %d bytes too many", errFrame, len(b))
	}
	return r, nil
}

func encodeResponse(r response) []byte {
	b := []byte{0, 0, 0, 0, protocolVersion, 0, 0, 0}
	b = binary.LittleEndian.AppendUint32(b, uint32(r.code))
	id := r.id.Windows()
	b = append(b, id[:]...)
	return finish(appendString(appendString(b, r.properties), r.record))
}

// finish writes the length into the first four bytes.
func finish(b []byte) []byte {
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func cutString(b []byte) (*string, []byte, error) {
	if len(b) < 4 {
		return nil, nil, fmt.Errorf("%w: string without a length", errFrame)
	}
	n := binary.LittleEndian.Uint32(b)
	b = b[4:]
	if n == noString {
		return nil, b, nil
	}
	if uint64(n) > uint64(len(b)) || n%2 != 0 {
		return nil, nil, fmt.Errorf("%w: string of %d bytes, %d are left", errFrame, n, len(b))
	}
	units := make([]uint16, n/2)
	for i := range units {
		units[i] = binary.LittleEndian.Uint16(b[2*i:])
	}
	s := string(utf16.Decode(units))
	return &s, b[n:], nil
}

func appendString(b []byte, s *string) []byte {
	if s == nil {
		return binary.LittleEndian.AppendUint32(b, noString)
	}
	at := len(b)
	b = binary.LittleEndian.AppendUint32(b, 0)
	for _, r := range *s {
		if r1, r2 := utf16.EncodeRune(r); r1 != 0xFFFD {
			b = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(b, uint16(r1)), uint16(r2))
		} else {
			b = binary.LittleEndian.AppendUint16(b, uint16(r))
		}
	}
	binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}
