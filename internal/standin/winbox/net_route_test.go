// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winbox

import (
	"bytes"
	"context"
	"io/fs"
	"net/netip"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/pwsh/host"
	"github.com/mullion-k8s/mullion/pwsh/host/hosttest"
)

// fakeRouting is a routing table in memory, which may refuse changes.
type fakeRouting struct {
	*hosttest.Network
	registry hosttest.Registry
	refuse   error
}

func (f *fakeRouting) AddRoute(ctx context.Context, r host.Route) error {
	if f.refuse != nil {
		return f.refuse
	}
	return f.Network.AddRoute(ctx, r)
}

func newRouting() *fakeRouting {
	return &fakeRouting{registry: hosttest.Registry{}, Network: &hosttest.Network{
		Table: []host.Route{
			{Interface: 2, Destination: netip.MustParsePrefix("0.0.0.0/0"),
				NextHop: netip.MustParseAddr("10.89.0.254")},
			{Interface: 2, Alias: "eth0", Destination: netip.MustParsePrefix("10.89.0.0/24"),
				NextHop: netip.IPv4Unspecified(), Metric: 256, Local: true},
		},
		Interfaces: []host.Adapter{
			{Index: 1, Name: "lo", Description: "Software Loopback Interface 1", Loopback: true,
				Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")}},
			{Index: 2, Name: "eth0", Description: "Hyper-V Virtual Ethernet Adapter", MAC: "02-6D-0A-59-00-0B",
				Addresses: []netip.Prefix{netip.MustParsePrefix("10.89.0.11/24")}},
		},
		Protocols: []host.IPInterface{
			{Index: 1, MTU: 65536, Metric: 75, AutomaticMetric: true},
			{Index: 2, MTU: 1500, Metric: 15, AutomaticMetric: true},
			{Index: 2, MTU: 1500, Metric: 15, AutomaticMetric: true, IPv6: true},
		},
	}}
}

// kept returns the persistent routes.
func (f *fakeRouting) kept(t *testing.T) []host.Route {
	list, err := host.PersistentRoutes(f.registry)
	if err != nil {
		t.Error(err)
	}
	return list
}

// run returns what a command prints on both streams, and its exit code.
func (f *fakeRouting) run(line string) (string, int) {
	var out bytes.Buffer
	argv := strings.Fields(line)
	code := Run(context.Background(), argv, &Env{Args: argv[1:], Stdout: &out, Stderr: &out,
		Host: host.Handlers{Net: f, Registry: f.registry}})
	return strings.ReplaceAll(out.String(), "\r", ""), code
}

func TestRoute(t *testing.T) {
	f := newRouting()
	for _, c := range []struct {
		line, want string
		code       int
	}{
		{"route add 10.244.2.0 mask 255.255.255.0 10.89.0.12", " OK!", 0},
		{"route add 10.244.2.0 mask 255.255.255.0 10.89.0.12",
			"The route addition failed: The object already exists.", 1},
		{"route -p ADD 10.244.3.0 MASK 255.255.255.0 10.89.0.13 METRIC 7 IF 2", " OK!", 0},
		{"route add 10.9.0.0 mask 255.255.0.0 192.168.1.1", "Either the interface index is wrong or the gateway", 1},
		{"route add 10.9.0.0 mask 255.255.0.0 10.89.0.12 if 1",
			"Either the interface index is wrong or the gateway", 1},
		{"route add 10.9.0.1 mask 255.255.0.0 10.89.0.12", "(Destination & Mask) != Destination.", 1},
		{"route add 10.9.0.0 mask 255.0.255.0 10.89.0.12", "route: bad mask 255.0.255.0", 1},
		{"route add nonsense 10.89.0.12", "route: bad destination address nonsense", 1},
		{"route add 10.9.0.0 mask 255.255.0.0", "Manipulates network routing tables", 1},
		{"route add 10.8.0.0 mask 255.255.0.0 10.89.0.11", " OK!", 0},
		{"route delete 10.7.0.0", "The route deletion failed: Element not found.", 1},
		{"route change 10.244.2.0 mask 255.255.255.0 10.89.0.14 metric 3", " OK!", 0},
		{"route", "Manipulates network routing tables", 1},
		{"route -6 add fd00::/64 fd00::1", "supported by this stand-in for PRINT only", 1},
		{"route -f", "not supported", 1},
		{"route print 10.244.3*", "10.244.3.0    255.255.255.0       10.89.0.13       10.89.0.11     22", 0},
	} {
		if got, code := f.run(c.line); code != c.code || !strings.Contains(got, c.want) {
			t.Errorf("%s: %d %q, want %d and %q", c.line, code, got, c.code, c.want)
		}
	}
	got, _ := f.run("route print")
	for _, want := range []string{
		"  2...02 6d 0a 59 00 0b ......Hyper-V Virtual Ethernet Adapter\n",
		"  1...........................Software Loopback Interface 1\n",
		"          0.0.0.0          0.0.0.0      10.89.0.254       10.89.0.11     15\n",
		"       10.244.2.0    255.255.255.0       10.89.0.14       10.89.0.11     18\n",
		"         10.8.0.0      255.255.0.0          On-link       10.89.0.11     16\n",
		"Persistent Routes:\n  Network Address          Netmask  Gateway Address  Metric\n" +
			"       10.244.3.0    255.255.255.0       10.89.0.13       7\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("route print lacks %q:\n%s", want, got)
		}
	}
	if got, code := f.run("route delete 10.244.3.0"); code != 0 || got != " OK!\n" || len(f.kept(t)) != 0 {
		t.Errorf("delete: %d %q, persistent %v", code, got, f.kept(t))
	}
	f.refuse = fs.ErrPermission
	if got, code := f.run("route add 10.1.0.0 mask 255.255.0.0 10.89.0.12"); code != 1 ||
		!strings.Contains(got, "The requested operation requires elevation.") {
		t.Errorf("without rights: %d %q", code, got)
	}
}

// TestRoutePrint6: the columns are those of a Windows 10 in https://github.com/rahra/onioncat/issues/35.
func TestRoutePrint6(t *testing.T) {
	f := newRouting()
	if got, _ := f.run("route print -6"); !strings.HasSuffix(got,
		"IPv6 Route Table\n"+routeRule+"Active Routes:\n  None\nPersistent Routes:\n  None\n") {
		t.Errorf("without IPv6:\n%s", got)
	}
	f.Table = append(f.Table, []host.Route{
		{Interface: 1, Destination: netip.MustParsePrefix("::1/128"), NextHop: netip.IPv6Unspecified(), Metric: 256},
		{Interface: 2, Destination: netip.MustParsePrefix("::/0"), NextHop: netip.MustParseAddr("fd00:10:89::fe")},
		{Interface: 2, Destination: netip.MustParsePrefix("fe80::1c2e:8ab9:eaa9:72ae/128"),
			NextHop: netip.IPv6Unspecified(), Metric: 256},
		{Interface: 9, Destination: netip.MustParsePrefix("fd00::/64"), NextHop: netip.IPv6Unspecified()}, // none such
	}...)
	want := "IPv6 Route Table\n" + routeRule + "Active Routes:\n" +
		" If Metric Network Destination      Gateway\n" +
		"  1    331 ::1/128                  On-link\n" +
		"  2     15 ::/0                     fd00:10:89::fe\n" +
		"  2    271 fe80::1c2e:8ab9:eaa9:72ae/128\n" +
		"                                    On-link\n" +
		routeRule + "Persistent Routes:\n  None\n"
	got, code := f.run("route print -6")
	if code != 0 || !strings.HasSuffix(got, want) || strings.Contains(got, "IPv4 Route Table") {
		t.Errorf("exit %d\n%s", code, got)
	}
	if got, _ := f.run("route -4 print"); !strings.Contains(got, "IPv4 Route Table") || strings.Contains(got, "IPv6") {
		t.Errorf("-4 prints\n%s", got)
	}
	got, _ = f.run("netsh interface ipv6 show route")
	if !strings.Contains(got, "No       Manual    0    ::/0                        2  fd00:10:89::fe\n") {
		t.Errorf("netsh prints\n%s", got)
	}
}

func TestNetsh(t *testing.T) {
	f := newRouting()
	for _, c := range []struct {
		line, want string
		code       int
	}{
		{"netsh interface ipv4 add route 10.244.2.0/24 eth0 10.89.0.12", "Ok.\n\n", 0},
		{"netsh interface ipv4 add route prefix=10.244.3.0/24 interface=2 nexthop=10.89.0.13 store=active",
			"Ok.\n\n", 0},
		{"netsh interface ipv4 add route 10.244.2.0/24 eth0 10.89.0.12", "The object already exists.", 1},
		{"netsh interface ipv4 add route 10.244.2.0/24 eth9 10.89.0.12", "The filename, directory name", 1},
		{"netsh interface ipv4 add route fd00::/64 eth0", "The parameter is incorrect.", 1},
		{"netsh interface ipv4 show route", "No       Manual    0    10.244.3.0/24               2  10.89.0.13\n", 0},
		{"netsh interface ipv4 show route", "No       System    256  10.89.0.0/24                2  eth0\n", 0},
		{"netsh in ipv4 set int 2 fo=en", "Ok.\n\n", 0},
		{"netsh interface ipv4 show interface eth0", "Forwarding                         : enabled\n", 0},
		{"netsh interface ipv4 set interface eth0 forwarding=maybe", "is not an acceptable value", 1},
		{"netsh interface ipv4 set interface eth0 mtu=1400", "The request is not supported.", 1},
		{"netsh interface ipv4 set interface interface=eth0 metric=30", "Ok.\n\n", 0},
		{"netsh interface ipv4 show interfaces", "  2          30        1500  connected     eth0\n", 0},
		{"netsh interface ipv4 delete route 10.244.2.0/24 eth0 10.89.0.12", "Ok.\n\n", 0},
		{"netsh interface ipv4 delete route 10.244.2.0/24 eth0 10.89.0.12", "Element not found.", 1},
		{"netsh advfirewall set allprofiles state off", "The following command was not found", 1},
	} {
		if got, code := f.run(c.line); code != c.code || !strings.Contains(got, c.want) {
			t.Errorf("%s: %d %q, want %d and %q", c.line, code, got, c.code, c.want)
		}
	}
	if len(f.kept(t)) != 0 {
		t.Errorf("persistent routes are left: %v", f.kept(t))
	}
}
