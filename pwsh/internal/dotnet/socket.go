// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package dotnet

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/mullion-k8s/mullion/pwsh/internal/interp"
	"github.com/mullion-k8s/mullion/pwsh/internal/value"
)

// connectTimeout is how long a TCP connection is tried. Windows sends its SYN
// three times within 21 s.
const connectTimeout = 21 * time.Second

func socketError(code int, text string) error {
	e := interp.Failf("System.Net.Sockets.SocketException", "SocketException", "NotSpecified", nil, "%s", text)
	e.Props = []value.Prop{{Name: "ErrorCode", Value: i32(code)}, {Name: "NativeErrorCode", Value: i32(code)}}
	return e
}

// dialError words a failed connection as Windows does (WSAE codes).
func dialError(err error, addr string) error {
	var dns *net.DNSError
	var ne net.Error
	switch {
	case errors.As(err, &dns):
		return socketError(11001, "No such host is known")
	case errors.Is(err, syscall.ECONNREFUSED):
		return socketError(10061, "No connection could be made because the target machine actively refused it "+addr)
	case errors.As(err, &ne) && ne.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return socketError(10060, "A connection attempt failed because the connected party did not properly respond "+
			"after a period of time, or established connection failed because connected host has failed to respond "+
			addr)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return socketError(10051, "A socket operation was attempted to an unreachable network "+addr)
	}
	return socketError(10061, err.Error())
}

// client is System.Net.Sockets.TcpClient.
type client struct {
	conn    net.Conn
	in      *bufio.Reader
	timeout time.Duration
}

func dialTCP(ctx context.Context, r *interp.Runner, host string, port int) (net.Conn, error) {
	n := r.Handlers().Net
	if n == nil {
		return nil, interp.NotImplemented("the network")
	}
	if port < 0 || port > 65535 {
		return nil, interp.Failf("System.ArgumentOutOfRangeException", "ArgumentOutOfRangeException", "InvalidArgument",
			port, "Specified argument was out of the range of valid values.\nParameter name: port")
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	conn, err := n.Dial(ctx, "tcp", addr)
	if err != nil {
		return nil, dialError(err, addr)
	}
	return conn, nil
}

func (c *client) close() error {
	if c.conn == nil {
		return nil
	}
	conn := c.conn
	c.conn = nil
	return conn.Close()
}

func hostPort(c *interp.Call) (string, int, error) {
	if e, ok := c.Arg(0).(endPoint); ok {
		return e.Addr().String(), int(e.Port()), nil
	}
	p, err := c.Int(1)
	return c.Str(0), p, err
}

func (x *client) connect(c *interp.Call) (any, error) {
	host, port, err := hostPort(c)
	if err != nil {
		return nil, err
	}
	conn, err := dialTCP(c.R.Context(), c.R, host, port)
	if err != nil {
		return nil, err
	}
	x.conn = conn
	return interp.Void, nil
}

// Length: one table; splitting hides which names belong together.
func socketClasses() []*interp.Class {
	return []*interp.Class{
		{Name: "System.Net.Sockets.TcpClient", New: func(c *interp.Call) (any, error) {
			x := &client{}
			c.R.AtClose(func() { _ = x.close() }) // the process ends
			if c.N() >= 2 {
				if _, err := x.connect(c); err != nil {
					return nil, err
				}
			}
			return instance(c.R, "System.Net.Sockets.TcpClient", x, nil), nil
		}, Props: []interp.Property{
			get("Connected", func(x *client) any { return x.conn != nil }),
			rw("ReceiveTimeout", func(x *client) any { return i32(int(x.timeout / time.Millisecond)) }, setTimeout),
			rw("SendTimeout", func(x *client) any { return i32(int(x.timeout / time.Millisecond)) }, setTimeout),
			rw("NoDelay", func(*client) any { return true }, func(*interp.Call, *client, any) error { return nil }),
			get("Available", func(x *client) any {
				if x.in == nil {
					return int32(0)
				}
				return i32(x.in.Buffered())
			}),
			get("Client", func(x *client) any {
				if x.conn == nil {
					return nil
				}
				local, _ := newEndPoint(nil, x.conn.LocalAddr().String())
				remote, _ := newEndPoint(nil, x.conn.RemoteAddr().String())
				return value.NewObject("System.Net.Sockets.Socket", "Connected", true, "LocalEndPoint", local,
					"RemoteEndPoint", remote)
			}),
		}, Methods: []interp.Method{
			method("Connect", func(c *interp.Call, x *client) (any, error) { return x.connect(c) }),
			method("GetStream", func(c *interp.Call, x *client) (any, error) {
				if x.conn == nil {
					return nil, interp.Failf("System.InvalidOperationException", "InvalidOperationException",
						"InvalidOperation", nil, "The operation is not allowed on non-connected sockets.")
				}
				x.in = bufio.NewReader(timed{x})
				return instance(c.R, "System.Net.Sockets.NetworkStream", &stream{r: x.in, w: timed{x}, closer: x.conn},
					nil), nil
			}),
			method("Close", func(_ *interp.Call, x *client) (any, error) { _ = x.close(); return interp.Void, nil }),
			method("Dispose", func(_ *interp.Call, x *client) (any, error) { _ = x.close(); return interp.Void, nil }),
		}},
		{Name: "System.Net.Sockets.NetworkStream", Base: "System.IO.Stream"},
		{Name: "System.Net.Sockets.TcpListener", New: func(c *interp.Call) (any, error) {
			x := &tcpListener{}
			switch c.N() {
			case 1:
				if e, ok := c.Arg(0).(endPoint); ok {
					x.addr = e.String()
					break
				}
				p, err := c.Int(0)
				if err != nil {
					return nil, err
				}
				x.addr = ":" + strconv.Itoa(p)
			default:
				a, err := c.R.ConvertTo(c.Arg(0), "System.Net.IPAddress")
				if err != nil {
					return nil, err
				}
				p, err := c.Int(1)
				if err != nil {
					return nil, err
				}
				host := a.(address).String()
				if a.(address).IsUnspecified() {
					host = ""
				}
				x.addr = net.JoinHostPort(host, strconv.Itoa(p))
			}
			return instance(c.R, "System.Net.Sockets.TcpListener", x, nil), nil
		}, Props: []interp.Property{
			get("LocalEndpoint", func(x *tcpListener) any {
				if x.ln == nil {
					return nil
				}
				e, _ := newEndPoint(nil, x.ln.Addr().String())
				return e
			}),
		}, Methods: []interp.Method{
			method("Start", func(c *interp.Call, x *tcpListener) (any, error) { return interp.Void, x.start(c.R) }),
			method("Stop", func(_ *interp.Call, x *tcpListener) (any, error) { x.stop(); return interp.Void, nil }),
			method("Pending", func(_ *interp.Call, x *tcpListener) (any, error) { return len(x.conns) > 0, nil }),
			method("AcceptTcpClient", func(c *interp.Call, x *tcpListener) (any, error) {
				if x.ln == nil {
					return nil, interp.Failf("System.InvalidOperationException", "InvalidOperationException",
						"InvalidOperation", nil, "Not listening. You must call the Start() method before calling "+
							"this method.")
				}
				select {
				case conn, ok := <-x.conns:
					if !ok {
						return nil, socketError(10004,
							"A blocking operation was interrupted by a call to WSACancelBlockingCall")
					}
					return instance(c.R, "System.Net.Sockets.TcpClient", &client{conn: conn}, nil), nil
				case <-c.R.Context().Done():
					return nil, c.R.Context().Err()
				}
			}),
		}},
	}
}

func setTimeout(_ *interp.Call, x *client, v any) error {
	n, err := value.ToInt(v)
	x.timeout = time.Duration(n) * time.Millisecond
	return err
}

// timed reads and writes with the client's time limit.
type timed struct{ x *client }

func (t timed) Read(b []byte) (int, error) {
	if t.x.timeout > 0 {
		_ = t.x.conn.SetReadDeadline(time.Now().Add(t.x.timeout)) // without support for deadlines, reads don't time out
	}
	return t.x.conn.Read(b)
}

func (t timed) Write(b []byte) (int, error) { return t.x.conn.Write(b) }

// tcpListener is System.Net.Sockets.TcpListener.
type tcpListener struct {
	addr  string
	ln    net.Listener
	conns chan net.Conn
}

func (x *tcpListener) start(r *interp.Runner) error {
	if x.ln != nil {
		return nil
	}
	n := r.Handlers().Net
	if n == nil {
		return interp.NotImplemented("the network")
	}
	ln, err := n.Listen(r.Context(), "tcp", x.addr)
	if err != nil {
		return socketError(10048,
			"Only one usage of each socket address (protocol/network address/port) is normally permitted")
	}
	const backlog = 200 // connections that wait, as SOMAXCONN of Windows clients
	x.ln, x.conns = ln, make(chan net.Conn, backlog)
	go func() {
		defer close(x.conns)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			x.conns <- c
		}
	}()
	r.AtClose(x.stop)
	return nil
}

func (x *tcpListener) stop() {
	if x.ln == nil {
		return
	}
	_ = x.ln.Close() // no connection is accepted any more
	x.ln = nil
	go func() {
		for c := range x.conns {
			_ = c.Close() // never accepted
		}
	}()
}
