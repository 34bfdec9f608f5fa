// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/controlplane/plan"
	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/linuxhost"
	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
	"github.com/mullion-k8s/mullion/internal/version"
	"github.com/mullion-k8s/mullion/internal/winhost"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// Names of the components that are not hosts.
const (
	FabricName = "network"
	ServerName = "server"
)

// Row is a component as `mullion up` shows it.
type Row struct {
	Name  string
	Title string
	// Done is printed behind the title when the component is ready, and Note at the
	// end of the line.
	Done, Note string
}

// Plan describes everything that running a cluster does, as data.
type Plan struct {
	Config      Config
	Directories []string // made if missing, 0700
	Network     Network
	Fabric      fabric.Plan
	Server      config.Config
	Nodes       []Node
	Programs    []Program
}

// Node is a host of the cluster, of either system.
type Node struct {
	// Config needs the cluster's CAFile, and a TokenFile. The host writes Status.
	host.Config
	// Title is the system in words.
	Title string
	// The host's program reads Document, a winhost.Config or a linuxhost.Config.
	Document any
}

// Program is one process that the supervisor keeps.
type Program struct {
	Name  string
	Needs []string // ready before it starts
	Uses  []string // stopped after it
	Argv  []string
}

// Describe plans a cluster. It is pure: the same arguments give the same plan.
func Describe(l Layout, c Config, bin Binaries) (Plan, error) {
	builds, err := c.builds()
	if err != nil {
		return Plan{}, err
	}
	p := Plan{Config: c, Network: c.Network(), Server: describeServer(l, c)}
	if p.Fabric, err = fabric.Describe(fabricConfig(l, c)); err != nil {
		return Plan{}, err
	}
	p.Directories = []string{l.DataDir, l.cache(), l.Dir(), l.run(), l.netns(), l.Logs()}
	p.Programs = []Program{{
		Name:  ServerName,
		Needs: []string{FabricName},
		Argv:  []string{bin.Kube(), "server", "--config", l.serverConfig()},
	}}
	for i, b := range builds {
		if c.has(nodeName(i)) {
			p.add(windowsNode(l, p, bin, i, b), l, bin.winhost())
		}
	}
	for i := range c.Linux {
		if c.has(linuxName(i)) {
			p.add(linuxNode(l, p, bin, i), l, bin.linuxhost())
		}
	}
	return p, nil
}

// add makes a host a part of the plan.
func (p *Plan) add(n Node, l Layout, program string) {
	p.Nodes = append(p.Nodes, n)
	p.Directories = append(p.Directories, n.Dir)
	p.Programs = append(p.Programs, Program{
		Name:  n.Name,
		Needs: []string{FabricName},
		Uses:  []string{ServerName},
		Argv:  []string{program, "--config", l.nodeConfig(n.Name)},
	})
}

func describeServer(l Layout, c Config) config.Config {
	n := c.Network()
	var lb config.LoadBalancer
	if pools, err := c.Pools(); err == nil && len(pools) > 0 {
		lb.Pool, lb.IPv6Pool = byFamily(pools)
		lb.Router = fabric.Namespace(l.netns(), c.Name)
	}
	admission := n.admissionPort()
	if c.NoAdmission {
		admission = 0
	}
	var metrics netip.AddrPort
	if !c.NoMetrics {
		metrics = netip.AddrPortFrom(n.machine(), metricsPort)
	}
	return config.Config{
		APIVersion: config.Version, Name: c.Name, DataDir: l.Dir(),
		Addresses: []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), n.machine()}, Port: n.port(),
		NodeCIDR: n.nodes(), PodCIDR: n.pods(), ServiceCIDR: n.services(),
		DNSAddress: netip.AddrPortFrom(n.machine(), dnsPort), DNSServiceIP: n.dns(),
		MetricsAddress: metrics,
		AdmissionPort:  admission, Admission: string(c.Admits()), WindowsTaint: c.WindowsTaint,
		NoStorage: c.NoStorage, Datastore: c.Datastore, NetworkPolicy: !c.NoNetworkPolicy,
		LoadBalancer: lb, IPv6: c.ipv6(),
	}.Default()
}

// dnsPort is the port of the cluster's DNS server, at Network.Machine.
const dnsPort = 53

func fabricConfig(l Layout, c Config) fabric.Config {
	n := c.Network()
	pools, _ := c.Pools() // validated with the rest of the Config
	pool, pool6 := byFamily(pools)
	return fabric.Config{
		Name:       c.Name,
		Index:      c.Index,
		Dir:        l.netns(),
		NodeNet:    n.nodes(),
		PodNet:     n.pods(),
		ServiceNet: n.services(),
		IPv6:       c.ipv6(),
		Pool:       pool,
		Pool6:      pool6,
		Serves: []fabric.Port{
			{Protocol: "tcp", Number: n.port()},
			{Protocol: "tcp", Number: dnsPort},
			{Protocol: "udp", Number: dnsPort},
		},
	}
}

// hostConfig returns the settings of a host that both systems have.
func hostConfig(l Layout, p Plan, bin Binaries, name string, address netip.Addr) host.Config {
	c := host.Config{
		Cluster:     p.Config.Name,
		Name:        name,
		Address:     netip.PrefixFrom(address, p.Network.nodes().Bits()),
		Gateway:     p.Network.router(),
		Nameserver:  p.Network.machine(),
		Server:      p.Network.APIServer(),
		Domain:      domain,
		DNS:         p.Network.dns(),
		PodCIDR:     p.Network.pods(),
		ServiceCIDR: p.Network.services(),
		Network:     p.Config.Mode(),
		CAFile:      p.Server.ClusterCA(),
		TokenFile:   l.token(name),
		Dir:         l.Node(name),
		Bin:         string(bin),
		Fabric:      p.Fabric.Namespace,
		Status:      l.nodeStatus(name),
		Limits:      p.Config.size(name).limits(),
		Hosts:       len(p.Config.Hosts()),
		Disk:        p.Config.size(name).diskBytes(),

		EnforcePolicies: !p.Config.NoNetworkPolicy,
	}
	if p.Config.dual() {
		c.IPv6, c.IPv6Address = p.Config.ipv6(), p.Network.ipv6Of(address)
	}
	return c
}

func windowsNode(l Layout, p Plan, bin Binaries, i int, b winver.Build) Node {
	c := winhost.Config{
		Config:   hostConfig(l, p, bin, nodeName(i), p.Network.node(i)),
		Build:    b.OSVersion(),
		Cache:    l.cache(),
		FirstUID: p.Network.firstUID(i),
		NoLimits: p.Config.NoWindowsLimits,
	}
	if p.Config.WindowsTaint != "" {
		c.Taints = []string{p.Config.WindowsTaint}
	}
	if p.Config.NoDSR {
		c.DSR = new(false)
	}
	return Node{Config: c.Config, Title: b.String(), Document: c}
}

func linuxNode(l Layout, p Plan, bin Binaries, i int) Node {
	c := linuxhost.Config{
		Config:     hostConfig(l, p, bin, linuxName(i), p.Network.linux(i)),
		PodGateway: p.Config.Mode() == agent.VXLAN,
	}
	return Node{Config: c.Config, Title: linuxhost.Product, Document: c}
}

// domain is the DNS domain of all clusters.
const domain = "cluster.local"

// Rows lists the rows that `mullion up` shows.
func (p Plan) Rows() []Row {
	rows := []Row{{Name: ServerName, Title: "control plane", Done: fmt.Sprintf("Kubernetes %s", version.Kubernetes)}}
	for _, n := range p.Nodes {
		row := Row{Name: n.Name, Title: n.Name, Done: n.Title}
		if _, windows := n.Document.(winhost.Config); windows {
			row.Note = "  (emulated)"
		}
		rows = append(rows, row)
	}
	return rows
}

// WriteTo prints the plan for `mullion up --dry-run`.
func (p Plan) WriteTo(w io.Writer) (int64, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "# cluster %s\n\n## directories (0700)\n", p.Config.Name)
	for _, d := range p.Directories {
		fmt.Fprintln(&b, d)
	}
	n := p.Network
	pools, err := p.Config.Pools()
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(&b, "\n## network\n%sservices %s, DNS %s\npods of other nodes: %s\nload balancer pool %s\n",
		p.Fabric.String(), n.services(), n.dns(), p.Config.Mode().Explain(), PoolName(pools))
	for _, node := range p.Nodes {
		fmt.Fprintf(&b, "%-14s %s\n", node.Name, node.Address)
	}
	if p.Config.dual() {
		s := n.ipv6()
		fmt.Fprintf(&b, "in IPv6: hosts %s, pods %s, services %s\n", s.NodeCIDR, s.PodCIDR, s.ServiceCIDR)
	}
	fmt.Fprintf(&b, "\n## programs, in order\n%s\n", FabricName)
	for _, prog := range p.Programs {
		fmt.Fprintf(&b, "%s (after %s", prog.Name, strings.Join(prog.Needs, ", "))
		if len(prog.Uses) > 0 {
			fmt.Fprintf(&b, "; uses %s", strings.Join(prog.Uses, ", "))
		}
		fmt.Fprintf(&b, ")\n  %s\n", strings.Join(prog.Argv, " "))
	}
	server, err := plan.New(p.Server, plan.Machine{})
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(&b, "\n## control plane\n%s", server)
	for _, node := range p.Nodes {
		if err := section(&b, node.Name, node.Document); err != nil {
			return 0, err
		}
	}
	written, err := io.WriteString(w, b.String())
	return int64(written), err
}

func section(b *strings.Builder, title string, document any) error {
	content, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return fmt.Errorf("print plan: %w", err)
	}
	fmt.Fprintf(b, "\n## %s\n%s\n", title, content)
	return nil
}
