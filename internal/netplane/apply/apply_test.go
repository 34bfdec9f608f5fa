// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package apply_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mullion-k8s/mullion/internal/fault"
	"github.com/mullion-k8s/mullion/internal/netplane/apply"
	"github.com/mullion-k8s/mullion/internal/netplane/compile"
	"github.com/mullion-k8s/mullion/internal/netplane/intent"
	"github.com/mullion-k8s/mullion/internal/netplane/intent/intenttest"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
	"github.com/mullion-k8s/mullion/internal/netplane/netlab"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// host is a namespace with a bridge in the uplink's place, and a plane for it.
type host struct {
	t     *testing.T
	dir   string
	netns string
	plane *apply.Plane
}

func newHost(t *testing.T) *host {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Nft)
	h := &host{t: t, dir: t.TempDir()}
	t.Cleanup(func() { netlab.CheckNoMounts(t, h.dir) })
	h.netns = netlab.Namespace(t, filepath.Join(h.dir, "host"))
	h.run("ip", "link", "add", "eth0", "address", "02:6d:0a:59:00:0b", "type", "bridge")
	h.run("ip", "address", "add", "10.89.0.11/24", "dev", "eth0")
	h.run("ip", "link", "set", "eth0", "up")
	h.plane = h.open()
	return h
}

func (h *host) open() *apply.Plane { h.t.Helper(); return h.openWith(nil) }

func (h *host) openWith(log *slog.Logger) *apply.Plane {
	h.t.Helper()
	p, err := apply.New(apply.Config{NetnsDir: filepath.Join(h.dir, "namespaces"), Netns: h.netns, Log: log})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(p.Close)
	return p
}

// run runs a program inside the host's namespace.
func (h *host) run(argv ...string) string { h.t.Helper(); return h.runIn(h.netns, argv...) }

// runIn runs a program inside another namespace.
func (h *host) runIn(netns string, argv ...string) string {
	h.t.Helper()
	s, err := kernel.Open(netns)
	if err != nil {
		h.t.Fatal(err)
	}
	defer s.Close()
	var out []byte
	err = s.Do(func() (err error) {
		out, err = exec.Command(argv[0], argv[1:]...).CombinedOutput()
		return err
	})
	if err != nil {
		h.t.Fatalf("%v: %v\n%s", argv, err, out)
	}
	return string(out)
}

var (
	volatile = regexp.MustCompile(`link-netns \S+|link-netnsid \d+|@if\d+|state \S+|qlen \d+|group default|link/\S+ ` +
		`\S+ brd \S+`)
	counters = regexp.MustCompile(`counter packets \d+ bytes \d+`)
	spaces   = regexp.MustCompile(`\s+`)
)

// state is all that a plane can change on a host, without what differs between
// two equal hosts.
func (h *host) state() string {
	h.t.Helper()
	all := ruleset(h.run("nft", "list", "ruleset"))
	for _, argv := range [][]string{{"ip", "-4", "-o", "address"}, {"ip", "-o", "link"}, {"ip", "-4", "route"},
		{"ip", "neighbour", "show", "nud", "permanent"}, {"ip", "neighbour", "show", "proxy"},
		{"bridge", "fdb", "show"}} {
		for line := range strings.Lines(h.run(argv...)) {
			if argv[0] == "bridge" && !strings.Contains(line, " dst ") {
				continue // what a link has of itself
			}
			line = volatile.ReplaceAllString(strings.Replace(line, "\\", " ", 1), "")
			if slices.Contains(argv, "-o") { // the index of the link begins the line
				_, line, _ = strings.Cut(line, " ")
			}
			all = append(all, argv[1]+": "+spaces.ReplaceAllString(line, " "))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// ruleset returns a list of nft's, with a line for each rule and each element; the
// kernel lists elements in the order of their hashes and chains in the order in
// which they were made.
func ruleset(text string) (lines []string) {
	object, n := "", 0
	for line := range strings.Lines(counters.ReplaceAllString(text, "counter")) {
		line = strings.TrimSpace(line)
		if line == "" || line == "}" {
			continue
		}
		if head, ok := strings.CutSuffix(line, " {"); ok {
			object, n = head, 0
			continue
		}
		if strings.HasPrefix(object, "chain ") {
			lines = append(lines, fmt.Sprintf("%s: %d %s", object, n, line))
			n++
			continue
		}
		line = strings.TrimSuffix(strings.TrimPrefix(line, "elements = { "), " }")
		for element := range strings.SplitSeq(line, ",") {
			if element != "" {
				lines = append(lines, object+": "+strings.TrimSpace(element))
			}
		}
	}
	return lines
}

func (h *host) removeNamespaces(p *apply.Plane, want ...intent.Host) {
	for _, w := range want {
		for _, e := range w.Endpoints {
			if e.NamespaceID != "" {
				if err := p.DeleteNamespace(context.Background(), e.NamespaceID); err != nil {
					h.t.Errorf("clean up: %v", err)
				}
			}
		}
	}
}

func small() intent.Host { return withPods(intenttest.Services(3, 2), 3) }

// withPods cuts the host's endpoints down to n.
func withPods(h intent.Host, n int) intent.Host {
	h.Endpoints = h.Endpoints[:n]
	return h
}

// TestApplyIsIdempotent: a second call, and a first call of a new process,
// change nothing.
func TestApplyIsIdempotent(t *testing.T) {
	h := newHost(t)
	want := small()
	defer h.removeNamespaces(h.plane, want)
	empty := h.state()
	if err := h.plane.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	first := h.state()
	links := h.run("ip", "-o", "link")
	for _, p := range []*apply.Plane{h.plane, h.open()} {
		if err := p.Apply(t.Context(), small()); err != nil {
			t.Fatal(err)
		}
		if got := h.state(); got != first {
			t.Errorf("state differs\n%s\nwant\n%s", got, first)
		}
		if got := h.run("ip", "-o", "link"); got != links {
			t.Errorf("links were made again\n%s\nwant\n%s", got, links)
		}
	}
	if err := h.open().Apply(t.Context(), intent.Host{Uplink: want.Uplink}); err != nil {
		t.Fatal(err)
	}
	nothing := h.run("nft", "list", "ruleset")
	h.run("nft", "delete", "table", "inet", compile.TableName)
	if got := h.state(); got != empty {
		t.Errorf("left behind\n%s\nwant\n%s", got, empty)
	}
	if strings.Contains(nothing, "10.244.") {
		t.Errorf("left behind in the table:\n%s", nothing)
	}
}

// TestHostRoutes: routes of the host's own programs come and go, also when they
// differ only in the next hop, and a new process finds them.
func TestHostRoutes(t *testing.T) {
	h := newHost(t)
	h.run("ip", "route", "add", "default", "via", "10.89.0.1", "dev", "eth0", "protocol", "109")
	bare := h.run("ip", "-4", "route")
	want := intent.Host{Uplink: intent.Uplink{Name: "eth0", Address: netip.MustParsePrefix("10.89.0.11/24")}}
	to := func(prefix, hop string) {
		r := intent.HostRoute{Destination: netip.MustParsePrefix(prefix), Link: "eth0", Metric: 271}
		if hop != "" {
			r.NextHop = netip.MustParseAddr(hop)
		}
		want.Routes = append(slices.Clone(want.Routes), r)
	}
	to("10.244.2.0/24", "10.89.0.12")
	to("10.244.2.0/24", "192.168.199.123") // not on the link, as in flannel's test
	to("0.0.0.0/0", "10.89.0.12")
	to("255.255.255.255/32", "192.168.199.123")
	to("10.244.3.0/24", "")
	for _, p := range []*apply.Plane{h.plane, h.plane, h.open()} {
		if err := p.Apply(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		got := h.run("ip", "-4", "route")
		for _, line := range []string{
			"default via 10.89.0.1 dev eth0 proto 109", "default via 10.89.0.12 dev eth0 proto 109 metric 271 onlink",
			"10.244.2.0/24 via 10.89.0.12 dev eth0 proto 109 metric 271 onlink",
			"10.244.2.0/24 via 192.168.199.123 dev eth0 proto 109 metric 272 onlink",
			"10.244.3.0/24 dev eth0 proto 109 scope link metric 271",
			"255.255.255.255 via 192.168.199.123 dev eth0 proto 109 metric 271 onlink",
		} {
			if !strings.Contains(spaces.ReplaceAllString(got, " "), line) {
				t.Errorf("no route %q in\n%s", line, got)
			}
		}
		h.plane = p
	}
	want.Routes = slices.Delete(slices.Clone(want.Routes), 0, 1)
	if err := h.plane.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if got := h.run("ip", "-4", "route", "show", "10.244.2.0/24"); !strings.Contains(got, "192.168.199.123") ||
		strings.Contains(got, "10.89.0.12") {
		t.Errorf("one of two routes was removed, which left\n%s", got)
	}
	want.Routes = nil
	if err := h.plane.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if got := h.run("ip", "-4", "route"); got != bare {
		t.Errorf("left behind\n%s\nwant\n%s", got, bare)
	}
}

// TestAdapters: the host's own adapters are listed, those of pods and networks are not.
func TestAdapters(t *testing.T) {
	h := newHost(t)
	want := withPods(intenttest.Services(3, 2), 3)
	want.Endpoints[0].HostAttached, want.Endpoints[0].NamespaceID = true, ""
	defer h.removeNamespaces(h.plane, want)
	if err := h.plane.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	list, err := h.plane.Adapters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range list {
		got = append(got, fmt.Sprintln(a.Link, a.Loopback, a.Addresses))
	}
	own := fmt.Sprintln(compile.LinkName(want.Endpoints[0].ID), false, want.Endpoints[0].Addresses)
	if want := []string{"lo true [127.0.0.1/8]\n", "eth0 false [10.89.0.11/24]\n", own}; !slices.Equal(got, want) {
		t.Errorf("adapters are %q, want %q", got, want)
	}
}

// TestTakeOver: a new process finds the leftovers of one that was killed in the
// middle: it removes what is not wanted and keeps what is, with its
// connections.
func TestTakeOver(t *testing.T) {
	h := newHost(t)
	before := small()
	defer h.removeNamespaces(h.plane, before)
	if err := h.plane.Apply(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	kept := h.run("ip", "-o", "link", "show", compile.LinkName("ep-1"))
	after := small()
	after.Endpoints = after.Endpoints[1:2]
	after.LoadBalancers = after.LoadBalancers[:1]
	if err := h.open().Apply(t.Context(), after); err != nil {
		t.Fatal(err)
	}
	if got := h.run("ip", "-o", "link", "show", compile.LinkName("ep-1")); got != kept {
		t.Errorf("the link of an endpoint that stayed was made again\n%swas\n%s", got, kept)
	}
	// The same from nothing must look the same.
	other := newHost(t)
	defer other.removeNamespaces(other.plane, after)
	if err := other.plane.Apply(t.Context(), after); err != nil {
		t.Fatal(err)
	}
	if got, want := h.state(), other.state(); got != want {
		t.Errorf("taken over\n%s\nfrom nothing\n%s", got, want)
	}
}

// TestDamage: the next change repairs what was damaged by hand.
func TestDamage(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(h *host)
	}{
		{"table deleted", func(h *host) { h.run("nft", "delete", "table", "inet", compile.TableName) }},
		{"element added", func(h *host) {
			h.run("nft", "add", "element", "inet", compile.TableName, "backends",
				"{ 10.96.2.88 . tcp . 80 . 0 : 1.2.3.4 . 5 }")
		}},
		{"element deleted", func(h *host) {
			h.run("nft", "delete", "element", "inet", compile.TableName, "backends", "{ 10.96.0.1 . tcp . 80 . 1 }")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t)
			want := small()
			defer h.removeNamespaces(h.plane, want)
			if err := h.plane.Apply(t.Context(), want); err != nil {
				t.Fatal(err)
			}
			c.damage(h)
			next := small()
			next.LoadBalancers = append([]intent.LoadBalancer{next.LoadBalancers[0]}, next.LoadBalancers[2],
				intenttest.Service(600, 1))
			if err := h.plane.Apply(t.Context(), next); err != nil {
				t.Fatal(err)
			}
			damaged := h.state()
			if err := h.open().Apply(t.Context(), next); err != nil {
				t.Fatal(err)
			}
			if got := h.state(); got != damaged {
				t.Errorf("after the change\n%s\nafter a restart\n%s", damaged, got)
			}
		})
	}
}

// TestNamespaceVanished: an endpoint whose namespace was removed by hand does not
// block other changes of the host.
func TestNamespaceVanished(t *testing.T) {
	h := newHost(t)
	want := small()
	defer h.removeNamespaces(h.plane, want)
	if err := h.plane.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if err := h.plane.DeleteNamespace(t.Context(), "ns-1"); err != nil {
		t.Fatal(err)
	}
	want = small()
	want.LoadBalancers = nil
	if err := h.plane.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if err := h.open().Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if !kernel.IsNamespace(h.plane.NamespacePath("ns-1")) {
		t.Error("a new process did not make the namespace again")
	}
}

// TestFaults fails an Apply at every point, and checks that the error comes
// out, that a failure before the transaction leaves nothing of it behind, and
// that the next call succeeds.
func TestFaults(t *testing.T) {
	h := newHost(t)
	base, want := small(), small()
	base.Endpoints, base.LoadBalancers = base.Endpoints[:1], base.LoadBalancers[:1]
	defer h.removeNamespaces(h.plane, want)
	learn := fault.NewSet()
	reset := func() {
		t.Helper()
		if err := h.plane.Apply(t.Context(), base); err != nil {
			t.Fatal(err)
		}
	}
	reset()
	if err := h.plane.Apply(fault.With(t.Context(), learn), want); err != nil {
		t.Fatal(err)
	}
	complete := h.state()
	points := slices.Compact(learn.Reached())
	if len(points) < 4 {
		t.Fatalf("only %v were reached", points)
	}
	for _, point := range points {
		t.Run(point, func(t *testing.T) {
			reset()
			before := h.state()
			err := h.plane.Apply(fault.With(t.Context(), fault.NewSet(point)), want)
			if !errors.Is(err, fault.ErrInjected) {
				t.Fatalf("got %v, want the injected fault", err)
			}
			early := strings.HasSuffix(point, "after-link") || strings.HasSuffix(point, "before-table")
			if got := h.state(); early && got != before {
				t.Errorf("left behind\n%s\nwant\n%s", got, before)
			}
			if err := h.plane.Apply(t.Context(), want); err != nil {
				t.Fatal(err)
			}
			if got := h.state(); got != complete {
				t.Errorf("after the second attempt\n%s\nwant\n%s", got, complete)
			}
		})
	}
}

func TestConflictChangesNothing(t *testing.T) {
	h := newHost(t)
	want := small()
	defer h.removeNamespaces(h.plane, want)
	if err := h.plane.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	before := h.state()
	bad := small()
	bad.LoadBalancers = append(bad.LoadBalancers, bad.LoadBalancers[0])
	bad.LoadBalancers[3].ID = "other"
	err := h.plane.Apply(t.Context(), bad)
	if !errors.As(err, new(*compile.ConflictError)) {
		t.Fatalf("got %v, want a conflict", err)
	}
	if got := h.state(); got != before {
		t.Errorf("changed to\n%s\nfrom\n%s", got, before)
	}
}

// TestRandomSequences: many changes, one after the other, lead to what the last
// intent alone leads to, as far as the kernel can tell, and none of them needs
// the table to be replaced.
func TestRandomSequences(t *testing.T) {
	for seed := range byte(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := newHost(t)
			h.plane = h.openWith(netlab.StrictLog(t))
			data := make([]byte, 1<<16)
			_, _ = rand.NewChaCha8([32]byte{seed}).Read(data) // never an error
			dice := intenttest.NewDice(data)
			var all []intent.Host
			defer func() { h.removeNamespaces(h.plane, all...) }()
			// Many contradict themselves; what follows continues from the last that does not.
			var last *intent.Host
			applied := 0
			for tries := 0; applied < 12 && tries < 1000; tries++ {
				want := dice.Host()
				if last != nil {
					want = dice.Change(*last)
				}
				all = append(all, want)
				if err := h.plane.Apply(t.Context(), want); err == nil {
					last = &want
					applied++
				}
			}
			if applied < 12 {
				t.Fatalf("only %d of %d intents could be applied", applied, len(all))
			}
			if err := h.plane.Apply(t.Context(), *last); err != nil {
				t.Fatal(err)
			}
			got := h.state()
			other := newHost(t)
			defer other.removeNamespaces(other.plane, all...)
			if err := other.plane.Apply(t.Context(), *last); err != nil {
				t.Fatal(err)
			}
			if want := other.state(); got != want {
				t.Errorf("after the sequence\n%s\nfrom nothing\n%s", got, want)
			}
		})
	}
}

// TestCyclesLeakNothing: pods come and go.
func TestCyclesLeakNothing(t *testing.T) {
	h := newHost(t)
	base, more := small(), small()
	base.Endpoints = base.Endpoints[:1]
	defer h.removeNamespaces(h.plane, more)
	cycle := func() {
		t.Helper()
		for _, e := range more.Endpoints {
			if err := h.plane.CreateNamespace(t.Context(), e.NamespaceID); err != nil {
				t.Fatal(err)
			}
		}
		if err := h.plane.Apply(t.Context(), more); err != nil {
			t.Fatal(err)
		}
		if err := h.plane.Apply(t.Context(), base); err != nil {
			t.Fatal(err)
		}
		for _, e := range more.Endpoints[1:] {
			if err := h.plane.DeleteNamespace(t.Context(), e.NamespaceID); err != nil {
				t.Fatal(err)
			}
		}
	}
	files := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	cycle()
	before, open := h.state(), files()
	for range 10 {
		cycle()
	}
	if got := h.state(); got != before {
		t.Errorf("after the cycles\n%s\nbefore\n%s", got, before)
	}
	if got := files(); got > open {
		t.Errorf("%d files are open, %d before", got, open)
	}
}

// TestConcurrentCalls is for the race detector and for the locks.
func TestConcurrentCalls(t *testing.T) {
	h := newHost(t)
	want := small()
	defer h.removeNamespaces(h.plane, want)
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			w := small()
			w.LoadBalancers = w.LoadBalancers[:i%3]
			if err := h.plane.Apply(t.Context(), w); err != nil {
				t.Error(err)
			}
			if _, err := h.plane.Stats(t.Context(), "ep-1"); err != nil {
				t.Error(err)
			}
			id := fmt.Sprint("extra-", i%2)
			if err := h.plane.CreateNamespace(t.Context(), id); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range 2 {
		if err := h.plane.DeleteNamespace(t.Context(), fmt.Sprint("extra-", i)); err != nil {
			t.Error(err)
		}
	}
}

func TestUplinkAndStats(t *testing.T) {
	h := newHost(t)
	want := small()
	defer h.removeNamespaces(h.plane, want)
	u, err := h.plane.Uplink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := (intent.Uplink{Name: "eth0", Address: netip.MustParsePrefix("10.89.0.11/24"),
		MAC: "02:6d:0a:59:00:0b"}); u != want {
		t.Errorf("uplink is %+v, want %+v", u, want)
	}
	if s, err := h.plane.Stats(t.Context(), "ep-0"); err != nil || s != (intent.Stats{}) {
		t.Errorf("counters of an endpoint without a device: %+v, %v", s, err)
	}
	if err := h.plane.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	netlab.Serve(t, h.plane.NamespacePath("ns-0"), "pod", "udp4", netip.MustParseAddrPort("10.244.1.5:53"))
	netlab.Expect(t, h.netns, "udp4", netip.MustParseAddrPort("10.244.1.5:53"), "pod")
	s, err := h.plane.Stats(t.Context(), "ep-0")
	if err != nil {
		t.Fatal(err)
	}
	if s.PacketsReceived == 0 || s.PacketsSent == 0 || s.BytesSent <= s.BytesReceived {
		t.Errorf("after a short question and a longer answer the endpoint counts %+v", s)
	}
}

func TestNamespaceIDs(t *testing.T) {
	testenv.Need(t, testenv.Root)
	p, err := apply.New(apply.Config{NetnsDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, id := range []string{"", "..", ".", "a/b", "../x", ".hidden"} {
		if err := p.CreateNamespace(t.Context(), id); err == nil {
			t.Errorf("namespace id %q was accepted", id)
		}
		if err := p.DeleteNamespace(t.Context(), id); err == nil {
			t.Errorf("namespace id %q was accepted", id)
		}
	}
}

// TestNamespaceSurvivesEmptyFile: after a reboot the files are there, but
// nothing is mounted on them.
func TestNamespaceSurvivesEmptyFile(t *testing.T) {
	h := newHost(t)
	if ids, err := h.plane.Namespaces(t.Context()); err != nil || len(ids) != 0 {
		t.Errorf("before anything was made, namespaces are %v, %v", ids, err)
	}
	for range 2 { // the second time it exists
		if err := h.plane.CreateNamespace(t.Context(), "NS-Upper"); err != nil {
			t.Fatal(err)
		}
	}
	path := h.plane.NamespacePath("ns-upper")
	if !kernel.IsNamespace(path) {
		t.Errorf("%s is not a namespace", path)
	}
	h.run("umount", path)
	if ids, err := h.plane.Namespaces(t.Context()); err != nil || !slices.Equal(ids, []string{"ns-upper"}) {
		t.Errorf("namespaces are %v, %v; one has an empty file", ids, err)
	}
	if err := h.plane.CreateNamespace(t.Context(), "ns-upper"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := h.plane.DeleteNamespace(t.Context(), "ns-upper"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTunnelFollows: a VXLAN device is changed in place when its peers change, and is made again when what
// cannot be changed is different.
func TestTunnelFollows(t *testing.T) {
	h := newHost(t)
	want := func(hosts int, edit func(*intent.Network)) intent.Host {
		i := intent.Host{Uplink: small().Uplink}
		overlay(hosts)(&i)
		edit(&i.Networks[0])
		return i
	}
	same := func(*intent.Network) {}
	apply := func(p *apply.Plane, i intent.Host) (state, index string) {
		t.Helper()
		if err := p.Apply(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		index, _, _ = strings.Cut(h.run("ip", "-o", "link", "show", "vxlan4096"), ":")
		return h.state(), index
	}
	one, first := apply(h.plane, want(1, same))
	three, index := apply(h.plane, want(3, same))
	if index != first {
		t.Error("the device was made again for another peer")
	}
	if got, _ := apply(h.plane, want(1, same)); got != one {
		t.Errorf("after two peers left\n%s\nwant\n%s", got, one)
	}
	// A new process corrects what another one left.
	if got, index := apply(h.open(), want(3, same)); got != three || index != first {
		t.Errorf("device %s, want %s; after a restart\n%s\nwant\n%s", index, first, got, three)
	}
	h.run("ip", "neighbour", "add", "10.245.9.0", "lladdr", "00:15:5d:09:09:09", "nud", "permanent", "dev", "vxlan4096")
	h.run("bridge", "fdb", "add", "00:15:5d:09:09:09", "dst", "10.89.0.99", "dev", "vxlan4096")
	if got, _ := apply(h.open(), want(3, same)); got != three {
		t.Errorf("after damage\n%s\nwant\n%s", got, three)
	}
	for name, edit := range map[string]func(*intent.Network){
		"port": func(n *intent.Network) { n.VXLANPort = 4790 },
		"MAC":  func(n *intent.Network) { n.DRMAC = "00-15-5D-01-00-99" },
	} {
		got, index := apply(h.open(), want(3, edit))
		if index == first {
			t.Errorf("%s: the device was not made again", name)
		}
		if strings.Count(got, "via 10.245.") != 3 {
			t.Errorf("%s: routes are missing\n%s", name, got)
		}
	}
	if err := h.open().Apply(t.Context(), intent.Host{Uplink: small().Uplink}); err != nil {
		t.Fatal(err)
	}
	if got := h.run("ip", "-o", "link"); strings.Contains(got, "vxlan") {
		t.Errorf("left behind: %s", got)
	}
}
