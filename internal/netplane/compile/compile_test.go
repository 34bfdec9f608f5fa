// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package compile

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/netplane/intent"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }
func addr(s string) netip.Addr     { return netip.MustParseAddr(s) }

func prefixes(list ...string) []netip.Prefix {
	var p []netip.Prefix
	for _, s := range list {
		p = append(p, prefix(s))
	}
	return p
}

func backends(list ...string) []intent.Backend {
	var b []intent.Backend
	for _, s := range list {
		b = append(b, intent.Backend{Address: addr(s)})
	}
	return b
}

// node returns a host with one L2Bridge network and two pods, as the agent and
// win-bridge make them.
func node() intent.Host {
	outbound := []intent.OutboundNAT{{Exceptions: prefixes("10.244.0.0/16", "10.96.0.0/16", "10.89.0.0/24")}}
	return intent.Host{
		Uplink: intent.Uplink{Name: "eth0", Address: prefix("10.89.0.11/24"), MAC: "02:00:0a:59:00:0b"},
		Networks: []intent.Network{{ID: "net-1", Name: "cbr0", Type: intent.L2Bridge,
			Subnets: []intent.Subnet{{Prefix: prefix("10.244.1.0/24"), Gateway: addr("10.244.1.1")}}}},
		Endpoints: []intent.Endpoint{
			{ID: "ep-a", NetworkID: "net-1", NamespaceID: "ns-a", Addresses: prefixes("10.244.1.5/24"),
				MAC: "00-15-5D-00-00-0A", Gateway: addr("10.244.1.2"), OutboundNAT: outbound},
			{ID: "ep-b", NetworkID: "net-1", NamespaceID: "ns-b", Addresses: prefixes("10.244.1.6/24"),
				MAC: "00-15-5D-00-00-0B", Gateway: addr("10.244.1.2"), OutboundNAT: outbound},
			{ID: "ep-r", NetworkID: "net-1", Remote: true, Addresses: prefixes("10.244.2.7/24"),
				MAC: "02-11-0a-f4-02-07"},
		},
	}
}

// overlay returns a host of an Overlay network with two others, as flanneld, win-overlay and kube-proxy make it. The
// third host has two ranges.
func overlay() intent.Host {
	h := node()
	h.Networks = []intent.Network{{
		ID:      "net-1",
		Name:    "flannel.4096",
		Type:    intent.Overlay,
		Subnets: []intent.Subnet{{Prefix: prefix("10.244.1.0/24"), Gateway: addr("10.244.1.1"), VSID: 4096}},
		DRMAC:   "00-15-5D-11-11-11",
		RemoteSubnets: []intent.RemoteSubnet{
			{Prefix: prefix("10.244.2.0/24"), VSID: 4096, ProviderAddress: addr("10.89.0.12"),
				DRMAC: "00:15:5d:22:22:22"},
			{Prefix: prefix("10.244.3.0/24"), VSID: 4096, ProviderAddress: addr("10.89.0.13"),
				DRMAC: "00:15:5d:33:33:33"},
			{Prefix: prefix("10.244.8.0/21"), VSID: 4096, ProviderAddress: addr("10.89.0.13"),
				DRMAC: "00:15:5d:33:33:33"},
		},
	}}
	for i := range h.Endpoints {
		h.Endpoints[i].Gateway = addr("10.244.1.1")
	}
	h.Endpoints = append(h.Endpoints, intent.Endpoint{ID: "source-vip", NetworkID: "net-1",
		Addresses: prefixes("10.244.1.2/24"), MAC: "02:00:0a:59:00:0b"})
	web := nodePort("lb-web-node", intent.TCP, 30080, 8080, "10.244.1.5", "10.244.2.7")
	web.SourceVIP = addr("10.244.1.2")
	h.LoadBalancers = []intent.LoadBalancer{web}
	return h
}

// dual returns a host with two families: two pods with two addresses each, and Services of both families.
func dual() intent.Host {
	h := node()
	h.NoLocalBackends = true
	h.Uplink.Address6 = prefix("fd00:89::11/64")
	h.Networks[0].Subnets = append(h.Networks[0].Subnets,
		intent.Subnet{Prefix: prefix("fd00:244:0:1::/64"), Gateway: addr("fd00:244:0:1::1")})
	for i, a := range []string{"fd00:244:0:1::5/64", "fd00:244:0:1::6/64", "fd00:244:0:2::7/64"} {
		h.Endpoints[i].Addresses = append(h.Endpoints[i].Addresses, prefix(a))
		if !h.Endpoints[i].Remote {
			h.Endpoints[i].Gateway6 = addr("fd00:244:0:1::2")
		}
	}
	e := &h.Endpoints[0]
	e.OutboundNAT = append(e.OutboundNAT, intent.OutboundNAT{IPv6: true, Exceptions: prefixes("fd00::/16")})
	e.PortMappings = []intent.PortMapping{{Protocol: intent.TCP, ExternalPort: 8088, InternalPort: 80},
		{Protocol: intent.TCP, ExternalPort: 8088, InternalPort: 80, IPv6: true}}
	e.ACLs = []intent.ACL{
		{Direction: intent.In, Action: intent.Allow, Protocols: []uint8{intent.TCP}, Priority: 100,
			RemoteAddresses: prefixes("10.244.2.0/24", "fd00:244:0:2::/64"),
			LocalPorts:      []intent.PortRange{{First: 80, Last: 80}}},
		{Direction: intent.In, Action: intent.Allow, RemoteAddresses: prefixes("10.89.0.11/32"), Priority: 101},
		{Direction: intent.In, Action: intent.Block, Priority: 65500},
	}
	to4 := []string{"10.244.1.5", "10.244.2.7"}
	to6 := []string{"fd00:244:0:1::5", "fd00:244:0:2::7"}
	h.LoadBalancers = []intent.LoadBalancer{
		clusterIP("lb-web", "10.96.3.4", intent.TCP, 80, 8080, to4...),
		clusterIP("lb-web-6", "fd00:96::34", intent.TCP, 80, 8080, to6...),
		nodePort("lb-web-node", intent.TCP, 30080, 8080, to4...),
		nodePort("lb-web-node-6", intent.TCP, 30080, 8080, to6...),
		clusterIP("lb-affinity-6", "fd00:96::35", intent.UDP, 53, 53, to6...),
	}
	for i := range h.LoadBalancers {
		h.LoadBalancers[i].IPv6 = strings.HasSuffix(h.LoadBalancers[i].ID, "-6")
	}
	h.LoadBalancers[4].Distribution = intent.SourceIP
	return h
}

// networkTypes returns a host with a network of each type that differs from L2Bridge, one pod in each, two in the
// private one.
func networkTypes() intent.Host {
	h := dual()
	h.LoadBalancers, h.Endpoints = nil, nil
	add := func(typ intent.NetworkType, subnet, gateway string, pods ...string) {
		h.Networks = append(h.Networks, intent.Network{ID: "net-" + string(typ), Type: typ,
			Subnets: []intent.Subnet{{Prefix: prefix(subnet), Gateway: addr(gateway)}}})
		for _, a := range pods {
			h.Endpoints = append(h.Endpoints, intent.Endpoint{ID: "ep-" + a, NetworkID: "net-" + string(typ),
				NamespaceID: "ns-" + a, Addresses: prefixes(a + "/24"), Gateway: addr(gateway),
				MAC: fmt.Sprintf("00-15-5D-00-00-%02X", len(h.Endpoints))})
		}
	}
	add(intent.Transparent, "10.89.0.0/24", "10.89.0.254", "10.89.0.140")
	add(intent.L2Tunnel, "10.89.0.0/25", "10.89.0.126", "10.89.0.40")
	add(intent.NAT, "172.20.0.0/24", "172.20.0.1", "172.20.0.5", "172.20.0.4")
	add(intent.ICS, "172.21.0.0/24", "172.21.0.1", "172.21.0.5")
	add(intent.Private, "172.22.0.0/24", "172.22.0.1", "172.22.0.5", "172.22.0.6")
	h.Endpoints[0].Addresses = prefixes("10.89.0.140/24", "fd00:89::140/64")
	h.Endpoints[len(h.Endpoints)-1].Addresses = prefixes("172.22.0.6/24", "fd00:22::6/64")
	return h
}

func clusterIP(id, vip string, protocol uint8, port, target uint16, to ...string) intent.LoadBalancer {
	return intent.LoadBalancer{
		ID:           id,
		VIPs:         []netip.Addr{addr(vip)},
		Protocol:     protocol,
		ExternalPort: port,
		InternalPort: target,
		Backends:     backends(to...),
	}
}

func nodePort(id string, protocol uint8, port, target uint16, to ...string) intent.LoadBalancer {
	return intent.LoadBalancer{
		ID:             id,
		Protocol:       protocol,
		ExternalPort:   port,
		InternalPort:   target,
		Backends:       backends(to...),
		LocalRoutedVIP: true,
		VIPExternalIP:  true,
	}
}

// cases are the intents of the goldens.
var cases = []struct {
	name string
	host func() intent.Host
}{
	{"empty", func() intent.Host { return intent.Host{} }},
	{"pods", node},
	{"services", func() intent.Host {
		h := node()
		h.NoLocalBackends = true
		h.LoadBalancers = []intent.LoadBalancer{
			clusterIP("lb-dns", "10.96.0.10", intent.UDP, 53, 53, "10.89.0.1"),
			clusterIP("lb-web", "10.96.3.4", intent.TCP, 80, 8080, "10.244.1.5", "10.244.1.6", "10.244.2.7"),
			nodePort("lb-web-node", intent.TCP, 30080, 8080, "10.244.1.5", "10.244.1.6", "10.244.2.7"),
		}
		return h
	}},
	{"service-settings", func() intent.Host {
		h := node()
		affinity := clusterIP("lb-affinity", "10.96.0.20", intent.TCP, 80, 80, "10.244.1.5", "10.244.2.7")
		affinity.Distribution = intent.SourceIP
		dsr := nodePort("lb-local", intent.TCP, 30081, 80, "10.244.1.5")
		dsr.DSR = true
		sourceVIP := clusterIP("lb-source-vip", "10.96.0.21", intent.TCP, 80, 80, "10.244.2.7")
		sourceVIP.SourceVIP = addr("10.244.1.9")
		outside := nodePort("lb-outside", intent.UDP, 30082, 53, "10.244.1.6")
		outside.LocalRoutedVIP = false
		h.LoadBalancers = []intent.LoadBalancer{affinity, dsr, sourceVIP, outside}
		return h
	}},
	{"preserve-destination", func() intent.Host {
		h := dual()
		h.NoLocalBackends = false
		web := clusterIP("lb-web", "10.90.0.1", intent.TCP, 80, 8080, "10.244.1.5", "10.244.1.6", "10.244.2.7")
		other := clusterIP("lb-other-port", "10.90.0.1", intent.TCP, 81, 8080, "10.244.1.5")
		six := clusterIP("lb-web-6", "fd00:10:90::1", intent.TCP, 80, 8080, "fd00:244:0:1::5")
		six.IPv6 = true
		h.LoadBalancers = []intent.LoadBalancer{web, other, six}
		for i := range h.LoadBalancers {
			lb := &h.LoadBalancers[i]
			lb.DSR, lb.UseMux, lb.PreserveDIP, lb.VIPExternalIP = true, true, true, true
		}
		return h
	}},
	{"endpoint-policies", func() intent.Host {
		h := node()
		e := &h.Endpoints[0]
		e.PortMappings = []intent.PortMapping{{Protocol: intent.TCP, ExternalPort: 8088, InternalPort: 80}}
		e.ACLs = []intent.ACL{
			{Direction: intent.In, Action: intent.Block, Priority: 65500},
			{Direction: intent.In, Action: intent.Allow, Protocols: []uint8{6, 17},
				RemoteAddresses: prefixes("10.244.0.0/16", "10.244.1.0/24", "10.89.0.0/24"),
				LocalPorts: []intent.PortRange{{First: 80, Last: 80}, {First: 8080, Last: 8090},
					{First: 8085, Last: 8095}}, Priority: 100},
			{Direction: intent.Out, Action: intent.Block, Protocols: []uint8{6},
				RemotePorts: []intent.PortRange{{First: 25, Last: 25}}, Priority: 200},
		}
		h.Endpoints[1].MaxRate = 1_250_000
		h.Endpoints[1].Redirects = []intent.Redirect{
			{Match: intent.ACL{Direction: intent.Out}, Port: 9191, ExceptGroups: []uint32{64018, 64019},
				ExceptAddresses: prefixes("127.0.0.1/32", "10.0.0.0/8", "fd00::/8"),
				ExceptPorts:     []intent.PortRange{{First: 15000, Last: 15000}}},
			{Match: intent.ACL{Direction: intent.In, Protocols: []uint8{intent.TCP, intent.UDP},
				LocalPorts: []intent.PortRange{{First: 80, Last: 81}}}, Port: 9091, ExceptGroups: []uint32{64018}},
			{Match: intent.ACL{Direction: intent.Out, Protocols: []uint8{intent.UDP}}, Port: 9191},
			{Match: intent.ACL{Direction: intent.Out}, Port: 9191, ExceptAddresses: prefixes("0.0.0.0/0")},
		}
		h.Endpoints[1].OutboundNAT = []intent.OutboundNAT{
			{VirtualIP: addr("10.89.0.200"), Destinations: prefixes("192.0.2.0/24")},
			{Exceptions: prefixes("10.0.0.0/8", "10.244.0.0/16")},
			{Exceptions: prefixes("172.16.0.0/24")},
		}
		return h
	}},
	{"overlay", overlay},
	{"network-types", networkTypes},
	{"dual", dual},
	{"host-endpoint", func() intent.Host {
		h := node()
		h.Endpoints = append(h.Endpoints, intent.Endpoint{
			ID:           "ep-host",
			Name:         "cbr0_ep",
			NetworkID:    "net-1",
			HostAttached: true,
			Addresses:    prefixes("10.244.1.2/24"),
			MAC:          "00-15-5D-00-00-02",
			Gateway:      addr("10.244.1.1"),
		})
		return h
	}},
	{"host-routes", func() intent.Host {
		h := node()
		h.Routes = []intent.HostRoute{
			{Destination: prefix("10.244.2.0/24"), NextHop: addr("10.89.0.12"), Link: "eth0", Metric: 271},
			{Destination: prefix("10.244.3.7/24"), NextHop: addr("10.89.0.13"), Link: "eth0", Metric: 271},
			{Destination: prefix("10.244.2.0/24"), NextHop: addr("10.244.1.1"), Link: LinkName("net-1"), Metric: 16},
			{Destination: prefix("10.244.2.0/24"), NextHop: addr("192.168.199.123"), Link: "eth0", Metric: 271},
			{Destination: prefix("10.244.4.0/24"), NextHop: addr("10.244.1.1"), Link: LinkName("net-1"), Metric: 15},
			{Destination: prefix("10.244.4.0/24"), Link: "eth0", Metric: 15},
			{Destination: prefix("10.244.5.0/24"), Link: "hnsgone", Metric: 15},
			{Destination: prefix("0.0.0.0/0"), NextHop: addr("10.89.0.12"), Link: "eth0"},
		}
		return h
	}},
}

func TestHostRoutesRefuse(t *testing.T) {
	for _, destination := range []netip.Prefix{{}, prefix("127.0.0.0/8"), prefix("fd00::/8")} {
		h := node()
		h.Routes = []intent.HostRoute{{Destination: destination, Link: "eth0", Metric: 1}}
		if _, err := Compile(h, nil); err == nil {
			t.Errorf("a route to %s was compiled", destination)
		}
	}
}

func TestGoldens(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, err := Compile(c.host(), nil)
			if err != nil {
				t.Fatal(err)
			}
			testenv.Golden(t, c.name+".txt", []byte(p.String()))
		})
	}
}

// TestNftAccepts asks the real program about every golden.
func TestNftAccepts(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Nft)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, err := Compile(c.host(), nil)
			if err != nil {
				t.Fatal(err)
			}
			nftCheck(t, Script(p.Table.Name, p.Table.Replace()))
		})
	}
}

func nftCheck(t testing.TB, script string) {
	t.Helper()
	cmd := exec.Command("nft", "--check", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("nft --check: %v\n%s\n%s", err, out, script)
	}
}
