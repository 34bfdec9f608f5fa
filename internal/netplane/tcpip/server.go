// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package tcpip

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/netplane/accept"
)

// Address is where native/iphlpapi looks for the service. A pod has its own
// loopback, where the service does not listen: its programs cannot change anything.
const Address = "127.0.0.1:10272"

// The protocol: a connection carries one call. All numbers are little-endian,
// addresses are in network order.
//
//	request:  u8 version (1)   u8 verb   u16 zero   6 × u32
//	answer:   u8 version (1)   u8 verb   u16 zero   u32 error code of Windows
//	          u32 number of rows   that many rows of 10 × u32
const (
	protocolVersion = 1
	requestWords    = 6
	requestBytes    = 4 + 4*requestWords
	rowWords        = 10
	answerHeader    = 4 + 4 + 4
)

type verb uint8

// The verbs. Their words:
//
//	routes, adapters: no words
//	add, delete, set: adapter, destination, length, next hop, metric, 1: the next hop must be on the link
//	set adapter:      adapter, which flags, flags, metric or 0, MTU or 0
const (
	verbRoutes     verb = 1
	verbAdd        verb = 2
	verbDelete     verb = 3
	verbSet        verb = 4
	verbAdapters   verb = 5
	verbSetAdapter verb = 6
)

// Flags of an adapter.
const (
	flagForwarding = 1 << iota
	flagWeakHostSend
	flagWeakHostReceive
	flagAutomaticMetric
	flagAdvertising
	flagAdvertiseDefaultRoute
	flagLoopback // of answers
)

// Limits of the server.
const (
	callTimeout = 30 * time.Second
	maxCalls    = 64
)

// Server serves a Service.
type Server struct {
	Service *Service
	Log     *slog.Logger
}

// Serve accepts calls until ctx ends; it closes the listener and waits for the
// calls under way.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	loop := accept.Loop{
		Limit: maxCalls,
		Failed: func(err error, wait time.Duration) {
			s.Log.Warn("accept failed, trying again", logkey.Error, err, logkey.Wait, wait)
		},
		Serve: func(ctx context.Context, conn net.Conn) {
			// A change that was begun is finished.
			if err := s.serve(context.WithoutCancel(ctx), conn); err != nil && !errors.Is(err, io.EOF) {
				s.Log.Debug("routing call broken off", logkey.Error, err)
			}
		},
	}
	return loop.Run(ctx, l)
}

func (s *Server) serve(ctx context.Context, conn net.Conn) error {
	defer func() { _ = conn.Close() }() // Write reports undelivered data
	if err := conn.SetDeadline(time.Now().Add(callTimeout)); err != nil {
		return err
	}
	var q [requestBytes]byte
	if _, err := io.ReadFull(conn, q[:]); err != nil {
		return err
	}
	_, err := conn.Write(s.answer(ctx, q))
	return err
}

// answer carries out a request.
func (s *Server) answer(ctx context.Context, q [requestBytes]byte) []byte {
	rows, err := s.do(ctx, q)
	code := codeOf(err)
	if code == genFailure {
		s.Log.Error("routing call failed", logkey.Method, int(q[1]), logkey.Error, err)
	}
	b := []byte{protocolVersion, q[1], 0, 0}
	b = binary.LittleEndian.AppendUint32(b, uint32(code))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(rows)))
	for _, row := range rows {
		for _, w := range row {
			b = binary.LittleEndian.AppendUint32(b, w)
		}
	}
	return b
}

func (s *Server) do(ctx context.Context, q [requestBytes]byte) ([][rowWords]uint32, error) {
	if q[0] != protocolVersion {
		return nil, refuse(notSupported, "protocol version %d, this program speaks %d", q[0], protocolVersion)
	}
	var w [requestWords]uint32
	for i := range w {
		w[i] = binary.LittleEndian.Uint32(q[4+4*i:])
	}
	switch verb(q[1]) {
	case verbRoutes:
		list, err := s.Service.routes(ctx)
		rows := make([][rowWords]uint32, len(list))
		for i, r := range list {
			rows[i] = r.words()
		}
		return rows, err
	case verbAdapters:
		list, err := s.Service.adapters(ctx)
		rows := make([][rowWords]uint32, len(list))
		for i, a := range list {
			rows[i] = a.words()
		}
		return rows, err
	case verbSetAdapter:
		return nil, s.Service.setAdapter(ctx, int(w[0]), changeOf(w))
	}
	row, err := rowOf(w)
	if err != nil {
		return nil, err
	}
	switch verb(q[1]) {
	case verbAdd:
		err = s.Service.add(ctx, row, w[5]&1 != 0)
	case verbDelete:
		err = s.Service.remove(ctx, row)
	case verbSet:
		err = s.Service.setMetric(ctx, row)
	default:
		err = refuse(notSupported, "verb %d", q[1])
	}
	return nil, err
}

func rowOf(w [requestWords]uint32) (tableRow, error) {
	if w[2] > 32 {
		return tableRow{}, refuse(invalidParameter, "prefix length %d", w[2])
	}
	return tableRow{
		Interface:   int(w[0]),
		Destination: netip.PrefixFrom(address(w[1]), int(w[2])),
		NextHop:     address(w[3]),
		Metric:      w[4],
	}, nil
}

func (r tableRow) words() [rowWords]uint32 {
	loopback := uint32(0)
	if r.Loopback {
		loopback = 1
	}
	return [rowWords]uint32{
		uint32(r.Interface), word(r.Destination.Addr()), uint32(r.Destination.Bits()), word(r.NextHop), r.Metric,
		uint32(r.Protocol), loopback, word(r.Own), r.InterfaceMetric,
	}
}

func (a adapterRow) words() [rowWords]uint32 {
	flags := uint32(0)
	for flag, on := range map[uint32]bool{
		flagForwarding: a.Forwarding, flagWeakHostSend: a.WeakHostSend, flagWeakHostReceive: a.WeakHostReceive,
		flagAutomaticMetric: a.Metric == 0, flagAdvertising: a.Advertising,
		flagAdvertiseDefaultRoute: a.AdvertiseDefaultRoute, flagLoopback: a.Loopback,
	} {
		if on {
			flags |= flag
		}
	}
	return [rowWords]uint32{uint32(a.Index), flags, a.metric, uint32(a.MTU)}
}

func changeOf(w [requestWords]uint32) adapterChange {
	flag := func(bit uint32) *bool {
		if w[1]&bit == 0 {
			return nil
		}
		return new(w[2]&bit != 0)
	}
	return adapterChange{
		Forwarding:            flag(flagForwarding),
		WeakHostSend:          flag(flagWeakHostSend),
		WeakHostReceive:       flag(flagWeakHostReceive),
		Advertising:           flag(flagAdvertising),
		AdvertiseDefaultRoute: flag(flagAdvertiseDefaultRoute),
		AutomaticMetric:       flag(flagAutomaticMetric),
		Metric:                w[3],
		MTU:                   int(w[4]),
	}
}

// address reads a word that has an address's bytes in their order in memory.
func address(w uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(w), byte(w >> 8), byte(w >> 16), byte(w >> 24)})
}

func word(a netip.Addr) uint32 {
	if !a.Is4() {
		return 0
	}
	b := a.As4()
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}
