// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package netlab builds whole networks for tests: a namespace that stands for
// the machine, the fabric of a cluster, emulated hosts with their data planes,
// and pods in which programs listen and connect, so that tests send real
// packets. All of it lies in namespaces of its own; the machine on which the
// tests run sees nothing but a few mounts under the test's temporary directory.
//
// It is for tests only and links the testing package.
package netlab

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/netplane/apply"
	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
	"github.com/mullion-k8s/mullion/internal/netplane/intent"
	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// Lab is one machine with one cluster.
type Lab struct {
	t       testing.TB
	Dir     string
	Machine string // namespace file
	Fabric  *fabric.Fabric
	hosts   int
}

// New makes the machine and the fabric, and removes everything when the test
// ends. The test then fails if a namespace was left behind.
func New(t testing.TB) *Lab {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Nft)
	l := &Lab{t: t, Dir: t.TempDir()}
	t.Cleanup(func() { CheckNoMounts(t, l.Dir) })
	l.Machine = l.Namespace("machine")
	cfg := FabricConfig("lab", 0)
	cfg.Dir, cfg.Machine = filepath.Join(l.Dir, "fabric"), l.Machine
	f, err := fabric.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l.Fabric = f
	if err := f.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Delete(context.Background()); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return l
}

// Namespace makes a network namespace that the test removes at its end.
func (l *Lab) Namespace(name string) string { return Namespace(l.t, filepath.Join(l.Dir, name)) }

// Namespace makes a network namespace at path for the time of the test.
func Namespace(t testing.TB, path string) string {
	t.Helper()
	if err := kernel.CreateNamespace(path, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kernel.DeleteNamespace(path); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return path
}

// CheckNoMounts fails the test if something is mounted below dir.
func CheckNoMounts(t testing.TB, dir string) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, dir+"/") {
			t.Errorf("left behind: %s", line)
		}
	}
}

// Host is an emulated host. Tests change Intent and call Apply.
type Host struct {
	t       testing.TB
	Name    string
	Netns   string
	Address netip.Addr
	Pods    netip.Prefix
	Plane   *apply.Plane
	Intent  intent.Host
}

// NetworkID is the ID of each host's network.
const NetworkID = "cbr0"

// Host adds the next host, with the pod range 10.244.N.0/24.
func (l *Lab) Host() *Host {
	l.t.Helper()
	l.hosts++
	address := HostAddress(l.Fabric.Plan(), l.hosts)
	h := &Host{t: l.t, Name: fmt.Sprintf("win-%d", l.hosts), Address: address.Addr()}
	h.Pods = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(l.hosts), 0}), 24)
	h.Netns = l.Namespace(h.Name)
	ctx := l.t.Context()
	if err := l.Fabric.Connect(ctx, fabric.Attachment{Node: h.Name, Netns: h.Netns, Address: address}); err != nil {
		l.t.Fatal(err)
	}
	if err := fabric.OpenRouter(l.Fabric.Plan().Namespace).SetPrefixes(ctx, h.Address,
		[]netip.Prefix{h.Pods}); err != nil {
		l.t.Fatal(err)
	}
	var err error
	h.Plane, err = apply.New(apply.Config{NetnsDir: filepath.Join(l.Dir, h.Name+"-namespaces"), Netns: h.Netns,
		Log: StrictLog(l.t)})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(h.Plane.Close)
	if h.Intent.Uplink, err = h.Plane.Uplink(ctx); err != nil {
		l.t.Fatal(err)
	}
	h.Intent.Networks = []intent.Network{{ID: NetworkID, Name: NetworkID, Type: intent.L2Bridge,
		Subnets: []intent.Subnet{{Prefix: h.Pods, Gateway: h.Pods.Addr().Next()}}}}
	return h
}

// Pod is a namespace with one endpoint.
type Pod struct {
	Name    string
	Netns   string
	Address netip.Addr
}

// Pod adds a pod with the address ending in last to the host's intent, made as
// win-bridge makes it.
func (h *Host) Pod(last byte) *Pod {
	h.t.Helper()
	b := h.Pods.Addr().As4()
	b[3] = last
	a := netip.AddrFrom4(b)
	id := fmt.Sprintf("%s-pod-%d", h.Name, last)
	if err := h.Plane.CreateNamespace(h.t.Context(), id); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if err := h.Plane.DeleteNamespace(context.Background(), id); err != nil {
			h.t.Errorf("clean up: %v", err)
		}
	})
	h.Intent.Endpoints = append(h.Intent.Endpoints, intent.Endpoint{
		ID: id, Name: id, NetworkID: NetworkID, NamespaceID: id,
		Addresses: []netip.Prefix{netip.PrefixFrom(a, h.Pods.Bits())},
		MAC:       fmt.Sprintf("00-15-5D-%02X-%02X-%02X", b[1], b[2], b[3]),
		Gateway:   h.Pods.Addr().Next().Next(), // win-bridge: the second address
		OutboundNAT: []intent.OutboundNAT{{Exceptions: []netip.Prefix{
			netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("10.96.0.0/16"),
			netip.MustParsePrefix("10.89.0.0/24"),
		}}},
	})
	return &Pod{Name: id, Netns: h.Plane.NamespacePath(id), Address: a}
}

// Endpoint returns the pod's endpoint in the host's intent.
func (h *Host) Endpoint(p *Pod) *intent.Endpoint {
	for i := range h.Intent.Endpoints {
		if h.Intent.Endpoints[i].ID == p.Name {
			return &h.Intent.Endpoints[i]
		}
	}
	h.t.Fatalf("no endpoint of %s", p.Name)
	return nil
}

// Remove takes the pod's endpoint out of the host's intent.
func (h *Host) Remove(p *Pod) {
	var rest []intent.Endpoint
	for _, e := range h.Intent.Endpoints {
		if e.ID != p.Name {
			rest = append(rest, e)
		}
	}
	h.Intent.Endpoints = rest
}

// Apply makes the host's network match its intent.
func (h *Host) Apply() {
	h.t.Helper()
	want := h.Intent // the plane keeps what it was given
	want.Networks = append([]intent.Network(nil), want.Networks...)
	want.Endpoints = append([]intent.Endpoint(nil), want.Endpoints...)
	want.LoadBalancers = append([]intent.LoadBalancer(nil), want.LoadBalancers...)
	if err := h.Plane.Apply(h.t.Context(), want); err != nil {
		h.t.Fatal(err)
	}
}

// Service adds a load balancer to the host's intent. Without a VIP it is a
// node port.
func (h *Host) Service(id string, vip netip.Addr, protocol uint8, port, target uint16,
	to ...netip.Addr) *intent.LoadBalancer {
	lb := intent.LoadBalancer{ID: id, Protocol: protocol, ExternalPort: port, InternalPort: target}
	if vip.IsValid() {
		lb.VIPs = []netip.Addr{vip}
	} else {
		lb.LocalRoutedVIP, lb.VIPExternalIP = true, true
	}
	for _, a := range to {
		lb.Backends = append(lb.Backends, intent.Backend{Address: a, Local: h.Pods.Contains(a)})
	}
	h.Intent.LoadBalancers = append(h.Intent.LoadBalancers, lb)
	return &h.Intent.LoadBalancers[len(h.Intent.LoadBalancers)-1]
}
