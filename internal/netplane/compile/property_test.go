// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package compile

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/knftables"

	"github.com/mullion-k8s/mullion/internal/netplane/intent"
	"github.com/mullion-k8s/mullion/internal/netplane/intent/intenttest"
)

// FuzzCompile checks for arbitrary intents, of which the second is a changed
// first one, that compiling never panics, that its result does not depend on
// what was compiled before, that every step satisfies the references that
// nftables demands (by the semantic fake of knftables), that the difference of
// two plans leads to where replacing leads, and that nft's parser accepts all.
func FuzzCompile(f *testing.F) {
	for seed := range uint64(30) {
		f.Add(noise(seed, 400))
	}
	nft, _ := exec.LookPath("nft") // without it, the fake must do
	f.Fuzz(func(t *testing.T, data []byte) {
		dice := intenttest.NewDice(data)
		first := dice.Host()
		second := dice.Change(first)
		old, err := Compile(first, nil)
		if err != nil {
			old = &Plan{}
		}
		plan, err := Compile(second, old)
		fresh, freshErr := Compile(second, nil)
		if (err == nil) != (freshErr == nil) {
			t.Fatalf("with a previous plan: %v; without: %v", err, freshErr)
		}
		if err != nil {
			return
		}
		if plan.String() != fresh.String() {
			t.Fatalf("with a previous plan:\n%s\nwithout:\n%s", plan, fresh)
		}
		checkDraws(t, plan)
		fake := knftables.NewFake(tableFamily, TableName)
		runFake(t, fake, old.Table.Replace())
		runFake(t, fake, plan.Diff(old))
		again := knftables.NewFake(tableFamily, TableName)
		runFake(t, again, plan.Table.Replace())
		if got, want := sortedDump(fake), sortedDump(again); got != want {
			t.Fatalf("the difference leads to:\n%s\nwant:\n%s", got, want)
		}
		if ops := plan.Diff(plan); len(ops) != 0 {
			t.Fatalf("a plan differs from itself: %s", Script(TableName, ops))
		}
		if nft != "" {
			nftParses(t, nft, Script(TableName, plan.Table.Replace()))
		}
	})
}

func noise(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// TestProperties runs the fuzz target's checks over more intents than its seeds.
func TestProperties(t *testing.T) {
	compiled := 0
	for seed := range uint64(400) {
		dice := intenttest.NewDice(noise(1000+seed, 600))
		h := dice.Host()
		plan, err := Compile(h, nil)
		for range 5 {
			old := plan
			if err != nil {
				old = &Plan{}
			}
			h = dice.Change(h)
			if plan, err = Compile(h, old); err != nil {
				continue
			}
			compiled++
			fake := knftables.NewFake(tableFamily, TableName)
			runFake(t, fake, old.Table.Replace())
			runFake(t, fake, plan.Diff(old))
			checkDraws(t, plan)
		}
	}
	if compiled < 100 {
		t.Errorf("only %d of the intents compile: the generator makes too much nonsense", compiled)
	}
}

var modulus = regexp.MustCompile(`^meta mark set (?:numgen|jhash) .*\bmod ([0-9]+)`)

// checkDraws checks fairness: for each front end, the chain draws among exactly
// as many numbers as there are backends, and every number has one.
func checkDraws(t *testing.T, p *Plan) {
	t.Helper()
	chains := map[string]Chain{}
	for _, c := range p.Table.Chains {
		chains[c.Name] = c
	}
	values := map[string]map[string]bool{}
	for _, e := range p.Table.elements() {
		if values[e.Set] == nil {
			values[e.Set] = map[string]bool{}
		}
		if values[e.Set][e.Key] {
			t.Fatalf("%s has %s twice", e.Set, e.Key)
		}
		values[e.Set][e.Key] = true
	}
	for _, e := range p.Table.elements() {
		name, v6 := strings.CutSuffix(e.Set, ipv6().suffix)
		set := map[string]string{mapFrontends: mapBackends, mapFrontendsOut: mapBackends, mapNodePorts: mapNodeBackends,
			mapNodePortsOut: mapNodeBackends}[name]
		if set != "" && v6 {
			set += ipv6().suffix
		}
		if set == "" {
			continue
		}
		rules := chains[strings.TrimPrefix(e.Value, "goto ")].Rules
		m := modulus.FindStringSubmatch(rules[len(rules)-2])
		if m == nil || !strings.Contains(rules[len(rules)-1], " . meta mark map @"+set) {
			t.Fatalf("front end %s leads to %q, which draws nothing", e.Key, rules)
		}
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		for i := range n + 1 {
			if has := values[set][e.Key+" . "+strconv.Itoa(i)]; has != (i < n) {
				t.Fatalf("front end %s draws among %d: backend %d present: %v", e.Key, n, i, has)
			}
		}
	}
}

func runFake(t *testing.T, fake *knftables.Fake, ops []Op) {
	t.Helper()
	tx := fake.NewTransaction()
	for _, op := range ops {
		var obj knftables.Object
		switch {
		case op.Chain != nil:
			c := &knftables.Chain{Name: op.Chain.Name}
			if op.Chain.Hook != "" && op.Verb == verbAdd {
				typ, hook, priority := knftables.BaseChainType(op.Chain.Type), knftables.BaseChainHook(op.Chain.Hook),
					knftables.BaseChainPriority(op.Chain.Priority)
				c.Type, c.Hook, c.Priority = &typ, &hook, &priority
			}
			obj = c
		case op.Rule != nil:
			obj = &knftables.Rule{Chain: op.Rule.Chain, Rule: op.Rule.Text}
		case op.Set != nil:
			typ := op.Set.Type
			if op.Set.Value != "" {
				typ += " : " + op.Set.Value
			}
			if op.Set.Value != "" {
				obj = &knftables.Map{Name: op.Set.Name, Type: typ}
			} else {
				obj = &knftables.Set{Name: op.Set.Name, Type: typ}
			}
		case op.Element != nil:
			e := &knftables.Element{Set: op.Element.Set, Key: strings.Split(op.Element.Key, " . ")}
			if isMap(op.Element.Set) {
				e.Set, e.Map = "", op.Element.Set
				e.Value = []string{op.Element.Value}
			}
			obj = e
		default:
			obj = &knftables.Table{}
		}
		switch op.Verb {
		case verbAdd:
			tx.Add(obj)
		case verbFlush:
			tx.Flush(obj)
		case verbDelete:
			tx.Delete(obj)
		}
	}
	if err := fake.Run(t.Context(), tx); err != nil {
		t.Fatalf("%v\n%s", err, Script(TableName, ops))
	}
}

func isMap(name string) bool {
	c := compiler{families: []family{ipv4(), ipv6()}, preserved: map[netip.Addr][]preserved{{}: nil}}
	return slices.ContainsFunc(c.sets(), func(s Set) bool {
		return s.Name == name && s.Value != ""
	})
}

func sortedDump(fake *knftables.Fake) string {
	var rules, rest []string
	for line := range strings.Lines(fake.Dump()) {
		if strings.HasPrefix(line, "add rule") {
			rules = append(rules, line)
		} else {
			rest = append(rest, line)
		}
	}
	slices.Sort(rest)
	return strings.Join(append(rules, rest...), "")
}

// nftParses asks nft. Without the right to change the kernel's tables it can
// only parse, and says so; that counts as accepted.
func nftParses(t *testing.T, nft, script string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), nft, "--check", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	out, err := cmd.CombinedOutput()
	if err != nil && !strings.Contains(string(out), "Operation not permitted") {
		t.Fatalf("nft --check: %v\n%s\n%s", err, out, script)
	}
}

func TestConflicts(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(h *intent.Host)
		want string // empty: no conflict
	}{
		{"same front end", func(h *intent.Host) {
			h.LoadBalancers = []intent.LoadBalancer{clusterIP("x", "10.96.0.1", intent.TCP, 80, 1, "10.244.1.5"),
				clusterIP("y", "10.96.0.1", intent.TCP, 80, 2, "10.244.1.6")}
		}, "load balancer y: 10.96.0.1:80/tcp is in use by load balancer x"},
		{"same port, other protocol", func(h *intent.Host) {
			h.LoadBalancers = []intent.LoadBalancer{clusterIP("x", "10.96.0.1", intent.TCP, 53, 1, "10.244.1.5"),
				clusterIP("y", "10.96.0.1", intent.UDP, 53, 2, "10.244.1.6")}
		}, ""},
		{"same node port", func(h *intent.Host) {
			h.LoadBalancers = []intent.LoadBalancer{nodePort("x", intent.TCP, 30080, 1, "10.244.1.5"),
				nodePort("y", intent.TCP, 30080, 2, "10.244.1.6")}
		}, "load balancer y: *:30080/tcp is in use by load balancer x"},
		{"node port of the other family", func(h *intent.Host) {
			six := nodePort("y", intent.TCP, 30080, 2, "fd00::1")
			six.IPv6 = true
			h.LoadBalancers = []intent.LoadBalancer{nodePort("x", intent.TCP, 30080, 1, "10.244.1.5"), six}
		}, ""},
		{"node port and host port", func(h *intent.Host) {
			h.Endpoints[0].PortMappings = []intent.PortMapping{{Protocol: intent.TCP, ExternalPort: 30080,
				InternalPort: 80}}
			h.LoadBalancers = []intent.LoadBalancer{nodePort("x", intent.TCP, 30080, 1, "10.244.1.6")}
		}, "load balancer x: *:30080/tcp is in use by endpoint ep-a"},
		{"same host port", func(h *intent.Host) {
			for i := range 2 {
				h.Endpoints[i].PortMappings = []intent.PortMapping{{Protocol: intent.UDP, ExternalPort: 53,
					InternalPort: 53}}
			}
		}, "endpoint ep-b: *:53/udp is in use by endpoint ep-a"},
		{"same address", func(h *intent.Host) { h.Endpoints[1].Addresses = h.Endpoints[0].Addresses },
			"endpoint ep-b: address 10.244.1.5 is in use by endpoint ep-a"},
		{"remote endpoint with the address of a local one", func(h *intent.Host) {
			h.Endpoints[2].Addresses = h.Endpoints[0].Addresses
		}, ""},
		{"address of the host", func(h *intent.Host) { h.Endpoints[1].Addresses = prefixes("10.89.0.11/24") },
			"endpoint ep-b: address 10.89.0.11 is in use by the host's uplink"},
		{"same id", func(h *intent.Host) { h.Endpoints[1].ID = "ep-a" },
			"endpoint ep-a: endpoint id ep-a is in use by endpoint ep-a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := node()
			c.edit(&h)
			_, err := Compile(h, nil)
			var conflict *ConflictError
			switch {
			case c.want == "" && err != nil:
				t.Fatal(err)
			case c.want != "" && !errors.As(err, &conflict):
				t.Fatalf("got %v, want a conflict", err)
			case c.want != "" && conflict.Error() != c.want:
				t.Errorf("got %q, want %q", conflict, c.want)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(h *intent.Host)
		want string
	}{
		{"loopback as backend", func(h *intent.Host) {
			h.LoadBalancers = []intent.LoadBalancer{clusterIP("x", "10.96.0.1", intent.TCP, 80, 10270, "127.0.0.1")}
		}, "load balancer x: backend 127.0.0.1: not the address of an endpoint"},
		{"protocol without ports", func(h *intent.Host) {
			h.LoadBalancers = []intent.LoadBalancer{clusterIP("x", "10.96.0.1", 1, 80, 80, "10.244.1.5")}
		}, "load balancer x: protocol 1 has no ports"},
		{"loopback as endpoint", func(h *intent.Host) {
			h.Endpoints[0].Addresses = prefixes("127.0.0.1/8")
		}, "endpoint ep-a: address 127.0.0.1: not usable"},
		{"bad MAC", func(h *intent.Host) { h.Endpoints[0].MAC = "00-15" }, "endpoint ep-a: parse MAC address"},
		{"multicast MAC", func(h *intent.Host) { h.Endpoints[0].MAC = "01-00-5e-00-00-01" },
			"not the address of one Ethernet device"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := node()
			c.edit(&h)
			if _, err := Compile(h, nil); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestUnspecifiedMeansAbsent: 0.0.0.0 as a source would otherwise become a rule
// that rewrites every connection.
func TestUnspecifiedMeansAbsent(t *testing.T) {
	h := node()
	h.LoadBalancers = []intent.LoadBalancer{clusterIP("x", "10.96.0.1", intent.TCP, 80, 80, "10.244.1.5")}
	want, err := Compile(h, nil)
	if err != nil {
		t.Fatal(err)
	}
	zero := node()
	zero.LoadBalancers = []intent.LoadBalancer{clusterIP("x", "10.96.0.1", intent.TCP, 80, 80, "10.244.1.5")}
	zero.LoadBalancers[0].SourceVIP = addr("0.0.0.0")
	for i := range 2 {
		zero.Endpoints[i].OutboundNAT = []intent.OutboundNAT{{VirtualIP: addr("0.0.0.0"),
			Exceptions: h.Endpoints[i].OutboundNAT[0].Exceptions}}
	}
	got, err := Compile(zero, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != want.String() {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestIncremental counts the operations of one change: they do not depend on
// how many other services there are.
func TestIncremental(t *testing.T) {
	h := intenttest.Services(500, 3)
	old, err := Compile(h, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		edit func(lbs []intent.LoadBalancer) []intent.LoadBalancer
		want string
	}{
		{"add", func(lbs []intent.LoadBalancer) []intent.LoadBalancer {
			return append(lbs, intenttest.Service(600, 1))
		}, `add chain inet mullion vip-1
add rule inet mullion vip-1 ct mark set 0x00000001
add rule inet mullion vip-1 meta mark set numgen random mod 1
add rule inet mullion vip-1 dnat ip to ip daddr . meta l4proto . th dport . meta mark map @backends
add element inet mullion backends { 10.96.2.88 . tcp . 80 . 0 : 10.244.2.88 . 8080 }
add element inet mullion frontends { 10.96.2.88 . tcp . 80 : goto vip-1 }
`},
		{"remove", func(lbs []intent.LoadBalancer) []intent.LoadBalancer { return lbs[:len(lbs)-1] },
			`delete element inet mullion backends { 10.96.1.243 . tcp . 80 . 0 : 10.244.2.243 . 8080, ` +
				`10.96.1.243 . tcp . 80 . 1 : 10.244.3.243 . 8080, 10.96.1.243 . tcp . 80 . 2 : 10.244.4.243 . 8080 }
delete element inet mullion frontends { 10.96.1.243 . tcp . 80 : goto vip-3 }
`},
		{"new id, same content", func(lbs []intent.LoadBalancer) []intent.LoadBalancer {
			lbs[7].ID = "other"
			return lbs
		}, ""},
		{"one backend replaced", func(lbs []intent.LoadBalancer) []intent.LoadBalancer {
			lbs[7].Backends = append([]intent.Backend(nil), lbs[7].Backends...)
			lbs[7].Backends[1].Address = addr("10.244.9.9")
			return lbs
		}, `delete element inet mullion backends { 10.96.0.7 . tcp . 80 . 1 : 10.244.3.7 . 8080 }
add element inet mullion backends { 10.96.0.7 . tcp . 80 . 1 : 10.244.9.9 . 8080 }
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			next := h
			next.LoadBalancers = c.edit(slices.Clone(h.LoadBalancers))
			plan, err := Compile(next, old)
			if err != nil {
				t.Fatal(err)
			}
			if got := Script(TableName, plan.Diff(old)); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}
