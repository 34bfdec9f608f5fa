// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/cgroup"
	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/host"
)

// Config configures one Linux worker. It is a JSON document (`mullion-linuxhost
// --config FILE`), which is read strictly. The supervisor writes it again before
// each start of the host.
type Config struct {
	// Cluster is the cluster's name, with which the host's cgroup begins.
	Cluster string `json:"cluster"`
	// Name of the node, and the host's own.
	Name string `json:"name"`

	// Address of the host's adapter, with the prefix length of the network between
	// the hosts; Gateway and Nameserver lie in that network.
	Address    netip.Prefix `json:"address"`
	Gateway    netip.Addr   `json:"gateway"`
	Nameserver netip.Addr   `json:"nameserver"`

	// Server is the API server's URL, Domain and DNS the cluster's.
	Server string     `json:"server"`
	Domain string     `json:"domain"`
	DNS    netip.Addr `json:"dns"`
	// PodCIDR is the range of all pods of the cluster, ServiceCIDR that of services.
	PodCIDR     netip.Prefix `json:"podCIDR"`
	ServiceCIDR netip.Prefix `json:"serviceCIDR"`

	// Second describes the host in IPv6, if the cluster has two address families.
	Second host.Second `json:"second,omitzero"`

	// Network says how pods of other nodes are reached; "" is the default.
	Network agent.NetworkMode `json:"network,omitempty"`
	// PodGateway makes the worker a way of the machine, on which the API server runs, into
	// an overlay: its packets for pods of all nodes come to the first one that runs.
	PodGateway bool `json:"podGateway,omitempty"`

	// CAFile holds the cluster's CA certificate (PEM), on the machine.
	CAFile string `json:"caFile"`
	// TokenFile holds a bootstrap token, on the machine. It is needed until the node
	// has joined.
	TokenFile string `json:"tokenFile,omitempty"`

	// Dir is the host's own directory: images, containers, logs.
	Dir string `json:"dir"`
	// Bin holds what `make build` made; the host's programs are in linux/.
	Bin string `json:"bin"`
	// Fabric is the file of the network namespace with the switch between the hosts.
	Fabric string `json:"fabric"`
	// Status is where the host's status is written at each change.
	Status string `json:"status"`

	// EnforcePolicies makes the host enforce NetworkPolicies on its pods.
	EnforcePolicies bool `json:"enforcePolicies,omitempty"`

	// Limits of everything on the host together; MemoryBytes and MilliCPU are also the size
	// that its programs see. Zero means none, or a share of the machine's memory.
	Limits cgroup.Limits `json:"limits,omitzero"`
	// Hosts is how many hosts share the machine's memory.
	Hosts int `json:"hosts,omitempty"`
}

// validName follows Kubernetes' DNS labels: the name is also the host's.
var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// dual reports whether the cluster has two address families.
func (c Config) dual() bool { return c.Second != (host.Second{}) }

// machine returns the machine's address in the network between the hosts, or the
// invalid address if the server is named otherwise.
func (c Config) machine() netip.Addr {
	u, err := url.Parse(c.Server)
	if err != nil {
		return netip.Addr{}
	}
	a, _ := netip.ParseAddr(u.Hostname()) // the invalid address for a name
	return a
}

// Load reads a Config.
func Load(path string) (Config, error) {
	c, err := durable.ReadDocument(path, (*Config).Validate)
	if err != nil {
		return c, fmt.Errorf("load linuxhost configuration: %w", err)
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
	want(validName.MatchString(c.Name), "name %q: want 1 to 63 lower-case letters, digits and '-'", c.Name)
	want(c.Address.IsValid() && c.Address.Addr().Is4() && c.Address != c.Address.Masked(),
		"address %s is not an IPv4 address with the length of its network", c.Address)
	want(c.Address.Masked().Contains(c.Gateway), "gateway %s does not lie in %s", c.Gateway, c.Address.Masked())
	want(c.Nameserver.IsValid(), "nameserver is missing")
	u, err := url.Parse(c.Server)
	want(err == nil && u.Scheme == "https" && u.Host != "", "server %q is not an https URL", c.Server)
	_, err = agent.ParseNetworkMode(string(c.Network))
	want(err == nil, "%v", err)
	want(!c.PodGateway || c.Network == agent.VXLAN, "podGateway is for the network %s", agent.VXLAN)
	want(!c.PodGateway || c.machine().IsValid(), "server %q: podGateway needs the machine's address there", c.Server)
	want(c.Domain != "", "domain is missing")
	want(c.DNS.IsValid(), "dns is missing")
	want(c.PodCIDR.IsValid() && c.PodCIDR.Addr().Is4() && c.PodCIDR.Bits() <= 30,
		"podCIDR is missing, not of IPv4, or too small")
	want(c.ServiceCIDR.IsValid() && c.ServiceCIDR.Addr().Is4(), "serviceCIDR is missing, or not of IPv4")
	if err := c.Second.Validate(); err != nil {
		errs = append(errs, err)
	}
	want(!c.dual() || !c.Network.Flannel(), "network %s: flanneld makes networks of one address family here", c.Network)
	for _, p := range []struct{ name, path string }{
		{"caFile", c.CAFile}, {"dir", c.Dir}, {"bin", c.Bin}, {"fabric", c.Fabric}, {"status", c.Status},
	} {
		want(filepath.IsAbs(p.path), "%s %q is not an absolute path", p.name, p.path)
	}
	want(c.Limits.MemoryBytes >= 0 && c.Limits.MilliCPU >= 0 && c.Limits.Processes >= 0, "limits are negative")
	return errors.Join(errs...)
}
