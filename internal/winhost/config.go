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
	"github.com/mullion-k8s/mullion/internal/cri/server"
	"github.com/mullion-k8s/mullion/internal/hns/wire"
	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// Config configures one emulated host.
type Config struct {
	host.Config
	// Build in a spelling that winver.Parse accepts, e.g. "10.0.17763".
	Build string `json:"build"`
	// Taints with which the node registers, see agent.Node.
	Taints []string `json:"taints,omitempty"`
	// DSR is direct server return, see agent.Network.
	DSR *bool `json:"dsr,omitempty"`
	// Cache is the shared cache of Wine templates and stand-in images.
	Cache string `json:"cache"`
	// FirstUID is the first of IDsPerHost user IDs for the host's pods. No other host on the
	// machine may have them.
	FirstUID uint32 `json:"firstUID"`
	// NoLimits leaves out limits of Windows that only hinder; see --windows-limits of
	// `mullion up`.
	NoLimits bool `json:"noLimits,omitempty"`

	// Agent has the settings of the node in documents of earlier versions. Complete moves
	// them to their fields.
	Agent *agent.Config `json:"agent,omitempty"`
}

// The host's own servers, on its loopback. The clients are Windows programs that
// find the CRI by configuration and have the address of HNS built in (the DLLs of
// native/).
const (
	hnsAddress = wire.DefaultAddress
	criAddress = "127.0.0.1:10271"
	// The agent finds it by configuration.
	volumesAddress = "127.0.0.1:10273"
)

// Files of the agent on the host.
const (
	caFile    = agent.StateDir + `\ca.crt`
	tokenFile = agent.StateDir + `\bootstrap-token`
)

// agentConfig returns the agent.json that an administrator of a real server would
// write for the node. It names files that the host writes when it boots. caHash is the hash of the cluster's CA.
func (c Config) agentConfig(caHash string) agent.Config {
	return agent.Config{
		APIVersion: agent.Version,
		Node: agent.Node{
			Name: c.Name, Address: c.Address.Addr(), IPv6Address: c.IPv6Address.Addr(), Taints: c.Taints,
		},
		Cluster: agent.Cluster{
			Server: c.Server, CAFile: caFile, CAHash: caHash, TokenFile: tokenFile,
			Domain: c.Domain, DNS: []netip.Addr{c.DNS},
			PodCIDR: c.PodCIDR, ServiceCIDR: c.ServiceCIDR, NodeCIDRs: []netip.Prefix{c.Address.Masked()},
			IPv6: c.IPv6,
		},
		Runtime: agent.Runtime{Endpoint: "tcp://" + criAddress},
		Volumes: agent.Volumes{Endpoint: "tcp://" + volumesAddress},
		Network: agent.Network{Mode: c.Network, EnforcePolicies: c.EnforcePolicies, DSR: c.DSR},
	}
}

// IDsPerHost is how many user IDs, from Config.FirstUID on, the pods of a host need.
const IDsPerHost = server.IDsPerHost

// validNode is a DNS label that is also a NetBIOS computer name: 15 characters.
var validNode = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?$`)

// Load reads a Config.
func Load(path string) (Config, error) { return host.Load(path, (*Config).complete) }

// complete moves settings of documents of earlier versions to their fields, and checks the result.
func (c *Config) complete() error {
	c.MoveIPv6()
	if a := c.Agent; a != nil && len(a.Cluster.NodeCIDRs) == 1 && len(a.Cluster.DNS) == 1 {
		n := a.Cluster
		c.Name, c.Address = a.Node.Name, netip.PrefixFrom(a.Node.Address, n.NodeCIDRs[0].Bits())
		c.Server, c.Domain, c.DNS = n.Server, n.Domain, n.DNS[0]
		c.PodCIDR, c.ServiceCIDR = n.PodCIDR, n.ServiceCIDR
		c.Network, c.EnforcePolicies = a.Network.Mode, a.Network.EnforcePolicies
		c.Taints, c.DSR, c.Agent = a.Node.Taints, a.Network.DSR, nil
	}
	return c.Validate()
}

// Validate checks a Config; all faults are reported together.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate()}
	want := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	want(validNode.MatchString(c.Name), "name %q: want 1 to 15 lower-case letters, digits and '-'", c.Name)
	_, err := winver.Parse(c.Build)
	want(err == nil, "%w", err)
	if errs[0] == nil {
		err := c.agentConfig("sha256:" + strings.Repeat("0", 64)).Validate() // CAFile is read later
		want(err == nil, "agent: %w", err)
	}
	want(c.Agent == nil, "agent: want nodeCIDRs and dns, one of each")
	want(filepath.IsAbs(c.Cache), "cache %q is not an absolute path", c.Cache)
	want(c.FirstUID > 1<<16 && c.FirstUID < 1<<31-IDsPerHost && c.FirstUID%server.IDsPerPod == 0,
		"firstUID %d: want a multiple of 32 above 65536 and below 2147467264", c.FirstUID)
	return errors.Join(errs...)
}
