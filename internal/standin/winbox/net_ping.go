// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Defaults of Windows' ping: learn.microsoft.com/windows-server/administration/windows-commands/ping.
const (
	pingCount   = 4
	pingSize    = 32
	pingTTL     = 128
	pingTimeout = 4 * time.Second
	// pingInterval separates requests; Windows has no option for it.
	pingInterval = time.Second
)

type pingOptions struct {
	forever bool
	count   int
	size    int
	ttl     int
	timeout time.Duration
	resolve bool // -a
	want4   bool
	want6   bool
	target  string
}

// ping sends echo requests and prints the replies as Windows does. For loopback
// addresses it sends no packets: a container's ping -t localhost must run where
// ICMP is not allowed.
func ping(ctx context.Context, env *Env) int {
	opt, err := parsePing(env.Args)
	if err != nil {
		env.printf("%v\n", err)
		return 1
	}
	if opt.target == "" {
		env.printf("%s", pingUsage)
		return 1
	}
	addr, name, ok := pingResolve(ctx, env, opt)
	if !ok {
		env.printf("Ping request could not find host %s. Please check the name and try again.\n", opt.target)
		return 1
	}
	if name != "" {
		env.printf("\nPinging %s [%s] with %d bytes of data:\n", name, addr, opt.size)
	} else {
		env.printf("\nPinging %s with %d bytes of data:\n", addr, opt.size)
	}
	s := pingStats{min: time.Hour}
	for i := 0; opt.forever || i < opt.count; i++ {
		if i > 0 && !sleepFor(ctx, pingInterval) {
			break
		}
		s.sent++
		reply, err := pingOnce(ctx, env, addr, opt)
		if ctx.Err() != nil {
			break
		}
		s.add(reply, err)
		env.printf("%s\n", pingLine(reply, err, opt.size))
	}
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrInterrupted) {
		return statusControlC // no handler of Windows' ping
	}
	s.print(env, addr)
	if ctx.Err() != nil {
		env.printf("Control-C\n")
		return statusControlC
	}
	if s.received == 0 {
		return 1
	}
	return 0
}

// statusControlC is STATUS_CONTROL_C_EXIT, the exit code of a program that a control event has ended (ntstatus.h).
const statusControlC = 0xC000013A

const pingUsage = `
Usage: ping [-t] [-a] [-n count] [-l size] [-f] [-i TTL] [-w timeout] [-4] [-6] target_name

Options:
    -t             Ping the specified host until stopped.
    -a             Resolve addresses to hostnames.
    -n count       Number of echo requests to send.
    -l size        Send buffer size.
    -f             Set Don't Fragment flag in packet (IPv4-only).
    -i TTL         Time To Live.
    -w timeout     Timeout in milliseconds to wait for each reply.
    -4             Force using IPv4.
    -6             Force using IPv6.

`

func parsePing(args []string) (pingOptions, error) {
	o := pingOptions{count: pingCount, size: pingSize, ttl: pingTTL, timeout: pingTimeout}
	for i := 0; i < len(args); i++ {
		a := args[i]
		if !strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "/") {
			o.target = a
			continue
		}
		flag := a[1:]
		number := func(low, high int) (int, error) {
			i++
			if i >= len(args) {
				return 0, fmt.Errorf("Value must be supplied for option -%s.", flag) // Windows' text
			}
			n, err := strconv.Atoi(args[i])
			if err != nil || n < low || n > high {
				// Windows' text
				return 0, fmt.Errorf("Bad value for option -%s, valid range is from %d to %d.", flag, low, high)
			}
			return n, nil
		}
		var err error
		switch flag {
		case "t":
			o.forever = true
		case "a":
			o.resolve = true
		case "f":
		case "4":
			o.want4 = true
		case "6":
			o.want6 = true
		case "n":
			o.count, err = number(1, 1<<31-1)
		case "l":
			o.size, err = number(0, 65500)
		case "i":
			o.ttl, err = number(1, 255)
		case "w":
			var ms int
			ms, err = number(0, 1<<31-1)
			o.timeout = time.Duration(ms) * time.Millisecond
		case "?":
			o.target = ""
			return o, nil
		default:
			return o, fmt.Errorf("Bad option %s.\n%s", a, pingUsage) // Windows' text
		}
		if err != nil {
			return o, err
		}
	}
	return o, nil
}

// pingResolve finds the address, and the name to print beside it.
func pingResolve(ctx context.Context, env *Env, o pingOptions) (netip.Addr, string, bool) {
	if a, err := netip.ParseAddr(o.target); err == nil {
		if o.want4 && !a.Is4() || o.want6 && !a.Is6() {
			return netip.Addr{}, "", false
		}
		if !o.resolve {
			return a, "", true
		}
		names, err := net.DefaultResolver.LookupAddr(ctx, a.String())
		if err != nil || len(names) == 0 {
			return a, "", true
		}
		return a, strings.TrimSuffix(names[0], "."), true
	}
	if strings.EqualFold(o.target, "localhost") {
		// Windows prints the computer's name. It prefers ::1; here it is
		// 127.0.0.1 unless -6 is set, because pods always have IPv4.
		name := env.Host.System.Hostname()
		if o.want6 {
			return netip.IPv6Loopback(), name, true
		}
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), name, true
	}
	network := "ip"
	switch {
	case o.want4:
		network = "ip4"
	case o.want6:
		network = "ip6"
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, network, o.target)
	if err != nil || len(addrs) == 0 {
		return netip.Addr{}, "", false
	}
	return addrs[0].Unmap(), o.target, true
}

func pingOnce(ctx context.Context, env *Env, addr netip.Addr, o pingOptions) (EchoReply, error) {
	if addr.IsLoopback() {
		return EchoReply{From: addr, TTL: pingTTL}, nil
	}
	return env.System.Echo(ctx, addr, o.size, o.ttl, o.timeout)
}

// pingLine formats one reply. IPv6 replies have neither size nor TTL.
func pingLine(r EchoReply, err error, size int) string {
	if err != nil {
		return err.Error()
	}
	took := "time<1ms"
	if ms := r.Time.Milliseconds(); ms >= 1 {
		took = fmt.Sprintf("time=%dms", ms)
	}
	if r.From.Is6() {
		return fmt.Sprintf("Reply from %s: %s ", r.From, took)
	}
	return fmt.Sprintf("Reply from %s: bytes=%d %s TTL=%d", r.From, size, took, r.TTL)
}

// Values of IP_STATUS: ipexport.h. The ICMPv6 values have the same numbers.
const (
	statusNetUnreachable  = 11002
	statusHostUnreachable = 11003
	statusProhibited      = 11004
	statusPortUnreachable = 11005
	statusTooBig          = 11009
	statusTimedOut        = 11010
	statusExpired         = 11013
	statusReassembly      = 11014
	statusGeneralFailure  = 11050
)

// icmpError returns the line that ping prints if no reply has come.
func icmpError(status uint32) error {
	text := map[uint32]string{
		statusNetUnreachable:  "Destination host unreachable.",
		statusHostUnreachable: "Destination host unreachable.",
		statusPortUnreachable: "Destination port unreachable.",
		statusProhibited:      "Destination prohibited.",
		statusTooBig:          "Packet needs to be fragmented but DF set.",
		statusTimedOut:        "Request timed out.",
		statusExpired:         "TTL expired in transit.",
		statusReassembly:      "TTL expired during reassembly.",
	}[status]
	return errors.New(cmp.Or(text, "General failure."))
}

// icmpReplyError returns the line that ping prints for an error that a router or a host has sent.
func icmpReplyError(status uint32, from netip.Addr) error {
	err := icmpError(status)
	if status == statusTimedOut || status == statusGeneralFailure || status < statusNetUnreachable {
		return err
	}
	return fmt.Errorf("Reply from %s: %w", from, err)
}

type pingStats struct {
	sent, received  int
	min, max, total time.Duration
}

func (s *pingStats) add(r EchoReply, err error) {
	if err != nil {
		return
	}
	s.received++
	s.min, s.max, s.total = min(s.min, r.Time), max(s.max, r.Time), s.total+r.Time
}

func (s *pingStats) print(env *Env, addr netip.Addr) {
	if s.sent == 0 {
		return
	}
	lost := s.sent - s.received
	env.printf("\nPing statistics for %s:\n    Packets: Sent = %d, Received = %d, Lost = %d (%d%% loss),\n", addr,
		s.sent, s.received, lost, lost*100/s.sent)
	if s.received > 0 {
		env.printf("Approximate round trip times in milli-seconds:\n"+
			"    Minimum = %dms, Maximum = %dms, Average = %dms\n",
			s.min.Milliseconds(), s.max.Milliseconds(), (s.total / time.Duration(s.received)).Milliseconds())
	}
}

// sleepFor waits and reports whether the time passed in full.
func sleepFor(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
