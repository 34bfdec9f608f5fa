// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// echoData returns Windows' payload: abc…w, again and again. There is one byte more, for a pointer.
func echoData(size int) []byte {
	data := make([]byte, size+1)
	for i := range data {
		data[i] = 'a' + byte(i%23)
	}
	return data
}

// icmpReply is ICMP_ECHO_REPLY of ipexport.h on 64-bit Windows.
type icmpReply struct {
	address  [4]byte
	status   uint32
	time     uint32 // ms
	dataSize uint16
	reserved uint16
	data     uintptr
	ttl      uint8
	tos      uint8
	flags    uint8
	optSize  uint8
	optData  uintptr
}

// icmpOptions is IP_OPTION_INFORMATION of ipexport.h.
type icmpOptions struct {
	ttl, tos, flags, size uint8
	data                  uintptr
}

// Echo uses the IP helper's ICMP functions, as Windows' ping does.
func (system) Echo(_ context.Context, to netip.Addr, size, ttl int, wait time.Duration) (EchoReply, error) {
	if to.Is6() {
		return echo6(to, size, ttl, wait)
	}
	dll := windows.NewLazySystemDLL("iphlpapi.dll")
	h, _, err := dll.NewProc("IcmpCreateFile").Call()
	if windows.Handle(h) == windows.InvalidHandle {
		return EchoReply{}, fmt.Errorf("Unable to contact IP driver. %w", err) // Windows' text
	}
	defer dll.NewProc("IcmpCloseHandle").Call(h) // best effort
	ip := to.As4()
	data := echoData(size)
	// Room for the reply, its data and an ICMP error.
	reply := make([]byte, int(unsafe.Sizeof(icmpReply{}))+size+8+64)
	opt := icmpOptions{ttl: uint8(ttl)}
	n, _, err := dll.NewProc("IcmpSendEcho").Call(h, uintptr(*(*uint32)(unsafe.Pointer(&ip))),
		uintptr(unsafe.Pointer(&data[0])), uintptr(size), uintptr(unsafe.Pointer(&opt)),
		uintptr(unsafe.Pointer(&reply[0])), uintptr(len(reply)), uintptr(wait.Milliseconds()))
	if n == 0 {
		if errno, ok := err.(windows.Errno); ok {
			return EchoReply{}, icmpReplyError(uint32(errno), to)
		}
		return EchoReply{}, icmpError(statusGeneralFailure)
	}
	r := (*icmpReply)(unsafe.Pointer(&reply[0]))
	from := netip.AddrFrom4(r.address)
	if r.status != 0 {
		return EchoReply{}, icmpReplyError(r.status, from)
	}
	return EchoReply{From: from, Time: time.Duration(r.time) * time.Millisecond, TTL: int(r.ttl)}, nil
}

// echo6 sends an echo request of IPv6. The reply is ICMPV6_ECHO_REPLY of ipexport.h: an address of 26 bytes without
// padding (port, flow, address, scope), and from byte 28 on the status and the time in milliseconds.
func echo6(to netip.Addr, size, ttl int, wait time.Duration) (EchoReply, error) {
	const replySize, addressAt, scopeAt, statusAt, timeAt = 36, 6, 22, 28, 32
	dll := windows.NewLazySystemDLL("iphlpapi.dll")
	h, _, err := dll.NewProc("Icmp6CreateFile").Call()
	if windows.Handle(h) == windows.InvalidHandle {
		return EchoReply{}, fmt.Errorf("Unable to contact IP driver. %w", err) // Windows' text
	}
	defer dll.NewProc("IcmpCloseHandle").Call(h) // best effort
	source := windows.RawSockaddrInet6{Family: windows.AF_INET6}
	target := windows.RawSockaddrInet6{Family: windows.AF_INET6, Addr: to.As16()}
	if to.Zone() != "" {
		zone, err := strconv.ParseUint(to.Zone(), 10, 32)
		if err != nil {
			return EchoReply{}, icmpError(statusGeneralFailure)
		}
		target.Scope_id = uint32(zone)
	}
	data := echoData(size)
	reply := make([]byte, replySize+size+8+64) // as for IPv4
	opt := icmpOptions{ttl: uint8(ttl)}
	n, _, err := dll.NewProc("Icmp6SendEcho2").Call(h, 0, 0, 0, uintptr(unsafe.Pointer(&source)),
		uintptr(unsafe.Pointer(&target)), uintptr(unsafe.Pointer(&data[0])), uintptr(size),
		uintptr(unsafe.Pointer(&opt)), uintptr(unsafe.Pointer(&reply[0])), uintptr(len(reply)),
		uintptr(wait.Milliseconds()))
	if n == 0 {
		errno, _ := err.(windows.Errno)
		return EchoReply{}, icmpError(uint32(errno))
	}
	from := netip.AddrFrom16([16]byte(reply[addressAt:]))
	if zone := binary.LittleEndian.Uint32(reply[scopeAt:]); zone != 0 && from.IsLinkLocalUnicast() {
		from = from.WithZone(strconv.FormatUint(uint64(zone), 10))
	}
	if status := binary.LittleEndian.Uint32(reply[statusAt:]); status != 0 {
		return EchoReply{}, icmpReplyError(status, from)
	}
	took := time.Duration(binary.LittleEndian.Uint32(reply[timeAt:])) * time.Millisecond
	return EchoReply{From: from, Time: took}, nil
}
