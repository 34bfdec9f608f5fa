// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/windows"
)

// unixSockets has both ends in Go's net package, as the kubelet's device
// manager and plugin registration do.
func unixSockets(t *probe) {
	dir, err := os.MkdirTemp("", "unix")
	t.must(err)
	path := filepath.Join(dir, "kubelet.sock")
	l, err := net.Listen("unix", path)
	t.must(err)
	if got := l.Addr().String(); got != path {
		t.errorf("listener's address: %q", got)
	}
	if _, err := net.Listen("unix", path); !errors.Is(err, windows.WSAEADDRINUSE) {
		t.errorf("a second listener on the same path: %v", err)
	}
	if i, err := os.Lstat(path); err != nil || i.Mode()&fs.ModeSocket == 0 {
		t.errorf("Lstat of a socket: %v %v", i, err)
	}
	if i, err := os.Stat(path); err != nil || i.Mode()&fs.ModeSocket == 0 {
		t.errorf("Stat of a socket: %v %v", i, err)
	}
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			served <- err
			return
		}
		if got := c.LocalAddr().String(); got != path {
			t.errorf("local address of the accepted: %q", got)
		}
		if c.RemoteAddr() == nil || c.RemoteAddr().Network() != "unix" {
			t.errorf("remote address of the accepted: %v", c.RemoteAddr())
		}
		_, err = io.Copy(c, c)
		served <- err
		t.must(c.Close())
	}()
	c, err := net.Dial("unix", path)
	t.must(err)
	if got := c.RemoteAddr().String(); got != path {
		t.errorf("remote address: %q", got)
	}
	_, err = c.Write([]byte("hello"))
	t.must(err)
	t.must(c.(*net.UnixConn).CloseWrite())
	got, err := io.ReadAll(c)
	if err != nil || string(got) != "hello" {
		t.errorf("echo: %q %v", got, err)
	}
	t.must(<-served)
	t.must(c.Close())
	t.must(l.Close())
	if _, err := os.Stat(path); err == nil {
		t.errorf("the socket's file is still there")
	}
	if _, err := net.Dial("unix", path); err == nil {
		t.errorf("dialled a closed listener")
	}
	t.must(os.RemoveAll(dir))
}

func udp(t *probe) {
	a, err := net.ListenPacket("udp", "127.0.0.1:0")
	t.must(err)
	b, err := net.Dial("udp", a.LocalAddr().String())
	t.must(err)
	_, err = b.Write([]byte("ping"))
	t.must(err)
	buf := make([]byte, 16)
	t.must(a.SetDeadline(time.Now().Add(10 * time.Second)))
	n, from, err := a.ReadFrom(buf)
	if err != nil || string(buf[:n]) != "ping" || from.String() != b.LocalAddr().String() {
		t.errorf("ReadFrom: %q %v %v", buf[:n], from, err)
	}
	t.must(a.Close())
	t.must(b.Close())
}

// unixFiles connects to files that are no sockets, or not any more: any program may
// have written them. Wine's ws2_32.dll has no AF_UNIX; native/ws2_32, which is C,
// reads a port in them.
func unixFiles(t *probe) {
	dir, err := os.MkdirTemp("", "unix")
	t.must(err)
	const prefix = "AF_UNIX 127.0.0.1:"
	contents := []string{
		"", "\n", prefix, prefix + "\n", prefix[:5], prefix + "0\n", prefix + "1\n", prefix + "65536\n",
		prefix + "-1\n", prefix + "4294967297\n", prefix + strings.Repeat("9", 40), prefix + strings.Repeat("0", 1<<20),
		"\x00" + prefix + "80\n",
	}
	for range 500 {
		junk := make([]byte, rand.IntN(200))
		for i := range junk {
			junk[i] = byte(rand.IntN('0')) // no digit
		}
		contents = append(contents, prefix[:rand.IntN(len(prefix)+1)]+string(junk))
	}
	path := filepath.Join(dir, "s")
	for _, content := range contents {
		t.must(os.WriteFile(path, []byte(content), 0o600))
		if c, err := net.Dial("unix", path); !errors.Is(err, windows.WSAECONNREFUSED) {
			t.errorf("dialled %.60q: %v, %v", content, c, err)
		}
	}
}
