// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

//go:build !windows

package oshost

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mullion-k8s/mullion/pwsh/host"
)

// errNotWindows is the error of Windows facilities on other systems.
var errNotWindows = errors.New("only Windows has this")

func prepare(*exec.Cmd, host.Process) {}

func drives() []string { return []string{"/"} }

// newConsole returns nil: terminals of other systems send Tab as a character.
func newConsole(io.Reader, io.Writer) host.Console { return nil }

func newRegistry() host.Registry { return nil }

// Adapters lists the interfaces as package net sees them, with the name servers
// and the default gateway.
func (n network) Adapters(ctx context.Context) ([]host.Adapter, error) {
	list, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	dns := nameServers("/etc/resolv.conf")
	routes, _ := n.Routes(ctx) // absent details are left out
	var out []host.Adapter
	for _, i := range list {
		a := host.Adapter{
			Index: i.Index, Name: i.Name, Description: i.Name, MTU: i.MTU, BitsPerSec: defaultSpeed,
			MAC: strings.ToUpper(strings.ReplaceAll(i.HardwareAddr.String(), ":", "-")),
			Up:  i.Flags&net.FlagUp != 0, Loopback: i.Flags&net.FlagLoopback != 0,
		}
		addrs, err := i.Addrs()
		if err != nil {
			return nil, err
		}
		for _, x := range addrs {
			if p, err := netip.ParsePrefix(x.String()); err == nil {
				a.Addresses = append(a.Addresses, p)
			}
		}
		if !a.Loopback {
			a.DNS = dns
		}
		out = append(out, a)
	}
	addGateways(out, routes)
	return out, nil
}

// addGateways adds the gateways of routes to the adapters.
func addGateways(list []host.Adapter, routes []host.Route) {
	for _, r := range routes {
		i := slices.IndexFunc(list, func(a host.Adapter) bool { return a.Index == r.Interface })
		if i >= 0 && r.Destination.Bits() == 0 && !r.NextHop.IsUnspecified() &&
			!slices.Contains(list[i].Gateways, r.NextHop) {
			list[i].Gateways = append(list[i].Gateways, r.NextHop)
		}
	}
}

func nameServers(file string) []netip.Addr {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	var out []netip.Addr
	for l := range strings.SplitSeq(string(b), "\n") {
		if f := strings.Fields(l); len(f) > 1 && f[0] == "nameserver" {
			if a, err := netip.ParseAddr(f[1]); err == nil {
				out = append(out, a)
			}
		}
	}
	return out
}

// Routes reads the kernel's IPv4 table.
// Source: proc(5), /proc/net/route: addresses are little-endian hexadecimal.
func (network) Routes(context.Context) ([]host.Route, error) {
	f, err := os.Open("/proc/net/route")
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	index := map[string]int{}
	list, err := os.ReadDir("/sys/class/net")
	if err == nil {
		for _, e := range list {
			b, err := os.ReadFile(filepath.Join("/sys/class/net", e.Name(), "ifindex"))
			if err == nil {
				index[e.Name()], _ = strconv.Atoi(strings.TrimSpace(string(b)))
			}
		}
	}
	var out []host.Route
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		c := strings.Fields(sc.Text())
		if len(c) < 8 || c[0] == "Iface" {
			continue
		}
		dst, gw, mask := hexAddr(c[1]), hexAddr(c[2]), hexAddr(c[7])
		ones := 0
		for _, b := range mask.AsSlice() {
			for ; b != 0; b <<= 1 {
				ones++
			}
		}
		metric, _ := strconv.Atoi(c[6])
		out = append(out, host.Route{
			Interface:   index[c[0]],
			Alias:       c[0],
			Destination: netip.PrefixFrom(dst, ones),
			NextHop:     gw,
			Metric:      metric,
		})
	}
	return out, sc.Err()
}

func hexAddr(s string) netip.Addr {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 4 {
		return netip.IPv4Unspecified()
	}
	var a [4]byte
	binary.LittleEndian.PutUint32(a[:], binary.BigEndian.Uint32(b))
	return netip.AddrFrom4(a)
}

func (network) AddRoute(context.Context, host.Route) error                   { return errNotWindows }
func (network) DeleteRoute(context.Context, host.Route) error                { return errNotWindows }
func (network) IPInterfaces(context.Context) ([]host.IPInterface, error)     { return nil, errNotWindows }
func (network) SetIPInterface(context.Context, host.IPInterfaceChange) error { return errNotWindows }
func (system) OSVersion() string                                             { return "10.0.17763.0" }
func (system) Services(context.Context) ([]host.ServiceInfo, error)          { return nil, errNotWindows }
func (system) ControlService(context.Context, string, string) error          { return errNotWindows }

func (system) Identity() (host.Identity, error)          { return host.Identity{}, errNotWindows }
func (system) ConsoleSize() (width, height int, ok bool) { return 0, 0, false }

func (system) UserName() string {
	if u := os.Getenv("USER"); u != "" {
		return u
	}
	return strconv.Itoa(os.Getuid())
}

func (system) Memory() (total, free int64) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0
	}
	for l := range strings.SplitSeq(string(b), "\n") {
		f := strings.Fields(l)
		if len(f) < 2 {
			continue
		}
		n, _ := strconv.ParseInt(f[1], 10, 64)
		switch f[0] {
		case "MemTotal:":
			total = n << 10
		case "MemAvailable:":
			free = n << 10
		}
	}
	return total, free
}

func (s system) BootTime() time.Time {
	b, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return s.started
	}
	up, _, _ := strings.Cut(string(b), " ")
	sec, err := strconv.ParseFloat(up, 64)
	if err != nil {
		return s.started
	}
	return time.Now().Add(-time.Duration(sec * float64(time.Second)))
}

func (system) Processes(context.Context) ([]host.ProcessInfo, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var out []host.ProcessInfo
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // it has just ended
		}
		name, rest, ok := cutStat(string(b))
		if !ok {
			continue
		}
		f := strings.Fields(rest)
		if len(f) < 22 {
			continue
		}
		num := func(i int) int64 { n, _ := strconv.ParseInt(f[i], 10, 64); return n }
		path, _ := os.Readlink(filepath.Join("/proc", e.Name(), "exe")) // may be denied
		const tick = 100                                                // USER_HZ of Linux
		out = append(out, host.ProcessInfo{
			ID:         pid,
			Parent:     int(num(1)),
			Name:       name,
			Path:       path,
			CPU:        time.Duration(num(11)+num(12)) * time.Second / tick,
			WorkingSet: num(21) * int64(os.Getpagesize()),
			Threads:    int(num(17)),
		})
	}
	return out, nil
}

// cutStat removes the name in parentheses from /proc/pid/stat.
func cutStat(s string) (name, rest string, ok bool) {
	i, j := strings.IndexByte(s, '('), strings.LastIndexByte(s, ')')
	if i < 0 || j < i {
		return "", "", false
	}
	return s[i+1 : j], s[j+1:], true
}

func (system) Kill(_ context.Context, pid int) error {
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	return nil
}
