// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"net/netip"

	"github.com/mullion-k8s/mullion/internal/agent"
)

const (
	cniConfFile = cniConfDir + "/10-mullion.conflist"
	// cniName is the network's, in the names of host-local's files.
	cniName = "mullion"
)

// cniConfiguration is the CNI configuration that containerd reads.
type cniConfiguration struct {
	CNIVersion string `json:"cniVersion"`
	Name       string `json:"name"`
	Plugins    []any  `json:"plugins"`
}

// cniPTP is the configuration of ptp. It is not bridge: on a bridge the answer of a
// Service's backend to a client on the same bridge bypasses conntrack, unless the
// kernel has br_netfilter.
type cniPTP struct {
	Type   string   `json:"type"`
	IPMasq bool     `json:"ipMasq"`
	IPAM   *cniIPAM `json:"ipam,omitempty"`
}

type cniIPAM struct {
	Type   string       `json:"type,omitempty"`
	Ranges [][]cniRange `json:"ranges,omitempty"`
	Routes []cniRoute   `json:"routes"`
}

type cniRange struct {
	Subnet netip.Prefix `json:"subnet"`
}

type cniRoute struct {
	Destination string `json:"dst"`
}

// cniFlannel is the configuration of flannel's plugin
// (github.com/containernetworking/plugins v0.9.1, plugins/meta/flannel), which adds the
// node's range and the MTU from SubnetFile, and runs Delegate.
type cniFlannel struct {
	Type       string  `json:"type"`
	SubnetFile string  `json:"subnetFile"`
	IPAM       cniIPAM `json:"ipam"`
	Delegate   cniPTP  `json:"delegate"`
}

type cniPortmap struct {
	Type         string          `json:"type"`
	Backend      string          `json:"backend"`
	Capabilities map[string]bool `json:"capabilities"`
}

// describeCNI returns the configuration of a node whose pods have an address of each range, one for each family.
func describeCNI(c Config, podCIDRs []netip.Prefix) cniConfiguration {
	everywhere := []cniRoute{{"0.0.0.0/0"}}
	portmap := cniPortmap{Type: "portmap", Backend: "nftables", Capabilities: map[string]bool{"portMappings": true}}
	if c.Network.Flannel() {
		// The plugin supports no CNI newer than 0.4.0.
		return cniConfiguration{CNIVersion: "0.4.0", Name: cniName, Plugins: []any{
			cniFlannel{
				Type:       "flannel",
				SubnetFile: flannelSubnetFile,
				IPAM:       cniIPAM{Routes: everywhere},
				Delegate:   cniPTP{Type: "ptp"},
			}, portmap,
		}}
	}
	ipam := cniIPAM{Type: "host-local", Routes: everywhere}
	for _, p := range podCIDRs {
		ipam.Ranges = append(ipam.Ranges, []cniRange{{p}})
		if p.Addr().Is6() {
			ipam.Routes = append(ipam.Routes, cniRoute{"::/0"})
		}
	}
	return cniConfiguration{CNIVersion: "1.0.0", Name: cniName, Plugins: []any{
		cniPTP{Type: "ptp", IPAM: &ipam}, portmap,
	}}
}

// gatewayRanges lists the ranges behind a gateway: all pods. Two halves are narrower
// than the whole range, which the fabric itself answers with "unreachable" while there
// is no gateway.
func gatewayRanges(c Config) []netip.Prefix {
	if !c.PodGateway {
		return nil
	}
	lower := netip.PrefixFrom(c.PodCIDR.Masked().Addr(), c.PodCIDR.Bits()+1)
	return []netip.Prefix{lower, netip.PrefixFrom(upperHalf(c.PodCIDR), lower.Bits())}
}

// upperHalf returns the first address of the upper half of an IPv4 range.
func upperHalf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	b[p.Bits()/8] |= 0x80 >> (p.Bits() % 8)
	return netip.AddrFrom4(b)
}

// Where flanneld's files are.
const (
	flannelNetConf    = "/etc/kube-flannel/net-conf.json"
	flannelSubnetFile = "/run/flannel/subnet.env"
)

// flannelArgv returns flanneld's command line: upstream/flannel/flanneld. It has the
// node's identity, as on Windows hosts.
func flannelArgv(c Config) []string {
	return []string{
		programsDir + "/flanneld",
		"--kubeconfig-file=" + nodeKubeconfig,
		"--iface=" + c.Address.Addr().String(),
		"--net-config-path=" + flannelNetConf,
		"--subnet-file=" + flannelSubnetFile,
	}
}

// netConf returns flannel's net-conf.json.
func netConf(c Config) ([]byte, error) { return agent.NetConf(c.Network, "", c.PodCIDR) }
