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
	"syscall"
	"testing"
)

// request encodes a call.
func request(v verb, words ...uint32) (q [requestBytes]byte) {
	q[0], q[1] = protocolVersion, byte(v)
	for i, w := range words {
		binary.LittleEndian.PutUint32(q[4+4*i:], w)
	}
	return q
}

// failing is a listener that fails at first.
type failing struct {
	net.Listener
	errs []error
}

func (f *failing) Accept() (net.Conn, error) {
	if len(f.errs) == 0 {
		return f.Listener.Accept()
	}
	err := f.errs[0]
	f.errs = f.errs[1:]
	return nil, err
}

// TestClosedListener: a server whose listener is closed by another ends.
func TestClosedListener(t *testing.T) {
	server := &Server{Service: newMachine(t).open(t), Log: slog.New(slog.DiscardHandler)}
	err := server.Serve(t.Context(), &failing{errs: []error{syscall.EMFILE, net.ErrClosed}})
	if !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

func TestServer(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	server := &Server{Service: newMachine(t).open(t), Log: slog.New(slog.DiscardHandler)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	failed := []error{syscall.EMFILE, syscall.ECONNABORTED} // it goes on after these
	go func() { done <- server.Serve(ctx, &failing{Listener: l, errs: failed}) }()
	call := func(q [requestBytes]byte) (code uint32, rows [][rowWords]uint32) {
		t.Helper()
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write(q[:]); err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(conn)
		if err != nil || len(b) < answerHeader || b[0] != protocolVersion || b[1] != q[1] {
			t.Fatalf("answer %x, %v", b, err)
		}
		for at := answerHeader; at < len(b); at += 4 * rowWords {
			var row [rowWords]uint32
			for i := range row {
				row[i] = binary.LittleEndian.Uint32(b[at+4*i:])
			}
			rows = append(rows, row)
		}
		if n := binary.LittleEndian.Uint32(b[8:]); int(n) != len(rows) {
			t.Errorf("%d rows, the header says %d", len(rows), n)
		}
		return binary.LittleEndian.Uint32(b[4:]), rows
	}
	to, hop := word(addr("10.244.2.0")), word(addr("10.89.0.12"))
	if code, _ := call(request(verbAdd, 2, to, 24, hop, 256, 1)); code != 0 {
		t.Errorf("add: code %d", code)
	}
	_, rows := call(request(verbRoutes))
	want := [rowWords]uint32{2, to, 24, hop, 256, uint32(protocolNetMgmt), 0, word(addr("10.89.0.11")), ethernetMetric}
	if len(rows) != 17 || rows[7] != want {
		t.Errorf("the table is %v, want %v in it", rows, want)
	}
	if code, _ := call(request(verbSet, 2, to, 24, hop, 1)); code != 0 {
		t.Errorf("set: code %d", code)
	}
	if code, _ := call(request(verbDelete, 2, to, 24, hop)); code != 0 {
		t.Errorf("delete: code %d", code)
	}
	if code, _ := call(request(verbSetAdapter, 2, flagForwarding|flagWeakHostSend, flagForwarding)); code != 0 {
		t.Errorf("set adapter: code %d", code)
	}
	if _, rows := call(request(verbAdapters)); rows[1] != [rowWords]uint32{2, flagForwarding | flagAutomaticMetric,
		ethernetMetric, 1500} {
		t.Errorf("adapters are %v", rows)
	}
	for _, q := range [][requestBytes]byte{request(99), {0: 7}} {
		if code, _ := call(q); code != uint32(notSupported) {
			t.Errorf("%x: code %d", q[:4], code)
		}
	}
	if code, _ := call(request(verbAdd, 2, to, 33, hop)); code != uint32(invalidParameter) {
		t.Errorf("length 33: code %d", code)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func FuzzAnswer(f *testing.F) {
	for v := verbRoutes; v <= verbSetAdapter; v++ {
		q := request(v, 2, word(addr("10.244.2.0")), 24, word(addr("10.89.0.12")), 256, 1)
		f.Add(q[:])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		server := &Server{Service: newMachine(t).open(t), Log: slog.New(slog.DiscardHandler)}
		for len(data) >= requestBytes {
			answer := server.answer(t.Context(), [requestBytes]byte(data))
			data = data[requestBytes:]
			n := binary.LittleEndian.Uint32(answer[8:])
			if len(answer) != answerHeader+int(n)*4*rowWords {
				t.Fatalf("%d bytes for %d rows", len(answer), n)
			}
		}
		if _, err := Open(t.Context(), server.Service.cfg); err != nil {
			t.Fatalf("the file cannot be read back: %v", err)
		}
	})
}

func FuzzPersistentRoute(f *testing.F) {
	f.Add("10.0.0.0,255.0.0.0,10.1.1.1,1")
	f.Add("0.0.0.0,0.0.0.0,0.0.0.0,65535")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePersistentRoute(text)
		if err == nil && (!p.Destination.IsValid() || !p.NextHop.Is4()) {
			t.Errorf("%q is %+v", text, p)
		}
	})
}
