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
	Name string
	// Title is the system in words.
	Title   string
	Address netip.Prefix
	Dir     string
	Status  string // file that the host writes
	// The host's program reads Document, a winhost.Config or a linuxhost.Config. It needs
	// the cluster's CAFile, and a TokenFile.
	Document          any
	CAFile, TokenFile string
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
		lb.Pool, lb.Second = byFamily(pools)
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
	var second config.Second
	if c.dual() {
		s := n.second()
		second = config.Second{NodeCIDR: s.NodeNet, PodCIDR: s.PodNet, ServiceCIDR: s.ServiceNet}
	}
	return config.Config{
		APIVersion: config.Version, Name: c.Name, DataDir: l.Dir(),
		Addresses: []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), n.machine()}, Port: n.port(),
		NodeCIDR: n.nodes(), PodCIDR: n.pods(), ServiceCIDR: n.services(),
		DNSAddress: netip.AddrPortFrom(n.machine(), dnsPort), DNSServiceIP: n.dns(),
		MetricsAddress: metrics,
		AdmissionPort:  admission, Admission: string(c.Admits()), WindowsTaint: c.WindowsTaint,
		NoStorage: c.NoStorage, Datastore: c.Datastore, NetworkPolicy: !c.NoNetworkPolicy,
		LoadBalancer: lb, Second: second,
	}.Default()
}

// dnsPort is that of the cluster's DNS server, at Network.Machine.
const dnsPort = 53

func fabricConfig(l Layout, c Config) fabric.Config {
	n := c.Network()
	pools, _ := c.Pools() // validated with the rest of the Config
	first, pool6 := byFamily(pools)
	var second fabric.Second
	if c.dual() {
		second = n.second()
		second.Pool = pool6
	}
	return fabric.Config{
		Name:       c.Name,
		Index:      c.Index,
		Dir:        l.netns(),
		NodeNet:    n.nodes(),
		PodNet:     n.pods(),
		ServiceNet: n.services(),
		Second:     second,
		Pool:       first,
		Serves: []fabric.Port{
			{Protocol: "tcp", Number: n.port()},
			{Protocol: "tcp", Number: dnsPort},
			{Protocol: "udp", Number: dnsPort},
		},
	}
}

func windowsNode(l Layout, p Plan, bin Binaries, i int, b winver.Build) Node {
	n, name := p.Network, nodeName(i)
	var taints []string
	if p.Config.WindowsTaint != "" {
		taints = []string{p.Config.WindowsTaint}
	}
	node := agent.Node{Name: name, Address: n.node(i), Taints: taints}
	var secondHost host.Second
	var second agent.Second
	if p.Config.dual() {
		secondHost = n.secondOf(node.Address)
		node.SecondAddress = secondHost.Address.Addr()
		second = agent.Second{PodCIDR: secondHost.PodCIDR, ServiceCIDR: secondHost.ServiceCIDR,
			NodeCIDR: secondHost.Address.Masked()}
	}
	c := winhost.Config{
		Cluster: p.Config.Name,
		Build:   b.OSVersion(),
		Agent: winhost.AgentConfig(node, agent.Cluster{
			Server:      n.APIServer(),
			Domain:      domain,
			DNS:         []netip.Addr{n.dns()},
			PodCIDR:     n.pods(),
			ServiceCIDR: n.services(),
			NodeCIDRs:   []netip.Prefix{n.nodes()},
			Second:      second,
		}, p.Config.agentNetwork()),
		Gateway:    n.router(),
		Second:     secondHost,
		Nameserver: n.machine(),
		CAFile:     p.Server.ClusterCA(),
		TokenFile:  l.token(name),
		Dir:        l.Node(name),
		Cache:      l.cache(),
		Bin:        string(bin),
		Fabric:     p.Fabric.Namespace,
		Status:     l.nodeStatus(name),
		FirstUID:   n.firstUID(i),
		Limits:     p.Config.size(name).limits(),
		Hosts:      len(p.Config.Hosts()),
		NoLimits:   p.Config.NoWindowsLimits,
	}
	return Node{
		Name:      name,
		Title:     b.String(),
		Address:   c.Address(),
		Dir:       c.Dir,
		Status:    c.Status,
		Document:  c,
		CAFile:    c.CAFile,
		TokenFile: c.TokenFile,
	}
}

func linuxNode(l Layout, p Plan, bin Binaries, i int) Node {
	n, name := p.Network, linuxName(i)
	c := linuxhost.Config{
		Cluster:     p.Config.Name,
		Name:        name,
		Address:     netip.PrefixFrom(n.linux(i), n.nodes().Bits()),
		Gateway:     n.router(),
		Nameserver:  n.machine(),
		Server:      n.APIServer(),
		Domain:      domain,
		DNS:         n.dns(),
		PodCIDR:     n.pods(),
		ServiceCIDR: n.services(),
		Network:     p.Config.Mode(),
		PodGateway:  p.Config.Mode() == agent.VXLAN,
		CAFile:      p.Server.ClusterCA(),
		TokenFile:   l.token(name),
		Dir:         l.Node(name),
		Bin:         string(bin),
		Fabric:      p.Fabric.Namespace,
		Status:      l.nodeStatus(name),
		Limits:      p.Config.size(name).limits(),
		Hosts:       len(p.Config.Hosts()),

		EnforcePolicies: !p.Config.NoNetworkPolicy,
	}
	if p.Config.dual() {
		c.Second = n.secondOf(c.Address.Addr())
	}
	return Node{
		Name:      name,
		Title:     linuxhost.Product,
		Address:   c.Address,
		Dir:       c.Dir,
		Status:    c.Status,
		Document:  c,
		CAFile:    c.CAFile,
		TokenFile: c.TokenFile,
	}
}

// agentNetwork returns what the agents of the Windows hosts are told about the pods' network.
func (c Config) agentNetwork() agent.Network {
	n := agent.Network{Mode: c.Mode(), EnforcePolicies: !c.NoNetworkPolicy}
	if c.NoDSR {
		n.DSR = new(false)
	}
	return n
}

// domain is that of all clusters.
const domain = "cluster.local"

// Rows lists what `mullion up` shows.
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
		s := n.second()
		fmt.Fprintf(&b, "in IPv6: hosts %s, pods %s, services %s\n", s.NodeNet, s.PodNet, s.ServiceNet)
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
