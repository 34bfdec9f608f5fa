// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/cgroup"
	"github.com/mullion-k8s/mullion/internal/cri/server"
	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/hns/wire"
	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// Config configures one emulated host. It is a JSON document
// (`mullion-winhost --config FILE`), which is read strictly. The supervisor writes
// it again before each start of the host.
type Config struct {
	// Cluster is the cluster's name; with the node's it names the host's cgroup.
	Cluster string `json:"cluster"`
	// Build in a spelling that winver.Parse knows, e.g. "10.0.17763".
	Build string `json:"build"`
	// Agent is the host's agent.json; see AgentConfig. All that is known about the
	// node and its cluster is here. The first of NodeCIDRs is the network between
	// the hosts. Without a CAHash, that of CAFile is meant.
	Agent agent.Config `json:"agent"`

	// Gateway of the network between the hosts.
	Gateway netip.Addr `json:"gateway"`
	// Second describes the host in IPv6, if the cluster has two address families.
	Second host.Second `json:"second,omitzero"`
	// Nameserver answers the host's own DNS queries.
	Nameserver netip.Addr `json:"nameserver"`

	// CAFile holds the cluster's CA certificate (PEM), on the machine.
	CAFile string `json:"caFile"`
	// TokenFile holds a bootstrap token, on the machine. It is needed until the node
	// has joined.
	TokenFile string `json:"tokenFile,omitempty"`

	// Dir is the host's own directory: prefix, containers, HNS state, logs.
	Dir string `json:"dir"`
	// Cache is the shared cache of Wine templates and stand-in images.
	Cache string `json:"cache"`
	// Bin holds mullion-winhost, windows/*.exe and native/*.dll.
	Bin string `json:"bin"`
	// Fabric is the file of the network namespace with the switch between the
	// hosts.
	Fabric string `json:"fabric"`
	// Status is where the host's Status is written at each change.
	Status string `json:"status"`

	// FirstUID is the first of IDsPerHost user IDs for the host's pods. No other host on the
	// machine may have them.
	FirstUID uint32 `json:"firstUID"`

	// NoLimits leaves out limits of Windows that only hinder; see --windows-limits of
	// `mullion up`.
	NoLimits bool `json:"noLimits,omitempty"`

	// Limits of everything on the host together; MemoryBytes and MilliCPU are also the size
	// that its programs see. Zero means none, or a share of the machine's memory.
	Limits cgroup.Limits `json:"limits,omitzero"`
	// Hosts is how many hosts share the machine's memory.
	Hosts int `json:"hosts,omitempty"`
}

// The host's own servers, on its loopback. The clients are Windows programs that
// find the CRI by configuration and know the address of HNS (the DLLs of native/).
const (
	hnsAddress = wire.DefaultAddress
	criAddress = "127.0.0.1:10271"
)

// Files of the agent on the host.
const (
	caFile    = agent.StateDir + `\ca.crt`
	tokenFile = agent.StateDir + `\bootstrap-token`
)

// AgentConfig returns the agent.json that an administrator of a real server would
// write for the node. It names files that the host writes when it boots.
func AgentConfig(n agent.Node, c agent.Cluster, network agent.Network) agent.Config {
	c.CAFile, c.TokenFile = caFile, tokenFile
	return agent.Config{
		APIVersion: agent.Version,
		Node:       n,
		Cluster:    c,
		Runtime:    agent.Runtime{Endpoint: "tcp://" + criAddress},
		Network:    network,
		Kubelet:    sharedDisk(),
	}
}

// sharedDisk keeps the kubelet from evicting pods and removing images because
// other users fill the disk. The kubelet's defaults want 10 to 15 % of the disk
// to be free, and large disks in ordinary use often have less. kind turns the
// limits off (pkg/cluster/internal/kubeadm/config.go: "kubelet will see the host
// disk"); here the last gigabyte is reserved, which the machine itself needs.
func sharedDisk() agent.Kubelet {
	return agent.Kubelet{
		EvictionHard:                map[string]string{"nodefs.available": "1Gi", "imagefs.available": "1Gi"},
		ImageGCHighThresholdPercent: 100,
	}
}

// Name returns the node's name, which is also the host's computer name.
func (c Config) Name() string { return c.Agent.Node.Name }

// network returns the network between the hosts.
func (c Config) network() netip.Prefix { return c.Agent.Cluster.NodeCIDRs[0] }

// Address returns the address of the host's adapter with the prefix length of the
// network between the hosts.
func (c Config) Address() netip.Prefix {
	return netip.PrefixFrom(c.Agent.Node.Address, c.network().Bits())
}

// IDsPerHost is how many user IDs, from Config.FirstUID on, the pods of a host need.
const IDsPerHost = server.IDsPerHost

// validNode is a DNS label that is also a NetBIOS computer name: 15 characters.
var validNode = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?$`)

// Load reads a Config.
func Load(path string) (Config, error) {
	c, err := durable.ReadDocument(path, (*Config).Validate)
	if err != nil {
		return c, fmt.Errorf("load winhost configuration: %w", err)
	}
	return c, nil
}

// Validate checks a Config; all faults are reported together.
func (c Config) Validate() error {
	var errs []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	want(c.Cluster != "", "cluster is missing")
	want(validNode.MatchString(c.Name()), "name %q: want 1 to 15 lower-case letters, digits and '-'", c.Name())
	if _, err := winver.Parse(c.Build); err != nil {
		errs = append(errs, err)
	}
	node := c.Agent
	if node.Cluster.CAHash == "" {
		node.Cluster.CAHash = "sha256:" + strings.Repeat("0", 64) // CAFile is read later
	}
	if err := node.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("agent: %w", err))
	}
	want(node.Node.Address.Is4(), "agent.node.address %s is not an IPv4 address", node.Node.Address)
	if len(node.Cluster.NodeCIDRs) == 0 {
		errs = append(errs, errors.New("agent.cluster.nodeCIDRs is missing"))
	} else {
		want(c.network().Contains(node.Node.Address),
			"agent.node.address %s does not lie in %s", node.Node.Address, c.network())
		want(c.network().Contains(c.Gateway), "gateway %s does not lie in %s", c.Gateway, c.network())
	}
	if err := c.Second.Validate(); err != nil {
		errs = append(errs, err)
	}
	want(c.Second.Address.Addr() == node.Node.SecondAddress, "second.address %s is not agent.node.secondAddress %s",
		c.Second.Address, node.Node.SecondAddress)
	want(c.Nameserver.IsValid(), "nameserver is missing")
	for _, p := range []struct{ name, path string }{
		{"caFile", c.CAFile}, {"dir", c.Dir}, {"cache", c.Cache}, {"bin", c.Bin}, {"fabric", c.Fabric},
		{"status", c.Status},
	} {
		want(filepath.IsAbs(p.path), "%s %q is not an absolute path", p.name, p.path)
	}
	want(c.FirstUID > 1<<16 && c.FirstUID < 1<<31-IDsPerHost && c.FirstUID%server.IDsPerPod == 0,
		"firstUID %d: want a multiple of 32 above 65536 and below 2147467264", c.FirstUID)
	want(c.Limits.MemoryBytes >= 0 && c.Limits.MilliCPU >= 0 && c.Limits.Processes >= 0, "limits are negative")
	return errors.Join(errs...)
}
