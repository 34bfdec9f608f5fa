// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

//go:build linux

// Command linuxprog is the program of the Linux image that the end-to-end tests use.
//
//	linuxprog serve [PORT]      answer HTTP requests with the host's name; on / only
//	linuxprog echo PORT         return each datagram to who sent it
//	linuxprog udp ADDRESS       send a datagram and wait for the answer
//	linuxprog ping IP           send an ICMP echo request and wait for the answer
//	linuxprog get URL           print the answer to a request, or fail
//	linuxprog early FIRST LAST  connect to both until three seconds after LAST has answered
//	linuxprog cat               copy standard input to standard output, line by line
//	linuxprog count             print a number every 100 ms
//	linuxprog wait              wait for SIGTERM
//	linuxprog write FILE TEXT   write to an existing file
//	linuxprog append FILE TEXT  add a line to a file and print all of it
//	linuxprog fill FILE         write to a file until there is no space
//	linuxprog print TEXT [N]    print a line, N times
//	linuxprog device NAME TYPE MAJOR MINOR   make a device node and read from it
//	linuxprog status            print /proc/self/status
//	linuxprog calls             print system calls beyond containers' needs, and the error of each
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		os.Args = append(os.Args, "wait")
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "linuxprog:", err)
		if how := unanswered(err); how != "" {
			fmt.Fprintln(os.Stderr, "probe:", how)
		}
		os.Exit(1)
	}
}

// unanswered returns in which way the network gave no answer, or "" for another error.
func unanswered(err error) string {
	name, timeout := (*net.DNSError)(nil), interface{ Timeout() bool }(nil)
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		return "no such name"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err,
		syscall.ENETUNREACH):
		return "refused"
	case errors.As(err, &timeout) && timeout.Timeout(): // EAGAIN, too
		return "timed out"
	}
	return ""
}

func run(command string, args []string) error {
	arg := func(i int, otherwise string) string {
		if i < len(args) {
			return args[i]
		}
		return otherwise
	}
	switch command {
	case "serve":
		return serve(arg(0, "80"))
	case "get":
		return get(arg(0, ""))
	case "echo":
		return echo(":" + arg(0, "5353"))
	case "udp":
		return exchange("udp4", arg(0, ""), []byte("ping"))
	case "ping":
		return ping(arg(0, ""))
	case "early":
		early(arg(0, ""), arg(1, ""))
		return nil
	case "cat":
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			fmt.Println(lines.Text())
		}
		return lines.Err()
	case "count":
		for i := 0; ; i++ {
			fmt.Println(i)
			time.Sleep(100 * time.Millisecond)
		}
	case "wait":
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		<-ctx.Done()
		return nil
	case "write":
		f, err := os.OpenFile(arg(0, ""), os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString(arg(1, ""))
		return errors.Join(err, f.Close())
	case "append":
		return appendTo(arg(0, ""), arg(1, ""))
	case "fill":
		return fill(arg(0, ""))
	case "print":
		n, err := strconv.Atoi(arg(1, "1"))
		for range n {
			fmt.Println(arg(0, ""))
		}
		return err
	case "device":
		return device(arg(0, ""), arg(1, ""), arg(2, ""), arg(3, ""))
	case "status":
		status, err := os.ReadFile("/proc/self/status")
		fmt.Print(string(status))
		return err
	case "calls":
		calls()
		return nil
	}
	return fmt.Errorf("unknown command %q", command)
}

// fill writes to a file until a write fails.
func fill(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	for piece := make([]byte, 1<<16); err == nil; {
		_, err = f.Write(piece)
	}
	return errors.Join(err, f.Close())
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
		fmt.Println("answered:", address)
		return true
	}
	var end time.Time
	for end.IsZero() || time.Now().Before(end) {
		answered(first)
		if end.IsZero() && answered(last) {
			end = time.Now().Add(3 * time.Second)
		}
	}
	fmt.Println("early: done")
}

func serve(port string) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	srv := http.Server{Addr: ":" + port, ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			from, _, _ := net.SplitHostPort(r.RemoteAddr)
			fmt.Fprintf(w, "linux %s, asked by %s\n", name, from)
		})}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func get(url string) error {
	client := http.Client{Timeout: 5 * time.Second}
	res, err := client.Get(url)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(os.Stdout, res.Body); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return errors.New(res.Status)
	}
	return nil
}

// echo returns datagrams.
func echo(address string) error {
	c, err := net.ListenPacket("udp4", address)
	if err != nil {
		return err
	}
	buf := make([]byte, 1500)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return err
		}
		if _, err := c.WriteTo(buf[:n], from); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// exchange sends a packet and waits for an answer.
func exchange(network, address string, packet []byte) error {
	c, err := net.Dial(network, address)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return err
	}
	if _, err := c.Write(packet); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 1500))
	return err
}

// ping needs no right in a pod's own network, where containerd lets all groups ping. In the
// host's it needs CAP_NET_RAW, which containers have.
func ping(address string) error {
	header := 0
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, syscall.IPPROTO_ICMP)
	if errors.Is(err, syscall.EACCES) {
		header = 20 // of IPv4
		fd, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_ICMP)
	}
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	to := &syscall.SockaddrInet4{}
	copy(to.Addr[:], net.ParseIP(address).To4())
	if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO,
		&syscall.Timeval{Sec: 2}); err != nil {
		return err
	}
	// Type 8, code 0, the checksum, identifier 0, sequence number 1.
	if err := syscall.Sendto(fd, []byte{8, 0, 0xf7, 0xfe, 0, 0, 0, 1}, 0, to); err != nil {
		return err
	}
	buf := make([]byte, 1500)
	n, _, err := syscall.Recvfrom(fd, buf, 0)
	if err == nil && (n <= header || buf[header] != 0) {
		err = fmt.Errorf("the answer is of type %d", buf[header])
	}
	return err
}

func appendTo(file, line string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(f, line); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	content, err := os.ReadFile(file)
	fmt.Print(string(content))
	return err
}

func device(name, kind, major, minor string) error {
	mode := uint32(syscall.S_IFCHR)
	if kind == "b" {
		mode = syscall.S_IFBLK
	}
	a, err := strconv.Atoi(major)
	if err != nil {
		return err
	}
	b, err := strconv.Atoi(minor)
	if err != nil {
		return err
	}
	if err := syscall.Mknod(name, mode|0o600, a<<8|b); err != nil {
		return fmt.Errorf("mknod: %w", err)
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.ReadFull(f, make([]byte, 1))
	return err
}

// calls makes system calls whose arguments are mostly bad, so that the kernel answers other than a filter does: with
// EFAULT, EINVAL, ENOENT or success.
func calls() {
	for _, c := range []struct {
		name    string
		number  uintptr
		a, b, c uintptr
	}{
		{"socket(AF_VSOCK)", syscall.SYS_SOCKET, 40, syscall.SOCK_STREAM, 0},
		{"socket(AF_ALG)", syscall.SYS_SOCKET, 38, syscall.SOCK_SEQPACKET, 0},
		{"socket(AF_XDP)", syscall.SYS_SOCKET, 44, syscall.SOCK_RAW, 0},
		{"socket(AF_PACKET)", syscall.SYS_SOCKET, syscall.AF_PACKET, syscall.SOCK_RAW, 0},
		{"socket(AF_NETLINK, netfilter)", syscall.SYS_SOCKET, syscall.AF_NETLINK, syscall.SOCK_RAW, 12},
		{"keyctl", 250, 0, ^uintptr(2), 0}, // KEYCTL_GET_KEYRING_ID of the session's keyring
		{"add_key", 248, 0, 0, 0},
		{"request_key", 249, 0, 0, 0},
		{"io_uring_setup", 425, 1, 0, 0},
		{"perf_event_open", 298, 0, 0, 0},
		{"bpf", 321, 0, 0, 0},
		{"userfaultfd", 323, 0, 0, 0},
		{"unshare(CLONE_NEWUSER)", syscall.SYS_UNSHARE, syscall.CLONE_NEWUSER, 0, 0},
		{"mount", syscall.SYS_MOUNT, 0, 0, 0},
	} {
		_, _, errno := syscall.RawSyscall6(c.number, c.a, c.b, c.c, 0, 0, 0)
		fmt.Printf("%s: %v\n", c.name, errno)
	}
}
