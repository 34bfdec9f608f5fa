// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// echo is an API that answers what it was asked, so that tests see what
// arrived.
type echo struct {
	// begun and release, if set, stop a call of Open in the middle.
	begun, release chan struct{}
}

func (e *echo) Enumerate(_ context.Context, kind hns.Kind, query string) (string, error) {
	return fmt.Sprint("enumerate ", kind, " ", query), nil
}

func (e *echo) Create(_ context.Context, kind hns.Kind, network, id schema.GUID, settings string) (schema.GUID, error) {
	if settings == "fail" {
		return id, &hresult.Error{Code: hresult.InvalidJSONReference, Op: "create", Detail: "A Reference is required"}
	}
	if kind == hns.Endpoint {
		return network, nil
	}
	return id, nil
}

func (e *echo) Open(ctx context.Context, kind hns.Kind, id schema.GUID) error {
	if e.begun != nil {
		e.begun <- struct{}{}
		<-e.release
	}
	return ctx.Err()
}

func (e *echo) Modify(_ context.Context, kind hns.Kind, id schema.GUID, settings string) error {
	panic("as a bug would")
}

func (e *echo) Query(_ context.Context, kind hns.Kind, id schema.GUID, query string) (string, error) {
	return fmt.Sprint("query ", kind, " ", id, " ", query), nil
}

func (e *echo) Delete(context.Context, hns.Kind, schema.GUID) error {
	return errors.New("secret detail")
}

func (e *echo) Call(_ context.Context, method, path, request string) (string, error) {
	return method + "|" + path + "|" + request, nil
}

// serve starts a server; stop ends it and waits.
func serve(t *testing.T, api hns.API) (address string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- (&Server{API: api, Log: slog.New(slog.DiscardHandler)}).Serve(ctx, l) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Serve: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

func TestCalls(t *testing.T) {
	address, _ := serve(t, &echo{})
	c := &Client{Address: address}
	ctx := t.Context()
	id := schema.NewGUID()
	const odd = "ä€😀\"\\\n"
	if got, err := c.Enumerate(ctx, hns.Network, odd); err != nil || got != "enumerate network "+odd {
		t.Errorf("Enumerate: %q, %v", got, err)
	}
	if got, err := c.Query(ctx, hns.LoadBalancer, id, ""); err != nil || got != "query load balancer "+id.String()+" " {
		t.Errorf("Query: %q, %v", got, err)
	}
	if got, err := c.Create(ctx, hns.Endpoint, id, schema.GUID{}, "{}"); err != nil || got != id {
		t.Errorf("Create: %s, %v, want the network's id", got, err)
	}
	if got, err := c.Call(ctx, "POST", "/x/", odd); err != nil || got != "POST|/x/|"+odd {
		t.Errorf("Call: %q, %v", got, err)
	}
	if err := c.Open(ctx, hns.Namespace, id); err != nil {
		t.Errorf("Open: %v", err)
	}
	_, err := c.Create(ctx, hns.LoadBalancer, schema.GUID{}, id, "fail")
	if hresult.Of(err) != hresult.InvalidJSONReference ||
		hresult.Text(err) != "The reference is invalid in the JSON document. A Reference is required" {
		t.Errorf("failure: %v, text %q", err, hresult.Text(err))
	}
	if err := c.Delete(ctx, hns.Network, id); hresult.Of(err) != hresult.Fail ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("failure of another kind: %v, want E_FAIL without the detail", err)
	}
	if err := c.Modify(ctx, hns.Network, id, ""); hresult.Of(err) != hresult.Unexpected {
		t.Errorf("panic: %v, want E_UNEXPECTED", err)
	}
	if err := c.Open(ctx, hns.Namespace, id); err != nil {
		t.Errorf("after a panic: %v", err)
	}
}

// TestG1SuccessHasNoErrorRecord looks at the bytes: a client takes any text in
// the record for a failure (rule G1), and none in the properties for a crash
// (rule G3).
// listing is an API with some objects, of which one has gone after the enumeration.
type listing struct {
	echo
	ids  string
	gone schema.GUID
}

func (l *listing) Enumerate(context.Context, hns.Kind, string) (string, error) { return l.ids, nil }

func (l *listing) Create(_ context.Context, _ hns.Kind, _, id schema.GUID, _ string) (schema.GUID, error) {
	return id, nil
}

func (l *listing) Query(ctx context.Context, kind hns.Kind, id schema.GUID, query string) (string, error) {
	if id == l.gone {
		return "", hresult.Errorf(hresult.NotFound, "gone")
	}
	return l.echo.Query(ctx, kind, id, query)
}

// TestList: the documents follow the IDs, in their order and as far as they could be read.
func TestList(t *testing.T) {
	a, b, c := schema.NewGUID(), schema.NewGUID(), schema.NewGUID()
	ids := fmt.Sprintf(`["%s","%s","%s"]`, a, b, c)
	document := func(id schema.GUID) string { return fmt.Sprint("\x00query endpoint ", id, " {}") }
	for _, tt := range []struct {
		ids  string
		gone schema.GUID
		want string
	}{
		{"[]", schema.GUID{}, "[]"},
		{ids, schema.GUID{}, ids + document(a) + document(b) + document(c)},
		{ids, b, ids + document(a)},
		{ids, a, ids},
	} {
		address, _ := serve(t, &listing{ids: tt.ids, gone: tt.gone})
		client := &Client{Address: address}
		r, err := client.do(t.Context(), request{verb: verbList, kind: hns.Endpoint, args: [3]string{"{}"}})
		if err != nil || r.text() != tt.want {
			t.Errorf("%s without %s: %q, %v, want %q", tt.ids, tt.gone, r.text(), err, tt.want)
		}
	}
	for gone, want := range map[schema.GUID]string{
		{}: fmt.Sprintf("[\"%s\"]\x00query endpoint %s ", b, b),
		b:  fmt.Sprintf("[\"%s\"]", b),
	} {
		address, _ := serve(t, &listing{gone: gone})
		client := &Client{Address: address}
		r, err := client.do(t.Context(), request{verb: verbCreate, kind: hns.Endpoint, id: b})
		if err != nil || r.id != b || r.text() != want {
			t.Errorf("create without %s: %s, %q, %v, want %q", gone, r.id, r.text(), err, want)
		}
	}
	for _, bad := range []string{"nonsense", `["no GUID"]`} {
		address, _ := serve(t, &listing{ids: bad})
		_, err := (&Client{Address: address}).do(t.Context(), request{verb: verbList, kind: hns.Endpoint})
		if hresult.Of(err) != hresult.Unexpected {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestG1SuccessHasNoErrorRecord(t *testing.T) {
	s := &Server{API: &echo{}, Log: slog.New(slog.DiscardHandler)}
	for _, verb := range []verb{verbEnumerate, verbCreate, verbOpen, verbQuery, verbCall} {
		r := s.do(t.Context(), request{verb: verb, kind: hns.Network})
		wantText := verb != verbOpen
		if r.code != hresult.OK || r.record != nil || (r.properties != nil) != wantText {
			t.Errorf("%s: %+v", verb, r)
		}
	}
	r := s.do(t.Context(), request{verb: verbDelete, kind: hns.Network})
	if want := `{"Success":false,"Error":"Unspecified error ","ErrorCode":2147500037}`; r.record == nil ||
		*r.record != want || r.properties != nil {
		t.Errorf("failure: %+v, want the record %s", r, want)
	}
	if r := s.do(t.Context(), request{verb: 99}); r.code != hresult.NotImplemented {
		t.Errorf("unknown verb: %+v", r)
	}
}

// TestG15BackendDown: without a server the answer is RPC_S_SERVER_UNAVAILABLE.
func TestG15BackendDown(t *testing.T) {
	address, stop := serve(t, &echo{})
	stop()
	_, err := (&Client{Address: address}).Enumerate(t.Context(), hns.Network, "")
	if hresult.Of(err) != hresult.ServerUnavailable {
		t.Errorf("%v, want 0x800706ba", err)
	}
}

// TestStopFinishesCalls: a call that was begun is answered although the server
// stops; an idle connection does not keep it.
func TestStopFinishesCalls(t *testing.T) {
	api := &echo{begun: make(chan struct{}), release: make(chan struct{})}
	address, stop := serve(t, api)
	idle, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = idle.Close() }()
	result := make(chan error, 1)
	go func() { result <- (&Client{Address: address}).Open(t.Context(), hns.Network, schema.NewGUID()) }()
	<-api.begun
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	// The listener is closed at once; that shows that the server is stopping.
	for {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			break
		}
		_ = conn.Close()
	}
	close(api.release)
	if err := <-result; err != nil {
		t.Errorf("call during the stop: %v", err)
	}
	<-stopped
}

// TestManyCallsOneConnection makes several calls on one connection, as the DLLs do.
func TestManyCallsOneConnection(t *testing.T) {
	address, _ := serve(t, &echo{})
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for i := range 100 {
		want := fmt.Sprintf("GET|/%d|", i)
		if _, err := conn.Write(
			encodeRequest(request{verb: verbCall, args: [3]string{"GET", fmt.Sprintf("/%d", i)}})); err != nil {
			t.Fatal(err)
		}
		body, err := readFrame(conn, maxResponseBytes)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := decodeResponse(body); err != nil || r.text() != want {
			t.Fatalf("%q, %v, want %q", r.text(), err, want)
		}
	}
}

func TestConcurrentClients(t *testing.T) {
	address, _ := serve(t, &echo{})
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			c := &Client{Address: address}
			for j := range 20 {
				path := fmt.Sprintf("/%d/%d", i, j)
				if got, err := c.Call(t.Context(), "GET", path, ""); err != nil || got != "GET|"+path+"|" {
					t.Errorf("%q, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}

// TestBadFrames: the server ends such a connection, and serves the next.
func TestBadFrames(t *testing.T) {
	good := encodeRequest(request{verb: verbCall, args: [3]string{"GET", "/", ""}})
	change := func(f func(b []byte) []byte) []byte { return f(bytes.Clone(good)) }
	u32 := func(b []byte, at int, v uint32) []byte { binary.LittleEndian.PutUint32(b[at:], v); return b }
	for name, frame := range map[string][]byte{
		"too long":            u32(make([]byte, 4), 0, maxRequestBytes+1),
		"HTTP":                []byte("GET / HTTP/1.1\r\n\r\n"),
		"short":               {2, 0, 0, 0, 1, 1},
		"other version":       change(func(b []byte) []byte { b[4] = 2; return b }),
		"string past the end": change(func(b []byte) []byte { return u32(b, 40, 1<<30) }),
		"odd string":          change(func(b []byte) []byte { return u32(b, 40, 3) }),
		"bytes left over":     change(func(b []byte) []byte { return u32(append(b, 0, 0), 0, uint32(len(b)-2)) }),
		"cut off":             good[:len(good)-1],
	} {
		t.Run(name, func(t *testing.T) {
			address, _ := serve(t, &echo{})
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			if _, err := conn.Write(frame); err != nil {
				t.Fatal(err)
			}
			// The server may have ended the connection already, and by a reset: it did
			// not read all.
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil && !errors.Is(err, syscall.ENOTCONN) {
				t.Fatal(err)
			}
			var netErr *net.OpError
			if b, err := io.ReadAll(conn); len(b) != 0 || err != nil && !errors.As(err, &netErr) {
				t.Errorf("answered %q, %v", b, err)
			}
			if _, err := (&Client{Address: address}).Call(t.Context(), "GET", "/", ""); err != nil {
				t.Errorf("next call: %v", err)
			}
		})
	}
}

func FuzzRequest(f *testing.F) {
	for _, q := range []request{
		{verb: verbEnumerate, kind: hns.Network, args: [3]string{`{"Filter":""}`}},
		{verb: verbCreate, kind: hns.Endpoint, id: schema.NewGUID(), network: schema.NewGUID(), args: [3]string{"ä😀"}},
		{verb: verbCall, args: [3]string{"GET", "/networks/", ""}},
	} {
		f.Add(encodeRequest(q)[4:])
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := decodeRequest(body)
		if err != nil {
			if !errors.Is(err, errFrame) {
				t.Fatalf("error %v is not ErrFrame", err)
			}
			return
		}
		// What was understood is written so that it is understood again. The bytes
		// may differ: lone surrogates become U+FFFD, byte 3 is ignored.
		again, err := decodeRequest(encodeRequest(q)[4:])
		if err != nil || again != q {
			t.Fatalf("%+v came back as %+v, %v", q, again, err)
		}
	})
}

func FuzzResponse(f *testing.F) {
	text := `{"ID":"ä"}`
	f.Add(encodeResponse(response{id: schema.NewGUID(), properties: &text})[4:])
	f.Add(encodeResponse(failure(hresult.Errorf(hresult.NotFound, "x")))[4:])
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := decodeResponse(body)
		if err != nil {
			return
		}
		again, err := decodeResponse(encodeResponse(r)[4:])
		if err != nil || again.code != r.code || again.id != r.id || again.text() != r.text() ||
			(again.record == nil) != (r.record == nil) {
			t.Fatalf("%+v came back as %+v, %v", r, again, err)
		}
	})
}

func BenchmarkCall(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- (&Server{API: &echo{}, Log: slog.New(slog.DiscardHandler)}).Serve(ctx, l) }()
	c := &Client{Address: l.Addr().String()}
	for b.Loop() {
		if _, err := c.Call(ctx, "GET", "/endpoints/", ""); err != nil {
			b.Fatal(err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
