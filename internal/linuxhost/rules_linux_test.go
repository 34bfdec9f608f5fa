// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"context"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
	"github.com/mullion-k8s/mullion/internal/netplane/netlab"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// counters count on the far side, by source and destination.
const counters = `table ip6 far {
	chain prerouting {
		type filter hook prerouting priority raw;
		ip6 saddr fd00:99::9 counter comment "forged"
		ip6 saddr fd00:10:244::5 counter comment "own"
	}
}`

// TestNeighbourPacketsWithForeignSource: a pod that forges neighbour solicitations and advertisements sends none of
// them through the host, and still finds its neighbours.
func TestNeighbourPacketsWithForeignSource(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Nft)
	dir := t.TempDir()
	pod, node, far := netlab.Namespace(t, filepath.Join(dir, "pod")), netlab.Namespace(t, filepath.Join(dir, "node")),
		netlab.Namespace(t, filepath.Join(dir, "far"))
	netlab.Run(t, node, "sysctl -q net.ipv6.conf.all.forwarding=1",
		"ip link add pod0 type veth peer name eth0 netns "+pod,
		"ip link add out type veth peer name eth0 netns "+far, "ip link set pod0 up", "ip link set out up",
		"ip address add fd00:10:244::1/128 dev pod0 nodad", "ip address add fd00:9::1/64 dev out nodad",
		"ip route add fd00:10:244::5/128 dev pod0")
	netlab.Run(t, far, "ip link set eth0 up", "ip address add fd00:9::2/64 dev eth0 nodad",
		"ip route add default via fd00:9::1")
	// With duplicate address detection, whose packets have the unspecified address.
	netlab.Run(t, pod, "ip link set eth0 up", "ip address add fd00:10:244::5/128 dev eth0",
		"ip route add fd00:10:244::1/128 dev eth0", "ip route add default via fd00:10:244::1")
	nft := func(netns, text string) {
		t.Helper()
		err := kernel.Do(netns, func() error {
			return tools{(*exec.Cmd).CombinedOutput}.nft(t.Context(), text)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	nft(node, ipv6Rules)
	nft(far, counters)
	reach := func() {
		t.Helper()
		for before, end := packets(t, far, "own"), time.Now().Add(20*time.Second); packets(t, far, "own") == before; {
			if time.Now().After(end) {
				t.Fatal("nothing comes with the pod's own address")
			}
			forge(t, pod, "fd00:10:244::5", "fd00:9::2", 136)
			time.Sleep(50 * time.Millisecond)
		}
	}
	reach() // by now the pod has found its gateway, and its own address is its own
	for _, kind := range []byte{135, 136} {
		forge(t, pod, "fd00:99::9", "fd00:9::2", kind)
	}
	reach() // packets of one link keep their order
	if n := packets(t, far, "forged"); n != 0 {
		t.Errorf("%d forged neighbour packets went through the host", n)
	}
}

// forge sends a neighbour packet with any source from a network namespace.
func forge(t *testing.T, netns, source, destination string, kind byte) {
	t.Helper()
	from, to := netip.MustParseAddr(source).As16(), netip.MustParseAddr(destination).As16()
	content := make([]byte, 24) // type, code, checksum, flags, target
	content[0] = kind
	copy(content[8:], from[:])
	packet := append([]byte{0x60, 0, 0, 0, 0, byte(len(content)), unix.IPPROTO_ICMPV6, 255}, from[:]...)
	packet = append(append(packet, to[:]...), content...)
	err := kernel.Do(netns, func() error {
		fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Sendto(fd, packet, 0, &unix.SockaddrInet6{Addr: to})
	})
	if err != nil {
		t.Fatalf("send from %s: %v", source, err)
	}
}

// packets returns the counter with a comment.
func packets(t *testing.T, netns, comment string) (n int) {
	t.Helper()
	err := kernel.Do(netns, func() error {
		out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "nft", "list", "table", "ip6",
			"far").Output()
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, `"`+comment+`"`) {
				_, after, _ := strings.Cut(line, " packets ")
				n, err = strconv.Atoi(strings.Fields(after)[0])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
