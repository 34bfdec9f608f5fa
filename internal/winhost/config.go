// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"

	"github.com/mullion-k8s/mullion/internal/cgroup"
	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// Config configures one emulated host. It is a JSON document
// (`mullion-winhost --config FILE`), which is read strictly.
type Config struct {
	// Cluster is the cluster's name; with Name it names the host's cgroup.
	Cluster string `json:"cluster"`
	// Name is the node's name and the host's computer name.
	Name string `json:"name"`
	// Build in a spelling that winver.Parse knows, e.g. "10.0.17763".
	Build string `json:"build"`

	// Address of the host's adapter with the prefix length of the network
	// between the hosts.
	Address netip.Prefix `json:"address"`
	Gateway netip.Addr   `json:"gateway"`
	// Nameserver answers the host's own DNS queries.
	Nameserver netip.Addr `json:"nameserver"`

	// APIServer is the URL of the cluster.
	APIServer string `json:"apiServer"`
	// CAFile holds the cluster's CA certificate (PEM).
	CAFile string `json:"caFile"`
	// CAHash pins it: "sha256:<hex>" of its public key. Empty: of CAFile.
	CAHash string `json:"caHash,omitempty"`
	// TokenFile holds a bootstrap token. It is needed until the node has joined.
	TokenFile string `json:"tokenFile,omitempty"`

	ClusterDomain string       `json:"clusterDomain"`
	ClusterDNS    netip.Addr   `json:"clusterDNS"`
	PodCIDR       netip.Prefix `json:"podCIDR"` // of the whole cluster
	ServiceCIDR   netip.Prefix `json:"serviceCIDR"`
	// Taints that the node registers with, in kubectl's notation.
	Taints []string `json:"taints,omitempty"`

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

	// Limits of everything on the host together. Zero means none.
	Limits cgroup.Limits `json:"limits,omitzero"`
}

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
	want(validNode.MatchString(c.Name), "name %q: want 1 to 15 lower-case letters, digits and '-'", c.Name)
	if _, err := winver.Parse(c.Build); err != nil {
		errs = append(errs, err)
	}
	want(c.Address.IsValid() && c.Address.Addr().Is4(), "address is not an IPv4 prefix")
	want(c.Gateway.IsValid() && c.Address.Contains(c.Gateway), "gateway %s does not lie in %s", c.Gateway, c.Address)
	want(c.Nameserver.IsValid(), "nameserver is missing")
	want(c.APIServer != "", "apiServer is missing")
	want(c.ClusterDomain != "", "clusterDomain is missing")
	want(c.ClusterDNS.IsValid(), "clusterDNS is missing")
	want(c.PodCIDR.IsValid(), "podCIDR is missing")
	want(c.ServiceCIDR.IsValid(), "serviceCIDR is missing")
	for _, p := range []struct{ name, path string }{
		{"caFile", c.CAFile}, {"dir", c.Dir}, {"cache", c.Cache}, {"bin", c.Bin}, {"fabric", c.Fabric},
		{"status", c.Status},
	} {
		want(filepath.IsAbs(p.path), "%s %q is not an absolute path", p.name, p.path)
	}
	want(c.Limits.MemoryBytes >= 0 && c.Limits.MilliCPU >= 0 && c.Limits.Processes >= 0, "limits are negative")
	return errors.Join(errs...)
}
