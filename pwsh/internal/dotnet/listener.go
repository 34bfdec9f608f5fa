// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package dotnet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// listener is System.Net.HttpListener: HTTP.sys is played by net/http, whose
// handler hands each request over and waits for the script to close it.
//
// Fidelity: simplified - only the http scheme; authentication and web sockets
// are absent (docs/fidelity/pwsh.md).
type listener struct {
	prefixes *value.List
	mu       sync.Mutex
	open     bool // guarded by mu
	queue    chan *exchange
	done     chan struct{}
	servers  []*http.Server
}

// exchange is one request with its response.
type exchange struct {
	req    *http.Request
	rw     http.ResponseWriter
	body   *stream
	out    *responseStream
	closed chan struct{}
	once   sync.Once

	status      int
	reason      string
	length      int64 // -1: not set
	contentType string
	keepAlive   bool
	chunked     bool
	header      http.Header
}

// queueLength is how many requests wait for GetContext. Source: HTTP.sys' default
// of HttpServerQueueLengthProperty is 1000.
const queueLength = 1000

// stopTimeout is how long Stop waits for responses in flight.
const stopTimeout = time.Second

func newListener() *listener {
	return &listener{prefixes: &value.List{Type: "System.Net.HttpListenerPrefixCollection"},
		queue: make(chan *exchange, queueLength), done: make(chan struct{})}
}

func listenerError(code int, format string, args ...any) error {
	e := interp.Failf("System.Net.HttpListenerException", "HttpListenerException", "NotSpecified", nil, format, args...)
	e.Props = []value.Prop{{Name: "ErrorCode", Value: i32(code)}}
	return e
}

// start listens on the port of every prefix.
func (l *listener) start(r *interp.Runner) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open {
		return nil
	}
	network := r.Handlers().Net
	if network == nil {
		return interp.NotImplemented("System.Net.HttpListener without a network")
	}
	ports := map[string][]*url.URL{}
	for _, p := range l.prefixes.Items {
		u, host, err := parsePrefix(value.String(p))
		if err != nil {
			return err
		}
		addr := net.JoinHostPort("", u.Port())
		if host == "localhost" || strings.HasPrefix(host, "127.") {
			addr = net.JoinHostPort("127.0.0.1", u.Port())
		} else if ip := net.ParseIP(strings.Trim(host, "[]")); ip != nil && !ip.IsUnspecified() {
			addr = net.JoinHostPort(ip.String(), u.Port())
		}
		ports[addr] = append(ports[addr], u)
	}
	// A request may arrive as soon as the first port listens, so all are
	// opened before any is served.
	var listeners []net.Listener
	for addr := range ports {
		ln, err := network.Listen(r.Context(), "tcp", addr)
		if err != nil {
			for _, o := range listeners {
				_ = o.Close() // the first error is the one to report
			}
			p := ports[addr][0]
			if strings.Contains(err.Error(), "denied") || strings.Contains(err.Error(), "permission") {
				return listenerError(5, "Access is denied")
			}
			return listenerError(183, "Failed to listen on prefix '%s' because it conflicts with an existing "+
				"registration on the machine.", strings.Replace(p.String(), "mullion-any", "*", 1))
		}
		listeners = append(listeners, ln)
		// both are HTTP.sys' defaults
		srv := &http.Server{
			Handler:           l.handler(ports[addr]),
			ReadHeaderTimeout: 2 * time.Minute,
			IdleTimeout:       2 * time.Minute,
			ErrorLog:          nil,
		}
		l.servers = append(l.servers, srv)
	}
	for i, ln := range listeners {
		go func() { _ = l.servers[i].Serve(ln) }() // ends when the listener is closed
	}
	l.open, l.done = true, make(chan struct{})
	r.AtClose(func() { l.stop() })
	return nil
}

// parsePrefix checks a UriPrefix.
// Source: https://learn.microsoft.com/windows/win32/http/urlprefix-strings, read 2026-11.
func parsePrefix(p string) (u *url.URL, host string, err error) {
	rest, ok := strings.CutPrefix(p, "http://")
	if !ok {
		if strings.HasPrefix(p, "https://") {
			return nil, "", interp.NotImplemented("a prefix with https in System.Net.HttpListener")
		}
		return nil, "", argError("Only Uri prefixes starting with 'http://' or 'https://' are supported.")
	}
	if !strings.HasSuffix(p, "/") {
		return nil, "", argError("Only Uri prefixes ending in '/' are allowed.")
	}
	hostPort, path, _ := strings.Cut(rest, "/")
	host, port, found := strings.Cut(hostPort, ":")
	if !found {
		port = "80"
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil || host == "" {
		return nil, "", argError("Invalid port.")
	}
	name := host
	if host == "*" || host == "+" {
		name = "mullion-any"
	}
	return &url.URL{Scheme: "http", Host: name + ":" + port, Path: "/" + path}, host, nil
}

// handler handles requests whose path has a prefix.
func (l *listener) handler(prefixes []*url.URL) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		known := false
		for _, p := range prefixes {
			path := strings.TrimSuffix(p.Path, "/")
			if strings.HasPrefix(strings.ToLower(req.URL.Path)+"/", strings.ToLower(path)+"/") {
				known = true
			}
		}
		w.Header().Set("Server", "Microsoft-HTTPAPI/2.0")
		if !known {
			http.Error(w, "<HTML><HEAD><TITLE>Not Found</TITLE></HEAD><BODY><h2>Not Found</h2></BODY></HTML>",
				http.StatusNotFound)
			return
		}
		x := &exchange{
			req:       req,
			rw:        w,
			closed:    make(chan struct{}),
			status:    200,
			length:    -1,
			keepAlive: true,
			header:    http.Header{},
		}
		x.out = &responseStream{x: x}
		select {
		case l.queue <- x:
		default:
			http.Error(w, "Service Unavailable", http.StatusServiceUnavailable)
			return
		}
		select {
		case <-x.closed:
		case <-l.done:
			x.abort()
		}
	})
}

// context waits for a request.
func (l *listener) context(ctx context.Context) (*exchange, error) {
	l.mu.Lock()
	open, done := l.open, l.done
	l.mu.Unlock()
	if !open {
		return nil, interp.Failf("System.InvalidOperationException", "InvalidOperationException", "NotSpecified", nil,
			"Please call the Start() method before calling this method.")
	}
	select {
	case x := <-l.queue:
		return x, nil
	case <-done:
		return nil, listenerError(995, "The I/O operation has been aborted because of either a thread exit or an "+
			"application request")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *listener) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open {
		return
	}
	l.open = false
	close(l.done)
	// Responses already written are still sent; then no request is served any more.
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	for _, s := range l.servers {
		if s.Shutdown(ctx) != nil {
			_ = s.Close() // it did not end in time
		}
	}
	l.servers = nil
}

func (l *listener) listening() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// send writes the response's head once.
func (x *exchange) send() {
	x.once.Do(func() {
		h := x.rw.Header()
		maps.Copy(h, x.header)
		if x.contentType != "" {
			h.Set("Content-Type", x.contentType)
		} else {
			h["Content-Type"] = nil // HTTP.sys does not guess one
		}
		if x.length >= 0 && !x.chunked {
			h.Set("Content-Length", strconv.FormatInt(x.length, 10))
		}
		if !x.keepAlive {
			h.Set("Connection", "close")
		}
		x.rw.WriteHeader(x.status)
	})
}

// finish ends the response; the connection is free for the next request.
func (x *exchange) finish() {
	select {
	case <-x.closed:
		return
	default:
	}
	if !x.out.wrote && x.length < 0 {
		x.length = 0
	}
	x.send()
	close(x.closed)
}

func (x *exchange) abort() {
	select {
	case <-x.closed:
	default:
		if c, _, err := http.NewResponseController(x.rw).Hijack(); err == nil {
			_ = c.Close() // the client sees a broken connection, as with Abort
		}
		close(x.closed)
	}
}

// responseStream is Response.OutputStream.
type responseStream struct {
	x     *exchange
	wrote bool
	total int64
}

var errResponseClosed = errors.New("Cannot access a disposed object.\nObject name: 'System.Net.HttpListenerResponse'.")

func (s *responseStream) Write(b []byte) (int, error) {
	select {
	case <-s.x.closed:
		return 0, interp.Failf("System.ObjectDisposedException", "ObjectDisposedException", "NotSpecified", nil, "%s",
			errResponseClosed.Error())
	default:
	}
	if s.x.length >= 0 && s.total+int64(len(b)) > s.x.length {
		return 0, interp.Failf("System.Net.ProtocolViolationException", "ProtocolViolationException", "NotSpecified",
			nil, "Bytes to be written to the stream exceed the Content-Length bytes size specified.")
	}
	s.x.send()
	s.wrote = true
	s.total += int64(len(b))
	n, err := s.x.rw.Write(b)
	if err != nil {
		if errors.Is(err, http.ErrBodyNotAllowed) {
			return len(b), nil
		}
		return n, listenerError(1229, "An operation was attempted on a nonexistent network connection")
	}
	return n, nil
}

func (s *responseStream) Read([]byte) (int, error) { return 0, io.EOF }
func (s *responseStream) Close() error             { s.x.finish(); return nil }

func listenerClasses() []*interp.Class {
	return []*interp.Class{
		{Name: "System.Net.HttpListener", New: func(c *interp.Call) (any, error) {
			return instance(c.R, "System.Net.HttpListener", newListener(), nil), nil
		}, Props: []interp.Property{
			get("Prefixes", func(l *listener) any { return l.prefixes }),
			get("IsListening", func(l *listener) any { return l.listening() }),
			rw("AuthenticationSchemes", func(*listener) any { return "Anonymous" },
				func(_ *interp.Call, _ *listener, v any) error {
					if !strings.EqualFold(value.String(v), "anonymous") {
						return interp.NotImplemented("authentication in System.Net.HttpListener")
					}
					return nil
				}),
			rw("IgnoreWriteExceptions", func(*listener) any { return false }, func(*interp.Call, *listener, any) error {
				return nil
			}),
		}, Methods: []interp.Method{
			method("Start", func(c *interp.Call, l *listener) (any, error) { return interp.Void, l.start(c.R) }),
			method("Stop", func(_ *interp.Call, l *listener) (any, error) { l.stop(); return interp.Void, nil }),
			method("Close", func(_ *interp.Call, l *listener) (any, error) { l.stop(); return interp.Void, nil }),
			method("Abort", func(_ *interp.Call, l *listener) (any, error) { l.stop(); return interp.Void, nil }),
			method("Dispose", func(_ *interp.Call, l *listener) (any, error) { l.stop(); return interp.Void, nil }),
			method("GetContext", func(c *interp.Call, l *listener) (any, error) {
				x, err := l.context(c.R.Context())
				if err != nil {
					return nil, err
				}
				return instance(c.R, "System.Net.HttpListenerContext", x, nil), nil
			}),
		}, Statics: []interp.Property{constant("IsSupported", true)}},
		{Name: "System.Net.HttpListenerPrefixCollection", Base: "System.Collections.ArrayList",
			Methods: []interp.Method{
				method("Add", func(c *interp.Call, l *value.List) (any, error) {
					if _, _, err := parsePrefix(c.Str(0)); err != nil {
						return nil, err
					}
					l.Items = append(l.Items, c.Str(0))
					return interp.Void, nil
				}),
			}},
		{Name: "System.Net.HttpListenerContext", Props: []interp.Property{
			getErr("Request", func(c *interp.Call, x *exchange) (any, error) {
				return instance(c.R, "System.Net.HttpListenerRequest", x, nil), nil
			}),
			getErr("Response", func(c *interp.Call, x *exchange) (any, error) {
				return instance(c.R, "System.Net.HttpListenerResponse", x, nil), nil
			}),
			get("User", func(*exchange) any { return nil }),
		}},
		requestClass(), responseClass(),
	}
}

func requestClass() *interp.Class {
	return &interp.Class{Name: "System.Net.HttpListenerRequest", Props: []interp.Property{
		getErr("Url", func(c *interp.Call, x *exchange) (any, error) {
			return newURI(c.R, "http://"+x.req.Host+x.req.URL.RequestURI())
		}),
		get("RawUrl", func(x *exchange) any { return x.req.RequestURI }),
		get("HttpMethod", func(x *exchange) any { return x.req.Method }),
		get("UserAgent", func(x *exchange) any { return nilEmpty(x.req.UserAgent()) }),
		get("UserHostName", func(x *exchange) any { return x.req.Host }),
		get("UserHostAddress", func(x *exchange) any { return localAddr(x.req) }),
		get("ContentType", func(x *exchange) any { return nilEmpty(x.req.Header.Get("Content-Type")) }),
		get("ContentLength64", func(x *exchange) any { return x.req.ContentLength }),
		get("HasEntityBody", func(x *exchange) any { return x.req.ContentLength != 0 }),
		getErr("ContentEncoding",
			func(c *interp.Call, x *exchange) (any, error) { return encodingByName(c.R, "utf-8") }),
		get("IsLocal", func(x *exchange) any {
			h, _, _ := net.SplitHostPort(x.req.RemoteAddr)
			ip := net.ParseIP(h)
			return ip != nil && ip.IsLoopback()
		}),
		get("IsSecureConnection", func(*exchange) any { return false }),
		get("KeepAlive", func(x *exchange) any { return !x.req.Close }),
		get("ProtocolVersion", func(x *exchange) any {
			return value.Version{Major: x.req.ProtoMajor, Minor: x.req.ProtoMinor, Build: -1, Revision: -1}
		}),
		getErr("RemoteEndPoint", func(c *interp.Call, x *exchange) (any, error) {
			return newEndPoint(c.R, x.req.RemoteAddr)
		}),
		getErr("LocalEndPoint", func(c *interp.Call, x *exchange) (any, error) {
			return newEndPoint(c.R, localAddr(x.req))
		}),
		getErr("Headers", func(c *interp.Call, x *exchange) (any, error) {
			h := x.req.Header.Clone()
			h.Set("Host", x.req.Host)
			return instance(c.R, "System.Net.WebHeaderCollection", h, nil), nil
		}),
		getErr("QueryString", func(c *interp.Call, x *exchange) (any, error) {
			h := http.Header{}
			maps.Copy(h, x.req.URL.Query())
			return instance(c.R, "System.Collections.Specialized.NameValueCollection", h, nil), nil
		}),
		getErr("InputStream", func(c *interp.Call, x *exchange) (any, error) {
			if x.body == nil {
				x.body = &stream{r: x.req.Body}
			}
			return newStream(c.R, x.body), nil
		}),
		getErr("Cookies", func(*interp.Call, *exchange) (any, error) {
			return nil, interp.NotImplemented("Request.Cookies")
		}),
	}}
}

func nilEmpty(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func localAddr(req *http.Request) string {
	if a, ok := req.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		return a.String()
	}
	return ""
}

func responseClass() *interp.Class {
	return &interp.Class{Name: "System.Net.HttpListenerResponse", Props: []interp.Property{
		rw("StatusCode", func(x *exchange) any { return i32(x.status) },
			func(_ *interp.Call, x *exchange, v any) error {
				n, err := value.ToInt(v)
				if err == nil && (n < 100 || n > 999) {
					err = interp.Failf("System.Net.ProtocolViolationException", "ProtocolViolationException",
						"NotSpecified", nil, "The status code must be exactly three digits.")
				}
				if err == nil {
					x.status = n
				}
				return err
			}),
		rw("StatusDescription", func(x *exchange) any {
			if x.reason != "" {
				return x.reason
			}
			return http.StatusText(x.status)
		}, func(_ *interp.Call, x *exchange, v any) error { x.reason = value.String(v); return nil }),
		rw("ContentLength64", func(x *exchange) any { return max(x.length, 0) },
			func(_ *interp.Call, x *exchange, v any) error {
				n, err := value.ToInt(v)
				x.length = int64(n)
				return err
			}),
		rw("ContentType", func(x *exchange) any { return nilEmpty(x.contentType) },
			func(_ *interp.Call, x *exchange, v any) error {
				x.contentType = value.String(v)
				return nil
			}),
		rw("KeepAlive", func(x *exchange) any { return x.keepAlive }, func(_ *interp.Call, x *exchange, v any) error {
			x.keepAlive = value.Bool(v)
			return nil
		}),
		rw("SendChunked", func(x *exchange) any { return x.chunked }, func(_ *interp.Call, x *exchange, v any) error {
			x.chunked = value.Bool(v)
			return nil
		}),
		{Name: "ContentEncoding", Get: func(c *interp.Call) (any, error) { return encodingByName(c.R, "utf-8") },
			Set: func(*interp.Call, any) error {
				return nil
			}},
		{Name: "RedirectLocation", Get: func(c *interp.Call) (any, error) {
			return self[*exchange](c).header.Get("Location"), nil
		}, Set: func(c *interp.Call, v any) error {
			self[*exchange](c).header.Set("Location", value.String(v))
			return nil
		}},
		getErr("Headers", func(c *interp.Call, x *exchange) (any, error) {
			return instance(c.R, "System.Net.WebHeaderCollection", x.header, nil), nil
		}),
		getErr("OutputStream", func(c *interp.Call, x *exchange) (any, error) {
			return newStream(c.R, &stream{r: bytes.NewReader(nil), w: x.out, closer: x.out}), nil
		}),
	}, Methods: []interp.Method{
		method("Close", func(c *interp.Call, x *exchange) (any, error) {
			if c.N() > 0 {
				b, err := value.Bytes(c.Arg(0))
				if err != nil {
					return nil, err
				}
				if x.length < 0 {
					x.length = int64(len(b))
				}
				if _, err := x.out.Write(b); err != nil {
					return nil, err
				}
			}
			x.finish()
			return interp.Void, nil
		}),
		method("Abort", func(_ *interp.Call, x *exchange) (any, error) { x.abort(); return interp.Void, nil }),
		method("Dispose", func(_ *interp.Call, x *exchange) (any, error) { x.finish(); return interp.Void, nil }),
		method("AddHeader", func(c *interp.Call, x *exchange) (any, error) {
			x.header.Set(c.Str(0), c.Str(1))
			return interp.Void, nil
		}),
		method("AppendHeader", func(c *interp.Call, x *exchange) (any, error) {
			x.header.Add(c.Str(0), c.Str(1))
			return interp.Void, nil
		}),
		method("Redirect", func(c *interp.Call, x *exchange) (any, error) {
			x.status = http.StatusFound
			x.header.Set("Location", c.Str(0))
			return interp.Void, nil
		}),
	}}
}
