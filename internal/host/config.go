// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/cgroup"
	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
	"github.com/mullion-k8s/mullion/internal/durable"
)

// Config has the settings that hosts of all operating systems have. winhost.Config and linuxhost.Config embed it. They
// are JSON documents (`mullion-winhost --config FILE`), which are read strictly. The supervisor writes them again
// before each start of the host.
type Config struct {
	// Cluster is the cluster's name, Name the node's and the host's own. Together they name
	// the host's cgroup.
	Cluster string `json:"cluster"`
	Name    string `json:"name"`

	// Address of the host's adapter, with the prefix length of the network between
	// the hosts; Gateway and Nameserver lie in that network. The host's own DNS queries go
	// to Nameserver.
	Address    netip.Prefix `json:"address"`
	Gateway    netip.Addr   `json:"gateway"`
	Nameserver netip.Addr   `json:"nameserver"`

	// Server is the API server's URL, Domain and DNS the cluster's.
	Server string     `json:"server"`
	Domain string     `json:"domain"`
	DNS    netip.Addr `json:"dns"`
	// PodCIDR is the range of all pods of the cluster, ServiceCIDR the range of
	// services.
	PodCIDR     netip.Prefix `json:"podCIDR"`
	ServiceCIDR netip.Prefix `json:"serviceCIDR"`
	// IPv6 has the same in IPv6, if the cluster has two address families, and IPv6Address is
	// the address of the host's adapter. Second is the former name of both.
	IPv6        ipv6.Plan    `json:"ipv6,omitzero"`
	IPv6Address netip.Prefix `json:"ipv6Address,omitzero"`
	Second      ipv6.Former  `json:"second,omitzero"`

	// Network is the way to pods of other nodes; "" is the default.
	Network agent.NetworkMode `json:"network,omitempty"`
	// EnforcePolicies makes the node enforce NetworkPolicies on its pods.
	EnforcePolicies bool `json:"enforcePolicies,omitempty"`

	// CAFile holds the cluster's CA certificate (PEM), on the machine.
	CAFile string `json:"caFile"`
	// TokenFile holds a bootstrap token, on the machine. It is needed until the node
	// has joined.
	TokenFile string `json:"tokenFile,omitempty"`

	// Dir is the host's own directory: disk, state, logs.
	Dir string `json:"dir"`
	// Bin holds the output of `make build`; the host's programs are below it.
	Bin string `json:"bin"`
	// Fabric is the file of the network namespace with the switch between the hosts.
	Fabric string `json:"fabric"`
	// Status is where the host's Status is written at each change.
	Status string `json:"status"`

	// Limits of everything on the host together; MemoryBytes and MilliCPU are also the size
	// that its programs see. Zero leaves the size to CeilingsOf, and otherwise means no limit.
	Limits cgroup.Limits `json:"limits,omitzero"`
	// Hosts is how many hosts share the machine's memory and disk.
	Hosts int `json:"hosts,omitempty"`
	// Disk is the size of the host's disk, in bytes; 0 means the size of the existing disk, or
	// else a share of the machine's.
	Disk int64 `json:"disk,omitempty"`
}

// validName follows Kubernetes' DNS labels: the name is also the host's.
var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Load reads a host's configuration; complete fills in defaults and checks it.
func Load[C any](path string, complete func(*C) error) (C, error) {
	c, err := durable.ReadDocument(path, complete)
	if err != nil {
		return c, fmt.Errorf("load host configuration: %w", err)
	}
	return c, nil
}

// MoveIPv6 moves settings from the name that they had in earlier versions.
func (c *Config) MoveIPv6() {
	if s := c.Second; !s.IsZero() {
		c.IPv6, c.IPv6Address, c.Second = s.Plan, s.Address, ipv6.Former{}
		c.IPv6.NodeCIDR = c.IPv6Address.Masked()
	}
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
	want(validName.MatchString(c.Name), "name %q: want 1 to 63 lower-case letters, digits and '-'", c.Name)
	want(c.Address.IsValid() && c.Address.Addr().Is4() && c.Address != c.Address.Masked(),
		"address %s is not an IPv4 address with the length of its network", c.Address)
	want(c.Address.Masked().Contains(c.Gateway), "gateway %s does not lie in %s", c.Gateway, c.Address.Masked())
	want(c.Nameserver.IsValid(), "nameserver is missing")
	u, err := url.Parse(c.Server)
	want(err == nil && u.Scheme == "https" && u.Host != "", "server %q is not an https URL", c.Server)
	_, err = agent.ParseNetworkMode(string(c.Network))
	want(err == nil, "%v", err)
	want(c.Domain != "", "domain is missing")
	want(c.DNS.IsValid(), "dns is missing")
	want(c.PodCIDR.IsValid() && c.PodCIDR.Addr().Is4() && c.PodCIDR.Bits() <= 30,
		"podCIDR is missing, not of IPv4, or too small")
	want(c.ServiceCIDR.IsValid() && c.ServiceCIDR.Addr().Is4(), "serviceCIDR is missing, or not of IPv4")
	err = c.IPv6.Validate()
	want(err == nil, "%w", err)
	want(c.IPv6Address.Masked() == c.IPv6.NodeCIDR && (c.IPv6.IsZero() || c.IPv6Address != c.IPv6.NodeCIDR),
		"ipv6Address %s is not an address of ipv6.nodeCIDR %s with its length", c.IPv6Address, c.IPv6.NodeCIDR)
	want(c.IPv6.IsZero() || !c.Network.Flannel(), "network %s: flanneld makes networks of one address family "+
		"here", c.Network)
	for _, p := range []struct{ name, path string }{
		{"caFile", c.CAFile}, {"dir", c.Dir}, {"bin", c.Bin}, {"fabric", c.Fabric}, {"status", c.Status},
	} {
		want(filepath.IsAbs(p.path), "%s %q is not an absolute path", p.name, p.path)
	}
	want(c.Limits.MemoryBytes >= 0 && c.Limits.MilliCPU >= 0 && c.Limits.Processes >= 0, "limits are negative")
	want(c.Disk == 0 || c.Disk >= leastDisk, "disk %d: want 1 GiB or more", c.Disk)
	return errors.Join(errs...)
}
