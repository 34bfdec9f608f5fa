// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// This file sends one request and reads its response. net/http's client decides
// the order, the spelling and the presence of headers; curl sends and shows them
// as they are given. net/http's reader of responses is used.

// maxHead bounds the headers of a response: lib/http.h, MAX_HTTP_RESP_HEADER_SIZE.
const maxHead = 300 << 10

// request is one message to a server.
type request struct {
	method  string
	url     *url.URL
	trusted bool // the server may see the credentials
	hasBody bool
}

// response is an HTTP response; close ends its connection.
type response struct {
	*http.Response
	close func()
}

// body is the content of a request.
type body struct {
	io.ReadCloser
	length      int64 // -1: unknown
	contentType string
}

// openBody returns the body of a request, or nil.
func (t *transfer) openBody(r *request) (*body, error) {
	of := func(data []byte, contentType string) *body {
		return &body{io.NopCloser(bytes.NewReader(data)), int64(len(data)), contentType}
	}
	switch {
	case !r.hasBody:
		return nil, nil
	case t.opts.parts != nil:
		data, contentType, err := multipartBody(t.opts.parts)
		return of(data, contentType), err
	case t.opts.hasData && !t.opts.get:
		return of(t.opts.data, "application/x-www-form-urlencoded"), nil
	case t.upload == "-":
		return &body{ReadCloser: io.NopCloser(t.env.Stdin), length: -1}, nil
	case t.upload != "":
		f, err := os.Open(t.upload)
		if err != nil {
			t.errorf("cannot open '%s'", t.upload)
			t.tryHelp()
			return nil, fail(exitRead, "Failed to open/read local data from file/application")
		}
		b := &body{ReadCloser: f, length: -1}
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			b.length = info.Size()
		}
		return b, nil
	}
	return nil, nil
}

// custom returns the value of a header set by --header, and reports whether
// --header names it.
func custom(headers []string, name string) (string, bool) {
	for _, h := range headers {
		n, value, ok := strings.Cut(h, ":")
		if !ok {
			n, _, ok = strings.Cut(h, ";")
		}
		if ok && strings.EqualFold(strings.TrimSpace(n), name) {
			return strings.TrimSpace(value), true
		}
	}
	return "", false
}

// ownHeaders are the headers of --header and --json; another server gets no
// credentials.
func (t *transfer) ownHeaders(r *request) []string {
	own := slices.Clone(t.opts.headers)
	if t.opts.isJSON {
		for _, name := range []string{"Content-Type", "Accept"} {
			if _, ok := custom(own, name); !ok {
				own = append(own, name+": application/json")
			}
		}
	}
	return slices.DeleteFunc(own, func(h string) bool {
		name, _, _ := strings.Cut(h, ":")
		return !r.trusted && slices.Contains([]string{"authorization", "cookie", "host"}, strings.ToLower(name))
	})
}

// head returns the first line and the headers of a request, in the order of
// lib/http.c: Curl_http.
func (t *transfer) head(r *request, b *body) string {
	own := t.ownHeaders(r)
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s HTTP/1.1\r\n", r.method, r.url.RequestURI())
	add := func(name, value string) {
		if _, ok := custom(own, name); !ok && value != "" {
			fmt.Fprintf(&text, "%s: %s\r\n", name, value)
		}
	}
	add("Host", hostHeader(r.url))
	if host, _ := custom(own, "Host"); host != "" {
		fmt.Fprintf(&text, "Host: %s\r\n", host)
	}
	add("Authorization", t.authorization(r))
	if !t.opts.noAgent {
		add("User-Agent", cmp.Or(t.opts.userAgent, "curl/"+version))
	}
	add("Accept", "*/*")
	add("Referer", t.opts.referer)
	if r.trusted {
		add("Cookie", strings.Join(t.opts.cookies, ";"))
	}
	for _, h := range own {
		name, value, ok := strings.Cut(h, ":")
		switch empty, after, found := strings.Cut(h, ";"); {
		case strings.EqualFold(strings.TrimSpace(name), "Host"):
		case ok && strings.TrimSpace(value) != "":
			text.WriteString(h + "\r\n")
		case !ok && found && strings.TrimSpace(after) == "":
			text.WriteString(empty + ":\r\n") // "Name;" sends a header without a value
		}
	}
	if b != nil {
		if b.length < 0 {
			add("Transfer-Encoding", "chunked")
		} else {
			add("Content-Length", fmt.Sprint(b.length))
		}
		add("Content-Type", b.contentType)
	}
	return text.String() + "\r\n"
}

// authorization returns the value of the header for --user, or for the account
// in the URL.
func (t *transfer) authorization(r *request) string {
	account := ""
	if r.trusted {
		account = t.opts.user
	}
	if r.url.User != nil {
		password, _ := r.url.User.Password()
		account = r.url.User.Username() + ":" + password
	}
	if account == "" {
		return ""
	}
	if !strings.Contains(account, ":") {
		account += ":"
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(account))
}

// exchange sends a request and returns the response, whose body is not read yet.
func (t *transfer) exchange(ctx context.Context, r *request) (*response, error) {
	b, err := t.openBody(r)
	if err != nil {
		return nil, err
	}
	if b != nil {
		defer b.Close() // only read
		if value, _ := custom(t.opts.headers, "Transfer-Encoding"); strings.EqualFold(value, "chunked") {
			b.length = -1
		}
	}
	k, err := t.open(ctx, r.url)
	if err != nil {
		return nil, err
	}
	// The end of the context ends all reading and writing.
	stop := context.AfterFunc(ctx, func() { _ = k.SetDeadline(time.Unix(1, 0)) })
	end := func() {
		stop()
		_ = k.Close() // a request has it for itself
	}
	a, err := t.send(k, r, b)
	if err != nil {
		end()
		return nil, err
	}
	a.close = end
	return a, nil
}

func (t *transfer) send(k *conn, r *request, b *body) (*response, error) {
	head := t.head(r, b)
	t.stats.preTransfer = time.Since(t.began)
	t.stats.requestSize += int64(len(head))
	t.showHead("> ", head)
	if _, err := io.WriteString(k, head); err != nil {
		return nil, fail(exitReceive, "Send failure: %v", err)
	}
	if b != nil {
		n, err := sendBody(k, b)
		t.stats.uploaded += n
		// The response may say why the server did not read on.
		if _, peekErr := k.r.Peek(1); err != nil && peekErr != nil {
			return nil, fail(exitReceive, "Send failure: %v", err)
		}
	}
	t.stats.postTransfer = time.Since(t.began)
	for {
		a, err := t.receive(k, r)
		if err != nil || a.StatusCode >= 200 || a.StatusCode == http.StatusSwitchingProtocols {
			return a, err
		}
	}
}

// sendBody writes a body, in chunks if its length is not known.
func sendBody(k io.Writer, b *body) (int64, error) {
	if b.length >= 0 {
		return io.Copy(k, io.LimitReader(b, b.length))
	}
	chunks := httputil.NewChunkedWriter(k)
	n, err := io.Copy(chunks, b)
	if err == nil {
		err = chunks.Close()
	}
	if err == nil {
		_, err = io.WriteString(k, "\r\n") // no trailers
	}
	return n, err
}

// receive reads the head of a response and finds the end of its body.
func (t *transfer) receive(k *conn, r *request) (*response, error) {
	first, err := k.r.Peek(5)
	switch {
	case err != nil && isTimeout(err):
		return nil, err
	case err != nil && isReset(err):
		return nil, fail(exitReceive, "Recv failure: Connection was reset")
	case err != nil && len(first) == 0:
		return nil, fail(exitEmptyReply, "Empty reply from server")
	case string(first) != "HTTP/":
		return nil, fail(exitUnsupported, "Received HTTP/0.9 when not allowed")
	}
	if t.stats.startTransfer == 0 {
		t.stats.startTransfer = time.Since(t.began)
	}
	head, err := readHead(k.r)
	if err := t.received(head); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	parsed := head
	if i := strings.Index(parsed, "\r\n"); i > 0 && strings.Count(parsed[:i], " ") == 1 {
		parsed = parsed[:i] + " " + parsed[i:] // a status without a reason
	}
	br := bufio.NewReader(io.MultiReader(strings.NewReader(parsed), k.r))
	resp, err := http.ReadResponse(br, &http.Request{Method: r.method}) //nolint:bodyclose // close ends the connection
	if err != nil {
		return nil, fail(exitWeirdReply, "Invalid status line")
	}
	return &response{Response: resp}, nil
}

// readHead reads up to and including an empty line.
func readHead(r *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		line, err := r.ReadString('\n')
		b.WriteString(line)
		switch {
		case err != nil && !isTimeout(err):
			return b.String(), fail(exitReceive, "Recv failure: Connection was reset")
		case err != nil:
			return b.String(), err
		case b.Len() > maxHead:
			return "", fail(exitReceive, "Too large response headers: %d > %d", b.Len(), maxHead)
		case line == "\r\n" || line == "\n":
			return b.String(), nil
		}
	}
}

func isTimeout(err error) bool {
	n, ok := errors.AsType[net.Error](err)
	return ok && n.Timeout()
}

func isReset(err error) bool {
	return strings.Contains(err.Error(), "reset") || strings.Contains(err.Error(), "forcibly closed")
}
