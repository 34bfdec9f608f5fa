// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Command winprog is the program in the containers of the end-to-end tests: one
// Windows program that does what a hostile, broken or well-behaved one would.
// Each line that it prints is one observation, "what: result".
package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

func main() {
	if len(os.Args) < 2 {
		say("arguments", "%q", os.Args)
		os.Exit(2)
	}
	modes := map[string]func(args []string){
		"escape": escape, "host-escape": hostEscape, "int80": func([]string) { int80() },
		"fork": func([]string) { fork() }, "memory": memory, "size": func([]string) { size() },
		"linux-memory": func([]string) { linuxMemory() },
		"disk":         func(a []string) { disk(a[0], a[1:]...) },
		"threads":      func([]string) { threads() },
		"flood":        func(a []string) { flood(a[0]) }, "spin": func([]string) { spin() },
		"wait": func([]string) { wait() }, "show": func([]string) { show() }, "serve": func(a []string) { serve(a[0]) },
		"console": func([]string) { console() }, "lines": func([]string) { lines() }, "colors": func([]string) {
			colors()
		},
		"echo": func(a []string) { echo(a[0]) }, "udp": func(a []string) { udp(a[0]) },
		"copy": func([]string) { copyInput() }, "write": func(a []string) { write(a[0]) },
		"answer": func(a []string) { answer(a[0]) }, "sequential": func(a []string) { sequential(a[0], a[1]) },
		"break": func([]string) { sendBreak() }, "broken": func([]string) { awaitBreak() },
		"early": func(a []string) { early(a[0], a[1]) },
	}
	mode, ok := modes[os.Args[1]]
	if !ok {
		say("mode", "%q is unknown", os.Args[1])
		os.Exit(2)
	}
	mode(os.Args[2:])
}

func say(what, format string, args ...any) {
	fmt.Printf("%s: %s\n", what, fmt.Sprintf(format, args...))
}

// echo returns datagrams to who sent them.
func echo(address string) {
	c, err := net.ListenPacket("udp4", address)
	if err != nil {
		say("listen", "%v", err)
		os.Exit(1)
	}
	buf := make([]byte, 1500)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			say("read", "%v", err) // Windows reports unreachable ports here
			continue
		}
		if _, err := c.WriteTo(buf[:n], from); err != nil {
			say("write", "%v", err)
		}
	}
}

// udp sends a datagram and waits for the answer.
func udp(address string) {
	c, err := net.Dial("udp4", address)
	if err == nil {
		err = c.SetDeadline(time.Now().Add(2 * time.Second))
	}
	if err == nil {
		_, err = c.Write([]byte("ping"))
	}
	if err == nil {
		_, err = c.Read(make([]byte, 1500))
	}
	if err != nil {
		say("udp", "%v", err)
		var timeout interface{ Timeout() bool }
		switch {
		// WSAECONNRESET after an ICMP message, WSAECONNREFUSED, WSAENETUNREACH, WSAEHOSTUNREACH, and WSAEACCES of a
		// packet that the host's rules drop on its way out (winsock2.h).
		case errors.Is(err, syscall.Errno(10054)), errors.Is(err, syscall.Errno(10061)),
			errors.Is(err, syscall.Errno(10051)), errors.Is(err, syscall.Errno(10065)),
			errors.Is(err, syscall.Errno(10013)):
			say("probe", "refused")
		case errors.As(err, &timeout) && timeout.Timeout():
			say("probe", "timed out")
		}
		os.Exit(1)
	}
}

// early tries to connect to two addresses from its first instruction on, until three seconds after the last one has
// answered, and says which did.
func early(first, last string) {
	answered := func(address string) bool {
		c, err := net.DialTimeout("tcp4", address, 200*time.Millisecond)
		if err != nil {
			return false
		}
		_ = c.Close() // nothing was written
		say("answered", "%s", address)
		return true
	}
	var end time.Time
	for end.IsZero() || time.Now().Before(end) {
		answered(first)
		if end.IsZero() && answered(last) {
			end = time.Now().Add(3 * time.Second)
		}
	}
	say("early", "done")
}

// fork starts processes until it cannot, tells how many, and stays.
func fork() {
	self, err := os.Executable()
	if err != nil {
		say("executable", "%v", err)
		return
	}
	n := 0
	for ; n < 5000; n++ {
		if err := exec.Command(self, "wait").Start(); err != nil {
			say("fork", "stopped after %d: %v", n, err)
			break
		}
	}
	say("processes", "%d", n)
	wait()
}

// threads makes threads that never run, without end.
func threads() {
	// CreateThread's CREATE_SUSPENDED and STACK_SIZE_PARAM_IS_A_RESERVATION.
	const createSuspended, reserveStack = 4, 0x10000
	kernel32 := syscall.NewLazyDLL("kernel32.dll")
	create, run := kernel32.NewProc("CreateThread"), kernel32.NewProc("Sleep")
	for n := 0; ; {
		if handle, _, err := create.Call(0, 1<<16, run.Addr(), 0, createSuspended|reserveStack, 0); handle == 0 {
			say("threads", "%d: %v", n, err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		n++
	}
}

// memory takes memory until it is ended or, with a number of MiB, so much, and keeps it.
func memory(args []string) {
	blocks := 4096
	if len(args) > 0 {
		n, err := strconv.Atoi(args[0])
		if err != nil {
			say("memory", "%v", err)
			return
		}
		blocks = n / 16
	}
	var all [][]byte
	for i := range blocks {
		block := make([]byte, 16<<20)
		for j := 0; j < len(block); j += 4096 {
			block[j] = byte(i + 1)
		}
		all = append(all, block)
	}
	say("memory", "took %d blocks", len(all))
	if len(args) > 0 {
		wait()
	}
	runtime.KeepAlive(all)
}

// size tells how large the machine is.
func size() {
	status := struct {
		length, load uint32
		total        uint64
		others       [6]uint64
	}{length: 64}
	ok, _, err := syscall.NewLazyDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx").Call(
		uintptr(unsafe.Pointer(&status)))
	if ok == 0 {
		say("memory", "%v", err)
	}
	say("size", "%d processors, %d KiB", runtime.NumCPU(), status.total>>10)
}

// disk writes a file until it cannot.
// disk writes a file of some MiB, or as large as the disk allows.
func disk(path string, mebibytes ...string) {
	most := 1 << 16
	if len(mebibytes) > 0 {
		n, err := strconv.Atoi(mebibytes[0])
		if err != nil {
			say("disk", "%v", err)
			return
		}
		most = n
	}
	f, err := os.Create(path)
	if err != nil {
		say("disk", "%v", err)
		return
	}
	block := make([]byte, 1<<20)
	for i := range most {
		if _, err := f.Write(block); err != nil {
			say("disk", "stopped after %d MiB: %v", i, err)
			break
		}
		time.Sleep(5 * time.Millisecond) // it shall not outrun the one who looks
	}
	wait()
}

func flood(lines string) {
	n, err := strconv.Atoi(lines)
	if err != nil {
		say("flood", "%v", err)
		return
	}
	for i := range n {
		fmt.Printf("%08d %s\n", i, strings.Repeat("x", 1000))
	}
	// The kubelet shows the newest file of a log only, which is empty after a rotation until something is written.
	for {
		fmt.Println("last")
		time.Sleep(time.Second)
	}
}

func spin() {
	for {
		_ = time.Now()
	}
}

func wait() {
	for {
		time.Sleep(time.Hour)
	}
}

// show prints what the image and the pod gave the program.
func show() {
	dir, err := os.Getwd()
	say("dir", "%s %v", dir, err)
	say("args", "%q", os.Args[1:])
	for _, name := range []string{"FROM_IMAGE", "FROM_POD", "USERNAME"} {
		say(name, "%s", os.Getenv(name))
	}
	wait()
}

// write tries to make a file, and tells Windows' error number.
func write(path string) {
	err := os.WriteFile(path, []byte("written"), 0o600)
	number := syscall.Errno(0)
	if e, ok := err.(*os.PathError); ok {
		number, _ = e.Err.(syscall.Errno)
	}
	say("write", "%d %v", uintptr(number), err)
}

// answer tells TCP and UDP clients who it is, and which address they have; /destination is the address that they
// connected to.
func answer(address string) {
	name, err := os.Hostname()
	if err != nil {
		say("name", "%v", err)
		os.Exit(1)
	}
	reply := func(client net.Addr) string {
		host, _, _ := net.SplitHostPort(client.String())
		return fmt.Sprintf("%s, asked by %s\n", name, host)
	}
	c, err := net.ListenPacket("udp", address)
	if err != nil {
		say("listen", "%v", err)
		os.Exit(1)
	}
	go func() {
		buf := make([]byte, 1500) // Windows fails on a datagram that is longer than the buffer
		for {
			_, from, err := c.ReadFrom(buf)
			if from != nil {
				_, err = c.WriteTo([]byte(reply(from)), from)
			}
			if err != nil {
				say("datagram", "%v", err)
			}
		}
	}()
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		fmt.Fprintf(w, "%s, asked by %s\n", name, host)
	})
	http.HandleFunc("/destination", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s, asked by %s\n", r.Context().Value(http.LocalAddrContextKey), r.RemoteAddr)
	})
	say("served", "%v", http.ListenAndServe(address, nil)) //nolint:gosec // a test's server
}

// serve answers probes: /ready and /live say 503 once /unready and /die were
// asked for. It prints the console events that it gets, and ends on them after
// a moment, as a program that puts its house in order does.
func serve(address string) {
	var unready, dying atomic.Bool
	kernel := syscall.NewLazyDLL("kernel32.dll")
	handler := syscall.NewCallback(func(event uintptr) uintptr {
		say("console event", "%d", event)
		time.Sleep(300 * time.Millisecond)
		say("end", "in order")
		os.Exit(0)
		return 1
	})
	if ok, _, err := kernel.NewProc("SetConsoleCtrlHandler").Call(handler, 1); ok == 0 {
		say("handler", "%v", err)
	}
	state := func(bad *atomic.Bool) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if bad.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}
	}
	set := func(bad *atomic.Bool) http.HandlerFunc {
		return func(_ http.ResponseWriter, r *http.Request) {
			bad.Store(true)
			say("asked", "%s", r.URL.Path)
		}
	}
	http.HandleFunc("/ready", state(&unready))
	http.HandleFunc("/live", state(&dying))
	http.HandleFunc("/unready", set(&unready))
	http.HandleFunc("/die", set(&dying))
	l, err := net.Listen("tcp", address)
	if err != nil {
		say("listen", "%v", err)
		os.Exit(1)
	}
	say("serving", "%s", l.Addr())
	say("served", "%v", http.Serve(l, nil)) //nolint:gosec // a test's server
}
