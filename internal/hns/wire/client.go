// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package wire

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"

	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// Client implements hns.API with a connection for each call, as the DLLs do.
type Client struct {
	Address string
}

var _ hns.API = (*Client)(nil)

// do sends a request and returns the answer; a failure of the call is an
// hresult.Error.
func (c *Client) do(ctx context.Context, q request) (response, error) {
	unavailable := func(err error) error {
		return &hresult.Error{Code: hresult.ServerUnavailable, Op: "call HNS at " + c.Address, Err: err}
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", c.Address)
	if err != nil {
		return response{}, unavailable(err)
	}
	defer func() { _ = conn.Close() }() // the answer is complete or an error
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	frame := encodeRequest(q)
	if len(frame) > maxRequestBytes {
		return response{}, hresult.Errorf(hresult.InvalidArgument, "call HNS with %d bytes", len(frame))
	}
	if _, err := conn.Write(frame); err != nil {
		return response{}, unavailable(err)
	}
	body, err := readFrame(conn, maxResponseBytes)
	if err != nil {
		return response{}, unavailable(err)
	}
	r, err := decodeResponse(body)
	if err != nil {
		return response{}, unavailable(err)
	}
	if r.code.Failed() {
		e := &hresult.Error{Code: r.code, Op: fmt.Sprintf("%s %s", q.verb, q.kind)}
		if r.record != nil {
			var rec schema.ErrorRecord
			if err := json.Unmarshal([]byte(*r.record), &rec); err != nil {
				return r, fmt.Errorf("decode error record: %w", err)
			}
			text := strings.TrimSuffix(rec.Error, " ")
			e.Detail = strings.TrimSpace(strings.TrimPrefix(text, hresult.Text(r.code)))
		}
		return r, e
	}
	return r, nil
}

// String returns the verb's name for errors.
func (v verb) String() string {
	names := map[verb]string{verbEnumerate: "enumerate", verbList: "list", verbCreate: "create", verbOpen: "open",
		verbModify: "modify", verbQuery: "query", verbDelete: "delete", verbCall: "call"}
	return cmp.Or(names[v], fmt.Sprintf("verb %d", uint8(v)))
}

func (r response) text() string {
	if r.properties == nil {
		return ""
	}
	return *r.properties
}

// Enumerate implements hns.API.
func (c *Client) Enumerate(ctx context.Context, kind hns.Kind, query string) (string, error) {
	r, err := c.do(ctx, request{verb: verbEnumerate, kind: kind, args: [3]string{query}})
	return r.text(), err
}

// Create implements hns.API.
func (c *Client) Create(ctx context.Context, kind hns.Kind, network, id schema.GUID,
	settings string) (schema.GUID, error) {
	r, err := c.do(ctx, request{verb: verbCreate, kind: kind, network: network, id: id, args: [3]string{settings}})
	return r.id, err
}

// Open implements hns.API.
func (c *Client) Open(ctx context.Context, kind hns.Kind, id schema.GUID) error {
	_, err := c.do(ctx, request{verb: verbOpen, kind: kind, id: id})
	return err
}

// Modify implements hns.API.
func (c *Client) Modify(ctx context.Context, kind hns.Kind, id schema.GUID, settings string) error {
	_, err := c.do(ctx, request{verb: verbModify, kind: kind, id: id, args: [3]string{settings}})
	return err
}

// Query implements hns.API.
func (c *Client) Query(ctx context.Context, kind hns.Kind, id schema.GUID, query string) (string, error) {
	r, err := c.do(ctx, request{verb: verbQuery, kind: kind, id: id, args: [3]string{query}})
	return r.text(), err
}

// Delete implements hns.API.
func (c *Client) Delete(ctx context.Context, kind hns.Kind, id schema.GUID) error {
	_, err := c.do(ctx, request{verb: verbDelete, kind: kind, id: id})
	return err
}

// Call implements hns.API.
func (c *Client) Call(ctx context.Context, method, path, body string) (string, error) {
	r, err := c.do(ctx, request{verb: verbCall, args: [3]string{method, path, body}})
	return r.text(), err
}
