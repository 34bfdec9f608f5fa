// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package tcpip

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }
func addr(s string) netip.Addr     { return netip.MustParseAddr(s) }

// machine is a host with an uplink and an endpoint of its own.
type machine struct {
	cfg     Config
	applied []intent.HostRoute
	fail    error
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{}
	m.cfg = Config{
		File:    filepath.Join(t.TempDir(), "routes.json"),
		BootID:  "first",
		Gateway: addr("10.89.0.254"),
		Uplink:  "eth0",
		Adapters: func(context.Context) ([]intent.Adapter, error) {
			return []intent.Adapter{
				{Link: "lo", Index: 1, MTU: 65536, Loopback: true, Addresses: []netip.Prefix{prefix("127.0.0.1/8")}},
				{Link: "eth0", Index: 2, MTU: 1500, Addresses: []netip.Prefix{prefix("10.89.0.11/24")}},
				{Link: "hnsa", Index: 4, MTU: 1500, Addresses: []netip.Prefix{prefix("10.244.1.2/24")}},
			}, nil
		},
		Persistent: func() ([]PersistentRoute, error) { return nil, nil },
		SetRoutes: func(_ context.Context, routes []intent.HostRoute) error {
			if m.fail != nil {
				return m.fail
			}
			m.applied = routes
			return nil
		},
		Log: slog.New(slog.DiscardHandler),
	}
	return m
}

func (m *machine) open(t *testing.T) *Service {
	t.Helper()
	s, err := Open(t.Context(), m.cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func row(adapter int, destination, hop string, metric uint32) tableRow {
	return tableRow{Interface: adapter, Destination: prefix(destination), NextHop: addr(hop), Metric: metric}
}

func wantCode(t *testing.T, what string, err error, want errorCode) {
	t.Helper()
	if got := codeOf(err); got != want {
		t.Errorf("%s: %v, code %d, want %d", what, err, got, want)
	}
}

// lines is the part of the table that programs made.
func lines(t *testing.T, s *Service) string {
	t.Helper()
	rows, err := s.routes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, r := range rows {
		if r.Protocol == protocolNetMgmt {
			fmt.Fprintf(&b, "%s by %s on %d metric %d+%d\n", r.Destination, r.NextHop, r.Interface, r.Metric,
				r.InterfaceMetric)
		}
	}
	return b.String()
}

func TestRoutes(t *testing.T) {
	m := newMachine(t)
	s := m.open(t)
	ctx := t.Context()
	wantCode(t, "add", s.add(ctx, row(2, "10.244.2.0/24", "10.89.0.12", 256), false), 0)
	wantCode(t, "add by another hop", s.add(ctx, row(2, "10.244.2.0/24", "192.168.199.123", 256), false), 0)
	wantCode(t, "add again", s.add(ctx, row(2, "10.244.2.0/24", "10.89.0.12", 7), false), objectAlreadyExists)
	wantCode(t, "add what the host has", s.add(ctx, row(2, "10.89.0.0/24", "0.0.0.0", 7), false), objectAlreadyExists)
	wantCode(t, "add by the own address", s.add(ctx, row(2, "10.244.3.0/24", "10.89.0.11", 1), true), 0)
	wantCode(t, "change", s.setMetric(ctx, row(2, "10.244.2.0/24", "192.168.199.123", 5)), 0)
	wantCode(t, "change what is not there", s.setMetric(ctx, row(2, "10.7.0.0/24", "0.0.0.0", 5)), notFound)
	wantCode(t, "delete what is not there", s.remove(ctx, row(4, "10.244.2.0/24", "10.89.0.12", 0)), notFound)
	wantCode(t, "delete the host's own", s.remove(ctx, row(2, "0.0.0.0/0", "10.89.0.254", 0)), accessDenied)
	const want = "0.0.0.0/0 by 10.89.0.254 on 2 metric 0+15\n" +
		"10.244.2.0/24 by 192.168.199.123 on 2 metric 5+15\n" +
		"10.244.2.0/24 by 10.89.0.12 on 2 metric 256+15\n" +
		"10.244.3.0/24 by 0.0.0.0 on 2 metric 1+15\n"
	for _, s := range []*Service{s, m.open(t)} {
		if got := lines(t, s); got != want {
			t.Errorf("the table is\n%swant\n%s", got, want)
		}
	}
	wantRoutes := []intent.HostRoute{
		{Destination: prefix("10.244.2.0/24"), NextHop: addr("10.89.0.12"), Link: "eth0", Metric: 271},
		{Destination: prefix("10.244.2.0/24"), NextHop: addr("192.168.199.123"), Link: "eth0", Metric: 20},
		{Destination: prefix("10.244.3.0/24"), Link: "eth0", Metric: 16},
	}
	if !slices.Equal(m.applied, wantRoutes) {
		t.Errorf("the data plane has %v, want %v", m.applied, wantRoutes)
	}
	wantCode(t, "delete", s.remove(ctx, row(2, "10.244.2.0/24", "10.89.0.12", 0)), 0)
	if strings.Contains(lines(t, s), "10.89.0.12") {
		t.Error("a deleted route is in the table")
	}
}

func TestRefusedRoutes(t *testing.T) {
	s := newMachine(t).open(t)
	for _, c := range []struct {
		what   string
		row    tableRow
		onLink bool
		want   errorCode
	}{
		{"unknown adapter", row(99, "10.1.0.0/16", "10.89.0.12", 1), false, notFound},
		{"loopback destination", row(2, "127.0.0.0/8", "10.89.0.12", 1), false, invalidParameter},
		{"a part of loopback", row(2, "127.1.0.0/16", "10.89.0.12", 1), false, invalidParameter},
		{"loopback adapter", row(1, "10.1.0.0/16", "0.0.0.0", 1), false, invalidParameter},
		{"loopback hop", row(2, "10.1.0.0/16", "127.0.0.5", 1), false, invalidParameter},
		{"multicast hop", row(2, "10.1.0.0/16", "224.0.0.1", 1), false, invalidParameter},
		{"host bits", row(2, "10.1.0.1/16", "10.89.0.12", 1), false, invalidParameter},
		{"a metric beyond the limit", row(2, "10.1.0.0/16", "10.89.0.12", 1<<30), false, invalidParameter},
		{"a hop that is not on the link", row(2, "10.1.0.0/16", "10.90.0.1", 1), true, invalidParameter},
		{"IPv6", row(2, "fd00::/64", "fd00::1", 1), false, invalidParameter},
	} {
		wantCode(t, c.what, s.add(t.Context(), c.row, c.onLink), c.want)
	}
	if got := lines(t, s); strings.Count(got, "\n") != 1 {
		t.Errorf("refused routes are in the table:\n%s", got)
	}
}

// TestWholeTable: the entries of Windows itself, in the order of `route print`.
func TestWholeTable(t *testing.T) {
	rows, err := newMachine(t).open(t).routes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		got = append(got, fmt.Sprint(r.Destination, " ", r.Interface))
	}
	want := []string{
		"0.0.0.0/0 2", "10.89.0.0/24 2", "10.89.0.11/32 2", "10.89.0.255/32 2", "10.244.1.0/24 4", "10.244.1.2/32 4",
		"10.244.1.255/32 4", "127.0.0.0/8 1", "127.0.0.1/32 1", "127.255.255.255/32 1", "224.0.0.0/4 1",
		"224.0.0.0/4 2", "224.0.0.0/4 4", "255.255.255.255/32 1", "255.255.255.255/32 2", "255.255.255.255/32 4",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the table is\n%q\nwant\n%q", got, want)
	}
}

// TestReboot: only persistent routes survive, and a bad one does no harm.
func TestReboot(t *testing.T) {
	m := newMachine(t)
	s := m.open(t)
	wantCode(t, "add", s.add(t.Context(), row(2, "10.244.2.0/24", "10.89.0.12", 256), false), 0)
	wantCode(t, "set", s.setAdapter(t.Context(), 2, adapterChange{Forwarding: new(true)}), 0)
	m.cfg.BootID = "second"
	m.cfg.Persistent = func() ([]PersistentRoute, error) {
		return ParsePersistentRoutes([]string{
			"10.244.5.0,255.255.255.0,10.89.0.13,300", "10.244.6.0,255.255.255.0,10.244.1.9,1", "nonsense",
			"127.0.0.0,255.0.0.0,10.89.0.13,1", "10.7.0.0,255.255.0.0,192.168.1.1,1", "1.2.3.4,0.255.0.0,1.1.1.1,1",
		}, m.cfg.Log), nil
	}
	s = m.open(t)
	const want = "0.0.0.0/0 by 10.89.0.254 on 2 metric 0+15\n" +
		"10.7.0.0/16 by 192.168.1.1 on 2 metric 1+15\n" +
		"10.244.5.0/24 by 10.89.0.13 on 2 metric 300+15\n" +
		"10.244.6.0/24 by 10.244.1.9 on 4 metric 1+15\n"
	if got := lines(t, s); got != want {
		t.Errorf("after the reboot the table is\n%swant\n%s", got, want)
	}
	m.cfg.Persistent = func() ([]PersistentRoute, error) { return nil, errors.New("asked again") }
	if got := lines(t, m.open(t)); got != want {
		t.Errorf("after a restart the table is\n%swant\n%s", got, want)
	}
	if list, err := s.adapters(t.Context()); err != nil || !list[1].Forwarding || list[2].Forwarding {
		t.Errorf("after the reboot the adapters are %+v, %v", list, err)
	}
}

func TestAdapters(t *testing.T) {
	m := newMachine(t)
	s := m.open(t)
	ctx := t.Context()
	wantCode(t, "add", s.add(ctx, row(2, "10.244.2.0/24", "10.89.0.12", 256), false), 0)
	wantCode(t, "unknown adapter", s.setAdapter(ctx, 9, adapterChange{}), notFound)
	wantCode(t, "MTU", s.setAdapter(ctx, 2, adapterChange{MTU: 1400}), notSupported)
	wantCode(t, "metric", s.setAdapter(ctx, 2, adapterChange{Metric: 30, MTU: 1500, WeakHostSend: new(true)}), 0)
	if m.applied[0].Metric != 286 {
		t.Errorf("the route's metric is %d, want 286", m.applied[0].Metric)
	}
	list, err := s.adapters(ctx)
	if err != nil || list[1].metric != 30 || !list[1].WeakHostSend || list[0].metric != loopbackMetric {
		t.Errorf("adapters are %+v, %v", list, err)
	}
	wantCode(t, "automatic", s.setAdapter(ctx, 2, adapterChange{AutomaticMetric: new(true)}), 0)
	if m.applied[0].Metric != 271 {
		t.Errorf("the route's metric is %d, want 271", m.applied[0].Metric)
	}
}

// TestFailedChange: what the data plane cannot do is not in the table, now or
// after a restart.
func TestFailedChange(t *testing.T) {
	m := newMachine(t)
	s := m.open(t)
	m.fail = errors.New("no")
	wantCode(t, "add", s.add(t.Context(), row(2, "10.244.2.0/24", "10.89.0.12", 256), false), genFailure)
	m.fail = nil
	for _, s := range []*Service{s, m.open(t)} {
		if got := lines(t, s); strings.Contains(got, "10.244.2.0") {
			t.Errorf("the table has the route:\n%s", got)
		}
	}
}

func TestDamagedFile(t *testing.T) {
	m := newMachine(t)
	for _, content := range []string{"{", `{"boot":"first","routes":[{"link":"eth0","destination":"127.0.0.0/8",` +
		`"nextHop":"1.1.1.1","metric":1}]}`, `{"boots":1}`} {
		if err := os.WriteFile(m.cfg.File, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), m.cfg); err == nil || !strings.Contains(err.Error(), "routes.json") {
			t.Errorf("%s: %v", content, err)
		}
	}
}

func TestJoint(t *testing.T) {
	var got []intent.Host
	fail := false
	j := NewJoint(func(_ context.Context, h intent.Host) error {
		if fail {
			return errors.New("no")
		}
		got = append(got, h)
		return nil
	})
	ctx := t.Context()
	one := []intent.HostRoute{{Destination: prefix("10.1.0.0/16"), Link: "eth0"}}
	uplink := intent.Host{Uplink: intent.Uplink{Name: "eth0"}}
	if err := j.SetRoutes(ctx, one); err != nil || len(got) != 0 {
		t.Fatalf("before HNS: %v, applied %v", err, got)
	}
	if err := j.Apply(ctx, uplink); err != nil || len(got) != 1 || len(got[0].Routes) != 1 {
		t.Fatalf("first: %v, applied %v", err, got)
	}
	fail = true
	if err := j.SetRoutes(ctx, nil); err == nil {
		t.Error("the failure was lost")
	}
	fail = false
	if err := j.Apply(ctx, uplink); err != nil || len(got[1].Routes) != 1 {
		t.Errorf("after a failure: %v, applied %v", err, got[1])
	}
	if err := j.SetRoutes(ctx, nil); err != nil || len(got[2].Routes) != 0 || got[2].Uplink.Name != "eth0" {
		t.Errorf("removed: %v, applied %v", err, got[2])
	}
}
