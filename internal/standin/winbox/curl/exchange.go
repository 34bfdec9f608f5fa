// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package curl

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// This file sends one request and reads one answer. net/http's client is not
// used because it decides the order, the spelling and the presence of headers;
// curl sends and shows them as they are given. Its reader of answers is used.

// maxHead is how long all headers of an answer may be: lib/http.h,
// MAX_HTTP_RESP_HEADER_SIZE.
const maxHead = 300 << 10

// ask writes a message and reads an answer of a known length.
func ask(conn net.Conn, message, answer []byte) error {
	if _, err := conn.Write(message); err != nil {
		return err
	}
	if _, err := io.ReadFull(conn, answer); err != nil {
		return fail(exitProxy, "connection to proxy closed")
	}
	return nil
}

// answer is a response; its body must be read or its connection closed.
type answer struct {
	*http.Response
	head string // as it came
	conn *conn
}

// request is one message to a server.
type request struct {
	method  string
	url     *address
	whole   bool // the proxy needs the whole URL
	headers []string
	body    io.Reader // nil for none
	length  int64     // -1: not known
	expect  bool

	contentType string
}

// customHeader returns the value that --header gives a header, and whether it
// mentions it at all.
func customHeader(headers []string, name string) (string, bool) {
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

func (c *client) agentHeader() string {
	if _, ok := customHeader(c.o.headers, "User-Agent"); ok || c.o.noAgent {
		return ""
	}
	agent := c.o.userAgent
	if agent == "" {
		agent = "curl/" + version
	}
	return "User-Agent: " + agent + "\r\n"
}

// text is the request's head, in the order of lib/http.c: Curl_http.
func (c *client) text(r *request, own []string) string {
	var b strings.Builder
	target := r.url.target()
	if r.whole {
		v := *r.url
		v.hasUser, v.hasFragment = false, false
		target = v.String()
	}
	if c.o.requestTarget != "" {
		target = c.o.requestTarget
	}
	proto := "HTTP/1.1"
	if c.o.http10 {
		proto = "HTTP/1.0"
	}
	fmt.Fprintf(&b, "%s %s %s\r\n", r.method, target, proto)
	if host, ok := customHeader(own, "Host"); !ok {
		fmt.Fprintf(&b, "Host: %s\r\n", r.url.hostHeader())
	} else if host != "" {
		fmt.Fprintf(&b, "Host: %s\r\n", host)
	}
	for _, h := range r.headers {
		name, _, _ := strings.Cut(h, ":")
		if _, ok := customHeader(own, name); !ok {
			b.WriteString(h + "\r\n")
		}
	}
	for _, h := range own {
		name, value, ok := strings.Cut(h, ":")
		switch {
		case strings.EqualFold(strings.TrimSpace(name), "Host"):
		case ok && strings.TrimSpace(value) != "":
			b.WriteString(h + "\r\n")
		case !ok:
			// "Name;" sends a header without a value.
			if name, after, found := strings.Cut(h, ";"); found && strings.TrimSpace(after) == "" {
				b.WriteString(name + ":\r\n")
			}
		}
	}
	b.WriteString(bodyHeaders(r, own))
	return b.String() + "\r\n"
}

// bodyHeaders are those that come last, after the user's own.
func bodyHeaders(r *request, own []string) string {
	if r.body == nil {
		return ""
	}
	var b strings.Builder
	if _, ok := customHeader(own, "Content-Length"); !ok && r.length >= 0 {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", r.length)
	} else if _, ok := customHeader(own, "Transfer-Encoding"); !ok && r.length < 0 {
		b.WriteString("Transfer-Encoding: chunked\r\n")
	}
	if _, ok := customHeader(own, "Content-Type"); !ok && r.contentType != "" {
		b.WriteString("Content-Type: " + r.contentType + "\r\n")
	}
	if r.expect {
		b.WriteString("Expect: 100-continue\r\n")
	}
	return b.String()
}

// lineReader is a source of lines.
type lineReader interface{ ReadString(byte) (string, error) }

// readHead reads up to and including an empty line.
func readHead(r lineReader) (string, error) {
	var b strings.Builder
	for {
		line, err := r.ReadString('\n')
		b.WriteString(line)
		switch {
		case err != nil:
			return b.String(), err
		case b.Len() > maxHead:
			return "", fail(exitReceive, "Too large response headers: %d > %d", b.Len(), maxHead)
		case line == "\r\n" || line == "\n":
			return b.String(), nil
		}
	}
}

// exchange sends a request and returns the answer, whose body has not been read.
func (c *client) exchange(ctx context.Context, t *transfer, r *request) (*answer, error) {
	k, whole, err := c.open(ctx, t, r.url)
	if err != nil {
		return nil, err
	}
	// A connection ends with the context, whatever it waits for.
	stop := context.AfterFunc(ctx, func() { _ = k.SetDeadline(time.Unix(1, 0)) })
	a, err := c.send(t, k, r, whole)
	if err != nil && k.reused && ctx.Err() == nil && r.length == 0 {
		// The server closed it meanwhile.
		stop()
		_ = k.Close() // it is dead
		return c.exchange(ctx, t, r)
	}
	if err != nil {
		_ = k.Close() // the error says why
		return nil, err
	}
	a.Body = &stopper{a.Body, stop}
	return a, nil
}

type stopper struct {
	io.ReadCloser
	stop func() bool
}

func (s *stopper) Close() error {
	s.stop()
	return s.ReadCloser.Close()
}

func (c *client) send(t *transfer, k *conn, r *request, whole bool) (*answer, error) {
	r.whole = whole
	head := c.text(r, t.headers)
	t.stats.preTransfer = time.Since(t.began)
	t.sent(head)
	if _, err := io.WriteString(k, head); err != nil {
		return nil, fail(exitReceive, "Send failure: %v", err)
	}
	if r.body != nil && r.expect {
		// Servers that do not know the header would wait for the body.
		_ = k.SetReadDeadline(time.Now().Add(c.o.expectTimeout)) // as any write
		_, err := k.r.Peek(1)
		_ = k.SetReadDeadline(time.Time{})
		if err == nil {
			a, err := c.receive(t, k, r)
			if err != nil || a.StatusCode != http.StatusContinue {
				return a, err
			}
		}
	}
	if r.body != nil {
		n, err := sendBody(k, r, c.o.limitRate)
		t.stats.uploaded += n
		if err != nil {
			if read, ok := errors.AsType[*failure](err); ok {
				return nil, read
			}
			// The answer may tell why the server did not read on.
			if _, peekErr := k.r.Peek(1); peekErr != nil {
				return nil, fail(exitReceive, "Send failure: %v", err)
			}
		}
	}
	t.stats.postTransfer = time.Since(t.began)
	for {
		a, err := c.receive(t, k, r)
		if err != nil || a.StatusCode >= 200 || a.StatusCode == http.StatusSwitchingProtocols {
			return a, err
		}
	}
}

// sendBody writes a body, in chunks if its length is not known.
func sendBody(k io.Writer, r *request, limit int64) (int64, error) {
	body := r.body
	if limit > 0 {
		body = &slowReader{r: body, perSecond: limit, began: time.Now()}
	}
	if r.length >= 0 {
		n, err := io.Copy(k, io.LimitReader(body, r.length))
		if err == nil && n < r.length {
			return n, fail(exitRead, "client read function EOF fail, only %d/%d of needed bytes read", n, r.length)
		}
		return n, err
	}
	var sent int64
	buffer := make([]byte, 32<<10)
	for {
		n, err := body.Read(buffer)
		if n > 0 {
			if _, err := fmt.Fprintf(k, "%x\r\n%s\r\n", n, buffer[:n]); err != nil {
				return sent, err
			}
			sent += int64(n)
		}
		if errors.Is(err, io.EOF) {
			_, err = io.WriteString(k, "0\r\n\r\n")
			return sent, err
		}
		if err != nil {
			return sent, fail(exitRead, "Failed to open/read local data from file/application")
		}
	}
}

// slowReader keeps to --limit-rate.
type slowReader struct {
	r         io.Reader
	perSecond int64
	began     time.Time
	total     int64
}

func (s *slowReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p[:min(int64(len(p)), max(s.perSecond/10, 1))])
	s.total += int64(n)
	due := time.Duration(float64(s.total) / float64(s.perSecond) * float64(time.Second))
	time.Sleep(due - time.Since(s.began))
	return n, err
}

// receive reads the head of an answer and finds out where its body ends.
func (c *client) receive(t *transfer, k *conn, r *request) (*answer, error) {
	first, err := k.r.Peek(5)
	switch {
	case err != nil && len(first) == 0 && !isTimeout(err):
		if isReset(err) {
			return nil, fail(exitReceive, "Recv failure: Connection was reset")
		}
		return nil, fail(exitEmptyReply, "Empty reply from server")
	case err != nil && len(first) == 0:
		return nil, err
	case !bytes.HasPrefix([]byte("HTTP/"), first[:min(len(first), 5)]):
		return nil, fail(exitUnsupported, "Received HTTP/0.9 when not allowed")
	}
	t.stats.firstByte(time.Since(t.began))
	head, err := readHead(k.r)
	if err != nil && head == "" {
		return nil, err
	}
	t.received(head, true)
	if err != nil {
		return nil, fail(exitReceive, "Recv failure: Connection was reset")
	}
	parsed := head
	if c.o.ignoreLength {
		parsed = withoutLength(head)
	}
	if i := strings.Index(parsed, "\r\n"); i > 0 && strings.Count(parsed[:i], " ") == 1 {
		parsed = parsed[:i] + " " + parsed[i:] // a status without a reason
	}
	br := bufio.NewReader(io.MultiReader(strings.NewReader(parsed), k.r))
	resp, err := http.ReadResponse(br, &http.Request{Method: r.method}) //nolint:bodyclose // (*client).done closes it
	if err != nil {
		return nil, fail(exitWeirdReply, "Invalid status line")
	}
	return &answer{Response: resp, head: head, conn: k}, nil
}

func withoutLength(head string) string {
	lines := strings.SplitAfter(head, "\n")
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool {
		return strings.HasPrefix(strings.ToLower(l), "content-length:")
	}), "")
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

func isReset(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "reset") || strings.Contains(err.Error(), "forcibly closed"))
}

// done returns a connection whose answer has been read to its end, or closes it.
func (c *client) done(a *answer, whole bool) {
	_ = a.Body.Close() // it has been read
	bodyless := a.Request.Method == http.MethodHead || a.StatusCode == http.StatusNoContent ||
		a.StatusCode == http.StatusNotModified
	untilClose := a.ContentLength < 0 && len(a.TransferEncoding) == 0 && !bodyless
	if !whole || a.Close || c.g.parallel || !a.ProtoAtLeast(1, 1) || untilClose {
		_ = a.conn.Close() // nothing more is expected of it
		return
	}
	if old := c.idle[a.conn.key]; old != nil {
		_ = old.Close() // one per server is enough
	}
	c.idle[a.conn.key] = a.conn
}
