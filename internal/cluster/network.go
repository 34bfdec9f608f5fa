// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"fmt"
	"net/netip"

	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
	"github.com/mullion-k8s/mullion/internal/winhost"
)

// maxIndex bounds the number of clusters on a machine: the pod networks count down from
// 10.244 and the service networks up from 10.96, and the two must stay well apart.
const maxIndex = 40

// maxNodes bounds the hosts of each system in a cluster: their addresses begin at
// .10 and .110 of a /24 whose last address is the router's.
const maxNodes = 100

// Network is a cluster's address plan. Everything follows from the cluster's
// index, so that two clusters on one machine never overlap, and so that the
// first has the addresses that every Kubernetes guide shows.
type Network struct {
	Index int
}

// nodes returns the network of the hosts: 10.89.INDEX.0/24.
func (n Network) nodes() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 89, byte(n.Index), 0}), 24)
}

// pods is 10.(244-INDEX).0.0/16; the controller manager gives each node a /24.
func (n Network) pods() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(244 - n.Index), 0, 0}), 16)
}

// services is 10.(96+INDEX).0.0/16.
func (n Network) services() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(96 + n.Index), 0, 0}), 16)
}

// ipv6 is the plan of a cluster that has IPv6, too: unique local ranges (RFC 4193) that resemble the IPv4 ranges,
// fd00:10:89:INDEX::/64, fd00:10:(244-INDEX)::/48 and fd00:10:(96+INDEX)::/112. The controller manager gives each node
// a /64 of the pods'.
func (n Network) ipv6() ipv6.Plan {
	return ipv6.Plan{
		NodeCIDR:    netip.PrefixFrom(local(89, n.Index, 0), 64),
		PodCIDR:     netip.PrefixFrom(local(244-n.Index, 0, 0), 48),
		ServiceCIDR: netip.PrefixFrom(local(96+n.Index, 0, 0), 112),
	}
}

// ipv6Of returns a host's IPv6 address. It ends with the last number of its IPv4 address.
func (n Network) ipv6Of(v4 netip.Addr) netip.Prefix {
	return netip.PrefixFrom(local(89, n.Index, int(v4.As4()[3])), n.ipv6().NodeCIDR.Bits())
}

// local returns fd00:10:NET:SUBNET::HOST, with decimal numbers for digits.
func local(net, subnet, host int) netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf("fd00:10:%d:%d::%d", net, subnet, host))
}

// loadBalancers is the default pool for Services of type LoadBalancer, 10.90.INDEX.0/24.
func (n Network) loadBalancers() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 90, byte(n.Index), 0}), 24)
}

// loadBalancers6 is the default pool of IPv6, fd00:10:90:INDEX::/112.
func (n Network) loadBalancers6() netip.Prefix { return netip.PrefixFrom(local(90, n.Index, 0), 112) }

// machine returns the machine's own address in the hosts' network; the API server
// and the cluster's DNS server listen there.
func (n Network) machine() netip.Addr { return nth(n.nodes(), 1) }

// router returns the hosts' default gateway.
func (n Network) router() netip.Addr { return nth(n.nodes(), 254) }

// node returns the address of the i-th Windows host, counted from 0.
func (n Network) node(i int) netip.Addr { return nth(n.nodes(), 10+i) }

// linux returns the address of the i-th Linux worker, counted from 0: after the addresses
// of all Windows hosts, so that Windows hosts can be added.
func (n Network) linux(i int) netip.Addr { return nth(n.nodes(), 10+maxNodes+i) }

// firstUID is the first user ID for pods. No distribution gives out the range from here to
// 0x7FFFFFFF: systemd.io/UIDS-GIDS lists it as unused, above the ranges of containers.
const firstUID = 0x70000000

// firstUID returns the first user ID for pods of the i-th host, counted from 0.
func (n Network) firstUID(i int) uint32 {
	return firstUID + uint32(n.Index*maxNodes+i)*winhost.IDsPerHost
}

// dns returns the cluster IP of Service kube-system/kube-dns.
func (n Network) dns() netip.Addr { return nth(n.services(), 10) }

// port returns the API server's port on loopback and on Machine.
func (n Network) port() uint16 { return uint16(6443 + n.Index) }

// admissionPort is the port of the admission webhooks, on loopback.
func (n Network) admissionPort() uint16 { return uint16(9443 + n.Index) }

// metricsPort is the port of the metrics API, at Network.Machine; upstream's image had it
// before it took the kubelet's, which a node on this machine may use.
const metricsPort = 4443

// APIServer returns the URL that the hosts use.
func (n Network) APIServer() string { return fmt.Sprintf("https://%s:%d", n.machine(), n.port()) }

// nth returns the i-th address of a /24.
func nth(p netip.Prefix, i int) netip.Addr {
	a := p.Addr().As4()
	a[3] = byte(i)
	return netip.AddrFrom4(a)
}
