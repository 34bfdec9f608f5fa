// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package emul

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mullion-k8s/mullion/internal/fault"
	"github.com/mullion-k8s/mullion/internal/hns"
	"github.com/mullion-k8s/mullion/internal/hns/hnstest"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/winsys/hresult"
)

// openTest opens a store with a fake data plane; change may alter the config.
func openTest(t testing.TB, dir string, change func(*Config)) *Service {
	t.Helper()
	cfg := Config{Dir: dir, DataPlane: &hnstest.Plane{}, Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // many tests close it themselves and look at the error
	return s
}

func createBridge(t testing.TB, s *Service) schema.GUID {
	t.Helper()
	return create(t, s, hns.Network, schema.GUID{}, `{"Name":"cbr0","Type":"L2Bridge","SchemaVersion":{"Major":2},
	  "Ipams":[{"Subnets":[{"IpAddressPrefix":"10.244.1.0/24",
		"Routes":[{"NextHop":"10.244.1.1","DestinationPrefix":"0.0.0.0/0"}]}]}]}`)
}

func createRemote(t testing.TB, s *Service, n schema.GUID, address string) schema.GUID {
	t.Helper()
	return create(t, s, hns.Endpoint, n, `{"Flags":1,"IpConfigurations":[{"IpAddress":"`+address+
		`"}],"SchemaVersion":{"Major":2}}`)
}

func create(t testing.TB, s *Service, kind hns.Kind, network schema.GUID, doc string) schema.GUID {
	t.Helper()
	id, err := s.Create(t.Context(), kind, network, schema.GUID{}, doc)
	if err != nil {
		t.Fatalf("create %s %s: %v", kind, doc, err)
	}
	return id
}

func attach(ctx context.Context, s *Service, ns, e schema.GUID) error {
	return s.Modify(ctx, hns.Namespace, ns, `{"ResourceType":"Endpoint","RequestType":"Add","Settings":{"EndpointId":"`+
		e.String()+`"}}`)
}

func text(t testing.TB, s *Service) string {
	t.Helper()
	changes, err := s.current.Load().dump()
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.MarshalIndent(changes, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestG15StateSurvivesRestart: a flap of the service must not look like a flap
// of the network, or kube-proxy removes every service (rule G15).
func TestG15StateSurvivesRestart(t *testing.T) {
	dir, plane := t.TempDir(), &hnstest.Plane{}
	with := func(boot string) *Service {
		return openTest(t, dir, func(c *Config) { c.BootID, c.DataPlane = boot, plane })
	}
	s := with("boot-1")
	n := createBridge(t, s)
	e := create(t, s, hns.Endpoint, n, `{"Name":"pod","SchemaVersion":{"Major":2}}`)
	ns := create(t, s, hns.Namespace, schema.GUID{}, `{}`)
	if err := attach(t.Context(), s, ns, e); err != nil {
		t.Fatal(err)
	}
	create(t, s, hns.LoadBalancer, schema.GUID{}, `{"HostComputeEndpoints":["`+e.String()+
		`"],"FrontendVIPs":["10.96.0.1"],"PortMappings":[{"Protocol":6,"InternalPort":80,"ExternalPort":80}],`+
		`"SchemaVersion":{"Major":2}}`)
	create(t, s, hns.Network, schema.GUID{}, `{"Name":"temporary","Type":"NAT","Flags":8,"SchemaVersion":{"Major":2}}`)
	before, wired := text(t, s), plane.Dump()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := plane.DeleteNamespace(t.Context(), ns.String()); err != nil { // as if the machine had lost it
		t.Fatal(err)
	}
	s = with("boot-1")
	if got := text(t, s); got != before {
		t.Errorf("after a restart:\n%s\nbefore:\n%s", got, before)
	}
	if got := plane.Dump(); got != wired {
		t.Errorf("data plane after a restart:\n%s\nbefore:\n%s", got, wired)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// After a reboot the network that is not persistent and the compartments are
	// gone; the rest stays, for the CNI plugins to clean up.
	s = with("boot-2")
	st := s.current.Load()
	if len(st.networks.order) != 1 || len(st.namespaces.order) != 1 || len(st.balancers.order) != 1 {
		t.Errorf("after a reboot: %s", text(t, s))
	}
	if got := st.endpoints.get(e.String()); got == nil || got.HostComputeNamespace != "" || !got.WasAttached {
		t.Errorf("endpoint after a reboot: %+v", got)
	}
}

// TestFaults lets every step of every mutation fail once: the error surfaces,
// nothing has changed, and trying again works.
func TestFaults(t *testing.T) {
	type op struct {
		name string
		do   func(ctx context.Context, s *Service, n, ns, e schema.GUID) error
	}
	ops := []op{
		{"attach", func(ctx context.Context, s *Service, _, ns, e schema.GUID) error { return attach(ctx, s, ns, e) }},
		{"create namespace", func(ctx context.Context, s *Service, _, _, _ schema.GUID) error {
			_, err := s.CreateNamespace(ctx)
			return err
		}},
		{"delete namespace", func(ctx context.Context, s *Service, _, ns, _ schema.GUID) error {
			return s.DeleteNamespace(ctx, ns.String())
		}},
		{"delete network", func(ctx context.Context, s *Service, n, _, _ schema.GUID) error {
			return s.Delete(ctx, hns.Network, n)
		}},
		{"create load balancer", func(ctx context.Context, s *Service, _, _, e schema.GUID) error {
			_, err := s.Create(ctx, hns.LoadBalancer, schema.GUID{}, schema.GUID{}, `{"HostComputeEndpoints":["`+
				e.String()+`"],"PortMappings":[{"Protocol":6,"InternalPort":80,"ExternalPort":80}],`+
				`"SchemaVersion":{"Major":2}}`)
			return err
		}},
	}
	for _, op := range ops {
		t.Run(op.name, func(t *testing.T) {
			build := func() (s *Service, plane *hnstest.Plane, do func(ctx context.Context) error) {
				plane = &hnstest.Plane{}
				s = openTest(t, t.TempDir(), func(c *Config) { c.DataPlane = plane })
				n := createBridge(t, s)
				ns := create(t, s, hns.Namespace, schema.GUID{}, `{}`)
				e := create(t, s, hns.Endpoint, n, `{"Name":"pod","SchemaVersion":{"Major":2}}`)
				if op.name == "delete namespace" || op.name == "delete network" {
					if err := attach(t.Context(), s, ns, e); err != nil {
						t.Fatal(err)
					}
				}
				return s, plane, func(ctx context.Context) error { return op.do(ctx, s, n, ns, e) }
			}
			_, _, do := build()
			learn := fault.NewSet()
			if err := do(fault.With(t.Context(), learn)); err != nil {
				t.Fatal(err)
			}
			points := learn.Reached()
			if len(points) == 0 {
				t.Fatal("no fault points")
			}
			points = append(points, "plane: apply", "plane: create namespace", "plane: delete namespace")
			for _, point := range points {
				s, plane, do := build()
				before, wired := text(t, s), plane.Dump()
				ctx, failed := t.Context(), false
				if call, ok := strings.CutPrefix(point, "plane: "); ok {
					plane.Fail = func(c string) error {
						if c == call && !failed {
							failed = true
							return fault.ErrInjected
						}
						return nil
					}
				} else {
					failed = true
					ctx = fault.With(ctx, fault.NewSet(point))
				}
				err := do(ctx)
				if !failed {
					continue // the operation does not make that call
				}
				if !errors.Is(err, fault.ErrInjected) || !hresult.Of(err).Failed() {
					t.Errorf("%s: %v, want the injected fault", point, err)
				}
				if got := text(t, s); got != before {
					t.Errorf("%s: the store changed:\n%s\nbefore:\n%s", point, got, before)
				}
				if got := plane.Dump(); got != wired {
					t.Errorf("%s: the data plane changed:\n%s\nbefore:\n%s", point, got, wired)
				}
				if err := do(t.Context()); err != nil {
					t.Errorf("%s: second try: %v", point, err)
				}
			}
		})
	}
}

func TestAnnounceNetworks(t *testing.T) {
	var got [][]netip.Prefix
	s := openTest(t, t.TempDir(), func(c *Config) {
		c.OnNetwork = func(_ context.Context, p []netip.Prefix) { got = append(got, p) }
	})
	n := createBridge(t, s)
	create(t, s, hns.Network, schema.GUID{}, `{"Name":"nat","Type":"nat","SchemaVersion":{"Major":2}}`)
	create(t, s, hns.Endpoint, n, `{"SchemaVersion":{"Major":2}}`)
	// Nothing leads to a network that has the nodes' own subnet.
	create(t, s, hns.Network, schema.GUID{}, `{"Name":"nodes","Type":"L2Bridge","SchemaVersion":{"Major":2},
	  "Ipams":[{"Subnets":[{"IpAddressPrefix":"`+s.uplink.Address.Masked().String()+`"}]}]}`)
	if err := s.Delete(t.Context(), hns.Network, n); err != nil {
		t.Fatal(err)
	}
	bridge := []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}
	want := [][]netip.Prefix{{}, bridge, bridge, bridge, {}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("announced %v, want %v", got, want)
	}
}

// TestConcurrent adds and removes pods from many goroutines, as the kubelet and
// two proxiers do, while others read.
func TestConcurrent(t *testing.T) {
	plane := &hnstest.Plane{}
	s := openTest(t, t.TempDir(), func(c *Config) { c.DataPlane = plane })
	n := createBridge(t, s)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 10 {
				if err := podLife(t.Context(), s, n, fmt.Sprintf("pod-%d-%d", i, j)); err != nil {
					t.Error(err)
					return
				}
				if _, err := s.Call(t.Context(), "GET", "/endpoints/", ""); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if st := s.current.Load(); len(st.endpoints.order) != 0 || len(st.namespaces.order) != 1 {
		t.Errorf("left over: %s", text(t, s))
	}
	if got := plane.Dump(); !strings.HasPrefix(got, "network cbr0") || strings.Contains(got, "namespace") {
		t.Errorf("left over in the data plane:\n%s", got)
	}
}

func podLife(ctx context.Context, s *Service, n schema.GUID, name string) error {
	ns, err := s.CreateNamespace(ctx)
	if err != nil {
		return err
	}
	e, err := s.Create(ctx, hns.Endpoint, n, schema.GUID{}, `{"Name":"`+name+`_cbr0","SchemaVersion":{"Major":2}}`)
	if err != nil {
		return err
	}
	id, err := schema.ParseGUID(ns)
	if err != nil {
		return err
	}
	if err := attach(ctx, s, id, e); err != nil {
		return err
	}
	if err := s.AddContainer(ctx, ns, name); err != nil {
		return err
	}
	stats, err := s.NamespaceStats(ctx, ns)
	if err != nil || len(stats) != 1 || stats[0].Name != name+"_cbr0" || stats[0].BytesReceived == 0 {
		return fmt.Errorf("stats %+v, %w", stats, err)
	}
	if !strings.HasSuffix(s.NamespacePath(strings.ToUpper(ns)), ns) {
		return fmt.Errorf("path %s", s.NamespacePath(ns))
	}
	if err := s.Delete(ctx, hns.Endpoint, e); err != nil {
		return err
	}
	if err := s.DeleteNamespace(ctx, ns); err != nil {
		return err
	}
	return s.DeleteNamespace(ctx, ns) // again: no error
}

func TestPoolExhausted(t *testing.T) {
	s := openTest(t, t.TempDir(), nil)
	n := create(t, s, hns.Network, schema.GUID{}, `{"Name":"small","Type":"L2Bridge","SchemaVersion":{"Major":2},`+
		`"Ipams":[{"Subnets":[{"IpAddressPrefix":"10.244.1.0/29","Routes":[{"NextHop":"10.244.1.1",`+
		`"DestinationPrefix":"0.0.0.0/0"}]}]}]}`)
	for range 4 { // .3 to .6
		create(t, s, hns.Endpoint, n, `{"SchemaVersion":{"Major":2}}`)
	}
	_, err := s.Create(t.Context(), hns.Endpoint, n, schema.GUID{}, `{"SchemaVersion":{"Major":2}}`)
	if hresult.Of(err) != hresult.AddrInvalidOrReserved || !strings.Contains(err.Error(), "no address is free") {
		t.Errorf("%v", err)
	}
}

func TestNoSCTP(t *testing.T) {
	s := openTest(t, t.TempDir(), nil)
	n := create(t, s, hns.Network, schema.GUID{}, `{"Name":"n","Type":"L2Bridge","SchemaVersion":{"Major":2},`+
		`"Ipams":[{"Subnets":[{"IpAddressPrefix":"10.244.1.0/24","Routes":[{"NextHop":"10.244.1.1",`+
		`"DestinationPrefix":"0.0.0.0/0"}]}]}]}`)
	e := create(t, s, hns.Endpoint, n, `{"SchemaVersion":{"Major":2}}`)
	for protocol, want := range map[string]hresult.Code{"6": 0, "17": 0, "132": hresult.InvalidArgument} {
		_, err := s.Create(t.Context(), hns.LoadBalancer, schema.GUID{}, schema.GUID{}, `{"SchemaVersion":{"Major":2},`+
			`"HostComputeEndpoints":["`+e.String()+`"],"FrontendVIPs":["10.96.0.7"],`+
			`"PortMappings":[{"Protocol":`+protocol+`,"InternalPort":80,"ExternalPort":80}]}`)
		if got := hresult.Of(err); err != nil && got != want || err == nil && want != 0 {
			t.Errorf("protocol %s: %v", protocol, err)
		}
	}
}

func TestHostNamespaceStays(t *testing.T) {
	s := openTest(t, t.TempDir(), nil)
	id := s.current.Load().namespaces.order[0]
	if err := s.DeleteNamespace(t.Context(), id); hresult.Of(err) != hresult.AccessDenied {
		t.Errorf("delete the host's namespace: %v", err)
	}
	if got := s.Namespaces(); len(got) != 0 {
		t.Errorf("Namespaces() = %v, want none: the host's is not a runtime's", got)
	}
}

func TestVersions(t *testing.T) {
	for build, want := range map[int]schema.Version{14393: {Major: 9, Minor: 5}, 17763: {Major: 9, Minor: 5},
		18363: {Major: 10, Minor: 5}, 19041: {Major: 11, Minor: 11}, 19042: {Major: 12, Minor: 1},
		20348: {Major: 13, Minor: 2}, 26100: {Major: 16}} {
		if got := VersionOf(build); got != want || !got.AtLeast(9, 2) {
			t.Errorf("VersionOf(%d) = %v, want %v", build, got, want)
		}
	}
}

// TestPolicyRoundTrip: a policy that goes to v1 and back is the same.
func TestPolicyRoundTrip(t *testing.T) {
	for _, p := range []schema.Policy{
		{Type: "OutBoundNAT", Settings: json.RawMessage(`{"Exceptions":["10.0.0.0/8"],"VirtualIP":"192.0.2.1"}`)},
		{Type: "PortMapping", Settings: json.RawMessage(`{"ExternalPort":8080,"InternalPort":80,"Protocol":6}`)},
		{Type: "SDNRoute", Settings: json.RawMessage(`{"DestinationPrefix":"10.96.0.0/12","NeedEncap":true}`)},
		{Type: "ProviderAddress", Settings: json.RawMessage(`{"ProviderAddress":"192.0.2.1"}`)},
		{Type: "VSID", Settings: json.RawMessage(`{"IsolationId":4096}`)},
		{Type: "ACL", Settings: json.RawMessage(`{"Action":"Allow","Direction":"In","Protocols":"6"}`)},
	} {
		got, err := policyFromV1(policyToV1(p))
		if err != nil || !samePolicy(got, p) {
			t.Errorf("%s %s came back as %s %s, %v", p.Type, p.Settings, got.Type, got.Settings, err)
		}
	}
}

// FuzzCall throws documents at every way in. Nothing may panic, the store must
// stay readable, and what is stored must compile.
func FuzzCall(f *testing.F) {
	for _, seed := range []struct{ path, body string }{
		{"create network", `{"Name":"n","Type":"L2Bridge","Ipams":[{"Subnets":[{"IpAddressPrefix":"10.1.0.0/24",` +
			`"Routes":[{"NextHop":"10.1.0.1","DestinationPrefix":"0.0.0.0/0"}]}]}],"SchemaVersion":{"Major":2}}`},
		{"create network", `{"Name":"n","Type":"nat","Subnets":[{"AddressPrefix":"10.1.0.0/24",` +
			`"GatewayAddress":"10.1.0.1","Policies":[{"Type":"VLAN","VLAN":7}]}]}`},
		{"create endpoint", `{"IpConfigurations":[{"IpAddress":"10.244.1.9"}],"Policies":[{"Type":"ACL",` +
			`"Settings":{"Action":"Block","Direction":"Out","RemotePorts":"1-5"}}],"SchemaVersion":{"Major":2}}`},
		{"create namespace", `{"Type":"Guest","NamespaceId":4294967295}`},
		{"create load balancer", `{"HostComputeEndpoints":["ENDPOINT"],"PortMappings":[{"Protocol":6,` +
			`"InternalPort":1,"ExternalPort":1}],"SchemaVersion":{"Major":2}}`},
		{"create route", `{"HostComputeEndpoints":["ENDPOINT"],"Setting":[{"DestinationPrefix":"::/0",` +
			`"NextHop":"fe80::1%eth0"}]}`},
		{"modify network",
			`{"ResourceType":"Policy","RequestType":"Add","Settings":{"Policies":[{"Type":"RemoteSubnetRoute",` +
				`"Settings":{"DestinationPrefix":"10.2.0.0/24"}}]}}`},
		{"modify endpoint",
			`{"ResourceType":"Policy","RequestType":"Update","Settings":{"Policies":[{"Type":"PortMapping",` +
				`"Settings":{"Protocol":256}}]}}`},
		{"modify namespace", `{"ResourceType":"Endpoint","RequestType":"Add","Settings":{"EndpointId":"ENDPOINT"}}`},
		{"enumerate endpoint", `{"Filter":"{\"ID\":null,\"Name\":[1]}"}`},
		{"POST /endpoints/", `{"VirtualNetwork":"NETWORK","IPAddress":"10.244.1.77","Policies":[{"Type":"NAT",` +
			`"Protocol":"TCP","ExternalPort":1}]}`},
		{"POST /policylists/", `{"References":["/endpoints/ENDPOINT"],"Policies":[{"Type":"ELB","InternalPort":1,` +
			`"ExternalPort":1,"Protocol":6}]}`},
		{"POST /endpoints/ENDPOINT/attach", `{"SystemType":"Host","CompartmentId":1}`},
		{"DELETE /networks/NETWORK", ``},
	} {
		f.Add(seed.path, seed.body)
	}
	f.Fuzz(func(t *testing.T, path, body string) {
		plane := &hnstest.Plane{}
		s := openTest(t, t.TempDir(), func(c *Config) { c.DataPlane = plane })
		n := createBridge(t, s)
		e := create(t, s, hns.Endpoint, n, `{"SchemaVersion":{"Major":2}}`)
		ns := create(t, s, hns.Namespace, schema.GUID{}, `{}`)
		fill := strings.NewReplacer("NETWORK", n.String(), "ENDPOINT", e.String())
		path, body = fill.Replace(path), fill.Replace(body)
		ids := map[hns.Kind]schema.GUID{hns.Network: n, hns.Endpoint: e, hns.Namespace: ns}
		verb, rest, _ := strings.Cut(path, " ")
		for _, kind := range hnstest.Kinds() {
			switch {
			case rest != kind.String():
			case verb == "create":
				_, _ = s.Create(t.Context(), kind, n, schema.GUID{}, body)
			case verb == "modify":
				_ = s.Modify(t.Context(), kind, ids[kind], body)
			case verb == "enumerate":
				_, _ = s.Enumerate(t.Context(), kind, body)
			}
		}
		if strings.HasPrefix(rest, "/") {
			answer, err := s.Call(t.Context(), verb, rest, body)
			var r schema.Response
			if err != nil || json.Unmarshal([]byte(answer), &r) != nil || r.Success == (r.Error != "") {
				t.Fatalf("%s: %q, %v", path, answer, err)
			}
		}
		for _, kind := range hnstest.Kinds() {
			list, err := s.Enumerate(t.Context(), kind, "")
			var found []string
			if err != nil || json.Unmarshal([]byte(list), &found) != nil {
				t.Fatalf("enumerate %s: %q, %v", kind, list, err)
			}
			for _, id := range found {
				guid, err := schema.ParseGUID(id)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Query(t.Context(), kind, guid, ""); err != nil {
					t.Fatal(err)
				}
			}
		}
		// A restart finds the contents of the store, and the data plane accepts them.
		before := text(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		again := openTest(t, s.cfg.Dir, nil)
		if got := text(t, again); got != before {
			t.Fatalf("after a restart:\n%s\nbefore:\n%s", got, before)
		}
	})
}

// BenchmarkCreateLoadBalancer is kube-proxy's start with many services: each one
// a call of its own.
func BenchmarkCreateLoadBalancer(b *testing.B) {
	for _, services := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprintf("services=%d", services), func(b *testing.B) {
			s := openTest(b, b.TempDir(), nil)
			n := createBridge(b, s)
			doc := func(i int) string {
				e := createRemote(b, s, n, netip.AddrFrom4([4]byte{10, 250, byte(i >> 8), byte(i)}).String())
				return fmt.Sprintf(`{"HostComputeEndpoints":["%s"],"FrontendVIPs":["10.96.%d.%d"],`+
					`"PortMappings":[{"Protocol":6,"InternalPort":80,"ExternalPort":80}],"SchemaVersion":{"Major":2}}`,
					e, i>>8, i&255)
			}
			for i := range services {
				create(b, s, hns.LoadBalancer, schema.GUID{}, doc(i))
			}
			last := doc(services)
			b.ReportAllocs()
			for b.Loop() { // supersedes itself
				create(b, s, hns.LoadBalancer, schema.GUID{}, last)
			}
		})
	}
}
