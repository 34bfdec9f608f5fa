// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package loadbalancer

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
)

// TestAskNode: whatever answers on a node, it is asked once, its answer is read only so far, and it leads nowhere else.
func TestAskNode(t *testing.T) {
	var elsewhere atomic.Int32
	other := serve(t, func(net.Conn) { elsewhere.Add(1) })
	answer := func(head, body string, endless string) func(net.Conn) {
		return func(c net.Conn) {
			if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
				return
			}
			_, err := fmt.Fprint(c, head, body)
			for err == nil && endless != "" {
				_, err = fmt.Fprint(c, endless)
			}
		}
	}
	for _, tt := range []struct {
		name   string
		answer func(net.Conn)
		fit    bool
	}{
		{"fit", answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "ok", ""), true},
		{"not fit", answer("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", "", ""), false},
		{"redirect", answer("HTTP/1.1 302 Found\r\nLocation: http://"+other.String()+"/x\r\nContent-Length: 0\r\n\r\n",
			"", ""), false},
		{"permanent redirect", answer("HTTP/1.1 308 Permanent Redirect\r\nLocation: http://"+other.String()+
			"/x\r\nContent-Length: 0\r\n\r\n", "", ""), false},
		// Its status is read, and no more than maxAnswer.
		{"endless body", answer("HTTP/1.1 200 OK\r\n\r\n", "", "x"), true},
		{"endless header", answer("HTTP/1.1 200 OK\r\n", "", "X-More: x\r\n"), false},
		{"endless informational answers", answer("", "", "HTTP/1.1 102 Processing\r\n\r\n"), false},
		{"slow", func(c net.Conn) { _, _ = c.Read(make([]byte, 1<<20)); <-t.Context().Done() }, false},
		{"slow body", func(c net.Conn) {
			answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "o", "")(c)
			<-t.Context().Done()
		}, false},
		{"no HTTP", answer("SSH-2.0-OpenSSH_9.2\r\n", "", ""), false},
		{"ends at once", func(net.Conn) {}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := serve(t, tt.answer)
			p := probe{at.Addr(), at.Port()}
			if err := askAll(t.Context(), map[probe]struct{}{p: {}}, askNode)[p]; (err == nil) != tt.fit {
				t.Errorf("got %v, want fit: %t", err, tt.fit)
			}
		})
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d connections to the address of a redirect", n)
	}
}

// serve handles connections to a port of the loopback device until the test ends.
func serve(t *testing.T, handle func(net.Conn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				handle(c)
			}()
		}
	}()
	return netip.MustParseAddrPort(l.Addr().String())
}
