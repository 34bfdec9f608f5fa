// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wire

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/netplane/accept"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// DefaultAddress is where the DLLs look for the service: a port of the loopback
// address of the emulated host, which no other program uses.
const DefaultAddress = "127.0.0.1:10270"

// Limits of a server.
const (
	// maxConns: kube-proxy keeps at most eight connections (native/hnsclient), the
	// kubelet two, and each CNI plugin lives for one call. Beyond it a connection
	// waits in the kernel's queue.
	maxConns = 256
	// frameTimeout is for the bytes of a request after the first one, and for
	// writing a response: all of it is on the loopback interface.
	frameTimeout = 30 * time.Second
)

// Server serves an API.
type Server struct {
	// API is required.
	API hns.API
	// Log is required.
	Log *slog.Logger
}

// Serve accepts connections until ctx ends; it closes the listener, ends idle
// connections, and waits for the calls under way. It returns nil if ctx ended.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	loop := accept.Loop{
		Limit: maxConns,
		Failed: func(err error, wait time.Duration) {
			s.Log.Warn("accept failed, trying again", logkey.Error, err, logkey.Wait, wait)
		},
		Serve: s.serveConn,
	}
	return loop.Run(ctx, l)
}

func (s *Server) serveConn(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }() // Write reports undelivered data
	// A deadline in the past ends the wait for the next request, not a call.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	requests := bufio.NewReader(conn)
	for {
		err := s.serveCall(ctx, conn, requests)
		switch {
		case err == nil:
		case ctx.Err() != nil, errors.Is(err, io.EOF):
			return
		default:
			s.Log.Debug("connection ended", logkey.Error, err)
			return
		}
	}
}

func (s *Server) serveCall(ctx context.Context, conn net.Conn, requests *bufio.Reader) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	// There is no limit of time before the first byte of a request.
	if _, err := requests.Peek(1); err != nil {
		return err
	}
	if err := conn.SetReadDeadline(time.Now().Add(frameTimeout)); err != nil {
		return err
	}
	body, err := readFrame(requests, maxRequestBytes)
	if err != nil {
		return err
	}
	q, err := decodeRequest(body)
	if err != nil {
		return err
	}
	// A call that was begun is finished, even if the client or the server goes
	// away: the store and the data plane agree afterwards.
	answer := encodeResponse(s.do(context.WithoutCancel(ctx), q))
	if err := conn.SetWriteDeadline(time.Now().Add(frameTimeout)); err != nil {
		return err
	}
	if _, err := conn.Write(answer); err != nil {
		return err
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	return ctx.Err()
}

// do carries out a request. A panic is that call's failure, not the service's
// end: a node's network must not depend on one document.
func (s *Server) do(ctx context.Context, q request) (r response) {
	defer func() {
		if v := recover(); v != nil {
			s.Log.Error("hns call panicked", logkey.Method, fmt.Sprint(q.verb, " ", q.kind), logkey.Error,
				fmt.Sprint(v))
			r = failure(hresult.Errorf(hresult.Unexpected, "panic"))
		}
	}()
	r.id = q.id
	var text string
	var err error
	switch q.verb {
	case verbEnumerate:
		text, err = s.API.Enumerate(ctx, q.kind, q.args[0])
	case verbList:
		text, err = s.list(ctx, q.kind, q.args[0])
	case verbCreate:
		r.id, text, err = s.create(ctx, q)
	case verbOpen:
		err = s.API.Open(ctx, q.kind, q.id)
	case verbModify:
		err = s.API.Modify(ctx, q.kind, q.id, q.args[0])
	case verbQuery:
		text, err = s.API.Query(ctx, q.kind, q.id, q.args[0])
	case verbDelete:
		err = s.API.Delete(ctx, q.kind, q.id)
	case verbCall:
		text, err = s.API.Call(ctx, q.args[0], q.args[1], q.args[2])
	default:
		err = hresult.Errorf(hresult.NotImplemented, "verb %d", q.verb)
	}
	if err != nil {
		return failure(err)
	}
	switch q.verb {
	case verbEnumerate, verbList, verbCreate, verbQuery, verbCall:
		r.properties = &text
	}
	return r
}

// create returns the id of the new object and a list of this object alone: clients query the objects that they
// have created.
func (s *Server) create(ctx context.Context, q request) (id schema.GUID, list string, err error) {
	if id, err = s.API.Create(ctx, q.kind, q.network, q.id, q.args[0]); err != nil {
		return id, "", err
	}
	list, err = s.withDocuments(ctx, q.kind, `["`+id.String()+`"]`, "")
	return id, list, err
}

// failure returns an answer with HNS's error record. A successful answer has no
// record at all: clients take any text for an error (rule G1).
func failure(err error) response {
	code := hresult.Of(err)
	// The text ends in a space, as HNS's does.
	record, jsonErr := json.Marshal(schema.ErrorRecord{Error: hresult.Text(err) + " ", ErrorCode: uint32(code)})
	if jsonErr != nil {
		panic(jsonErr) // a struct of a bool, a string and a number
	}
	text := string(record)
	return response{code: code, record: &text}
}

// maxListBytes bounds a list with its documents: in UTF-16 they are twice as many.
const maxListBytes = maxResponseBytes / 4

// list returns the result of Enumerate, with the documents.
func (s *Server) list(ctx context.Context, kind hns.Kind, query string) (string, error) {
	text, err := s.API.Enumerate(ctx, kind, query)
	if err != nil {
		return "", err
	}
	return s.withDocuments(ctx, kind, text, query)
}

// withDocuments returns a JSON array of IDs, followed by the objects' documents from Query in the same order, each
// after a NUL. The documents of the last objects are missing if they are too large, or if an object has gone
// meanwhile: then the client queries them.
func (s *Server) withDocuments(ctx context.Context, kind hns.Kind, text, query string) (string, error) {
	var ids []string
	if err := json.Unmarshal([]byte(text), &ids); err != nil {
		return "", hresult.Errorf(hresult.Unexpected, "enumeration: %w", err)
	}
	var b strings.Builder
	b.WriteString(text)
	for _, id := range ids {
		guid, err := schema.ParseGUID(id)
		if err != nil {
			return "", hresult.Errorf(hresult.Unexpected, "enumeration: %w", err)
		}
		document, err := s.API.Query(ctx, kind, guid, query)
		if err != nil || b.Len()+len(document) > maxListBytes {
			break
		}
		b.WriteByte(0)
		b.WriteString(document)
	}
	return b.String(), nil
}
