// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netlab

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// capture records the IPv4 packets on all links of a namespace until the returned function is called. It describes
// each by its outer addresses: "10.89.0.11 > 10.89.0.12 udp 4789 vxlan 4096".
func capture(t *testing.T, netns string) (stop func() []string) {
	t.Helper()
	fd := -1
	if err := in(t, netns, func() (err error) {
		// A bridge takes packets before those who listen for one protocol see them.
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_ALL)))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}); err != nil {
		t.Fatal(err)
	}
	var packets []string
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 256)
		for {
			n, from, err := unix.Recvfrom(fd, buf, 0)
			if err == nil {
				if link, ok := from.(*unix.SockaddrLinklayer); !ok || link.Protocol != htons(unix.ETH_P_IP) {
					continue
				}
				packets = append(packets, describePacket(buf[:n]))
				continue
			}
			select { // nothing is waiting
			case <-done:
				return
			default:
			}
		}
	}()
	stop = sync.OnceValue(func() []string {
		close(done)
		<-ended
		_ = unix.Close(fd) // nothing is left to be read
		return packets
	})
	t.Cleanup(func() { stop() })
	return stop
}

func describePacket(b []byte) string {
	if len(b) < 20 {
		return "short"
	}
	src, _ := netip.AddrFromSlice(b[12:16])
	dst, _ := netip.AddrFromSlice(b[16:20])
	s := fmt.Sprintf("%s > %s protocol %d", src, dst, b[9])
	if header := int(b[0]&15) * 4; b[9] == unix.IPPROTO_UDP && len(b) >= header+16 {
		s = fmt.Sprintf("%s > %s udp %d", src, dst, binary.BigEndian.Uint16(b[header+2:]))
		if udp := b[header:]; binary.BigEndian.Uint16(udp[2:]) == 4789 {
			s += fmt.Sprintf(" vxlan %d", binary.BigEndian.Uint32(udp[12:])>>8)
		}
	}
	return s
}

func htons(n uint16) uint16 { return n<<8 | n>>8 }

// collectDatagrams listens until the test ends; the returned function returns what has come so far.
func collectDatagrams(t *testing.T, netns string, at netip.AddrPort) func() []string {
	t.Helper()
	var c net.PacketConn
	if err := in(t, netns, func() (err error) {
		c, err = net.ListenPacket("udp4", at.String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // all was read
	var mu sync.Mutex
	var got []string
	go func() {
		buf := make([]byte, 1024)
		for {
			n, _, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			mu.Lock()
			got = append(got, string(buf[:n]))
			mu.Unlock()
		}
	}()
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(got)
	}
}

// sendDatagram sends one datagram, whether or not it arrives.
func sendDatagram(t *testing.T, netns string, to netip.AddrPort, content []byte) {
	t.Helper()
	if err := in(t, netns, func() error {
		c, err := net.Dial("udp4", to.String())
		if err != nil {
			return err
		}
		_, _ = c.Write(content) // a rule may refuse it
		return c.Close()
	}); err != nil {
		t.Fatal(err)
	}
}
