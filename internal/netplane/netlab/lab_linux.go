// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package netlab

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// Lab is one machine with the fabric of one cluster.
type Lab struct {
	Dir     string
	Machine string // namespace file
	Fabric  *fabric.Fabric
	t       testing.TB
	hosts   int
}

// NewLab makes the machine and the fabric, with the IPv6 plan if there is one, and removes everything
// when the test ends. The test then fails if a namespace was left behind.
func NewLab(t testing.TB, plan ipv6.Plan) *Lab {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Nft)
	l := &Lab{t: t, Dir: t.TempDir()}
	t.Cleanup(func() { CheckNoMounts(t, l.Dir) })
	l.Machine = l.Namespace("machine")
	cfg := FabricConfig("lab", 0)
	cfg.IPv6 = plan
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

// Host is a host that is connected to the fabric, which has a route to its pods. It has no pods yet.
type Host struct {
	Name    string
	Netns   string
	Address netip.Addr
	Pods    netip.Prefix
}

// Host connects the next host. The N-th has the pod range 10.244.N.0/24.
func (l *Lab) Host() Host {
	l.t.Helper()
	l.hosts++
	address := HostAddress(l.Fabric.Plan(), l.hosts)
	h := Host{Name: fmt.Sprintf("win-%d", l.hosts), Address: address.Addr(),
		Pods: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(l.hosts), 0}), 24)}
	h.Netns = l.Namespace(h.Name)
	a := fabric.Attachment{Node: h.Name, Netns: h.Netns, Address: address}
	if l.Fabric.Plan().Router6.IsValid() {
		// The last byte equals the IPv4 address's.
		six := l.Fabric.Plan().Router6.Masked().Addr().As16()
		six[15] = h.Address.As4()[3]
		a.Address6 = netip.PrefixFrom(netip.AddrFrom16(six), l.Fabric.Plan().Router6.Bits())
	}
	if err := l.Fabric.Connect(l.t.Context(), a); err != nil {
		l.t.Fatal(err)
	}
	if err := fabric.OpenRouter(l.Fabric.Plan().Namespace).SetPrefixes(l.t.Context(), h.Address,
		[]netip.Prefix{h.Pods}); err != nil {
		l.t.Fatal(err)
	}
	return h
}
