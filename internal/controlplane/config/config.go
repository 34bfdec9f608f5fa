// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package config defines a control plane's configuration document, its file layout
// and the status that it reports. It does not link Kubernetes, so that the
// supervisor and the command line can use it.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
	"github.com/mullion-k8s/mullion/internal/durable"
)

// Version of the document; others are refused.
const Version = "mullion/v1alpha1"

// Config describes one control plane. Its JSON form is the file that
// `mullion-kube server --config` reads; unknown fields are refused.
type Config struct {
	APIVersion string `json:"apiVersion"`
	// Name of the cluster. It appears in kubeconfigs and certificates.
	Name string `json:"name"`
	// DataDir is the cluster's directory. One control plane at a time may use it.
	DataDir string `json:"dataDir"`

	// Addresses are the only ones that the API server listens on. Pods and nodes
	// use the first that is not a loopback address.
	Addresses []netip.Addr `json:"addresses"`
	// Port of the API server, the same on each address.
	Port uint16 `json:"port"`
	// ExtraSANs are further names and addresses of the API server's certificate.
	ExtraSANs []string `json:"extraSANs,omitempty"`

	// NodeCIDR is the network of the nodes' own addresses; a node's serving
	// certificate is approved for addresses within it only.
	NodeCIDR netip.Prefix `json:"nodeCIDR"`
	PodCIDR  netip.Prefix `json:"podCIDR"`
	// NodeMaskSize is the prefix length of the part of PodCIDR that each node
	// gets; 0 means 24, as kube-controller-manager has it.
	NodeMaskSize int          `json:"nodeMaskSize,omitempty"`
	ServiceCIDR  netip.Prefix `json:"serviceCIDR"`
	// IPv6 has the same networks in IPv6, if the cluster has two address families.
	IPv6 ipv6.Plan `json:"ipv6,omitzero"`
	// NodeMaskSizeIPv6 is the prefix length of each node's part of IPv6.PodCIDR; 0 means 64,
	// as kube-controller-manager has it.
	NodeMaskSizeIPv6 int `json:"nodeMaskSizeIPv6,omitempty"`
	// Second is the former name of both.
	Second ipv6.Former `json:"second,omitzero"`

	// ClusterDomain is the DNS suffix; "" means cluster.local.
	ClusterDomain string `json:"clusterDomain,omitempty"`
	// DNSAddress is where the cluster's DNS server listens, udp and tcp. The zero value
	// means no DNS server.
	DNSAddress netip.AddrPort `json:"dnsAddress,omitzero"`
	// DNSServiceIP is the cluster IP of Service kube-system/kube-dns; the zero
	// value means the tenth address of ServiceCIDR.
	DNSServiceIP netip.Addr `json:"dnsServiceIP,omitzero"`
	// DNSUpstream are the servers for names outside of the cluster. Null means the
	// machine's servers, an empty list no servers.
	DNSUpstream []netip.AddrPort `json:"dnsUpstream"`

	// MetricsAddress is where the metrics API listens. The zero value means no metrics
	// API.
	MetricsAddress netip.AddrPort `json:"metricsAddress,omitzero"`

	// AdmissionPort is where the admission webhooks listen, on the loopback address that
	// the API server has; 0 means no webhooks and no related controllers.
	AdmissionPort uint16 `json:"admissionPort,omitempty"`
	// Admission is the webhooks' action on findings in namespaces without labels for it:
	// enforce, which is the default, warn or off.
	Admission string `json:"admission,omitempty"`
	// WindowsTaint is put onto every Windows node, in kubectl's notation
	// (os=windows:NoSchedule), or "".
	WindowsTaint string `json:"windowsTaint,omitempty"`
	// NoStorage leaves out the StorageClass mullion-local and its provisioner. Clusters
	// without admission webhooks don't have them either.
	NoStorage bool `json:"noStorage,omitempty"`

	// NetworkPolicy lets nodes read the objects that NetworkPolicies depend on: the
	// policies, and all pods and namespaces.
	NetworkPolicy bool `json:"networkPolicy,omitempty"`

	// LoadBalancer has the addresses for Services of type LoadBalancer; the zero value means no
	// addresses.
	LoadBalancer LoadBalancer `json:"loadBalancer,omitzero"`

	// Datastore is an external etcd.
	Datastore Datastore `json:"datastore,omitzero"`
}

// LoadBalancer is the router in front of the nodes.
type LoadBalancer struct {
	// Pool has the IPv4 addresses, IPv6Pool the IPv6 addresses; one of them may be absent. The
	// machine and the nodes route them to the router. Second is the former name of IPv6Pool.
	Pool     netip.Prefix `json:"pool,omitzero"`
	IPv6Pool netip.Prefix `json:"ipv6Pool,omitzero"`
	Second   netip.Prefix `json:"second,omitzero"`
	// Router is the file of the network namespace that the router is in.
	Router string `json:"router"`
}

// Pools lists the existing pools, IPv4 first.
func (lb LoadBalancer) Pools() []netip.Prefix { return ipv6.List(lb.Pool, lb.IPv6Pool) }

// Datastore is an external etcd. Without endpoints the control plane runs its own etcd.
type Datastore struct {
	Endpoints []string `json:"endpoints,omitempty"`
	CAFile    string   `json:"caFile,omitempty"`
	CertFile  string   `json:"certFile,omitempty"`
	KeyFile   string   `json:"keyFile,omitempty"`
}

// Embedded reports whether the control plane runs etcd itself.
func (d Datastore) Embedded() bool { return len(d.Endpoints) == 0 }

// Parse reads a Config strictly, fills its defaults and checks it.
func Parse(data []byte) (Config, error) {
	c, err := durable.ParseDocument(data, (*Config).complete)
	if err != nil {
		return c, fmt.Errorf("parse control plane configuration: %w", err)
	}
	return c, nil
}

// Load reads the Config in a file.
func Load(path string) (Config, error) {
	c, err := durable.ReadDocument(path, (*Config).complete)
	if err != nil {
		return c, fmt.Errorf("load control plane configuration: %w", err)
	}
	return c, nil
}

// complete fills in the defaults and checks the result.
func (c *Config) complete() error {
	*c = c.Default()
	return c.Validate()
}

// Default returns c with the defaults in place of zero values.
func (c Config) Default() Config {
	c.moveIPv6()
	c.ClusterDomain = cmp.Or(c.ClusterDomain, "cluster.local")
	c.NodeMaskSize = cmp.Or(c.NodeMaskSize, 24)
	if !c.IPv6.IsZero() && c.NodeMaskSizeIPv6 == 0 {
		c.NodeMaskSizeIPv6 = 64
	}
	if !c.DNSServiceIP.IsValid() && c.ServiceCIDR.IsValid() {
		c.DNSServiceIP = nth(c.ServiceCIDR, 10)
	}
	return c
}

var (
	validName   = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	validDomain = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)
	// validSAN keeps control characters and blanks out of certificates; wildcards
	// are refused because a certificate should name one server.
	validSAN = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`)
)

// maxSANs bounds ExtraSANs: every TLS handshake sends all of them.
const maxSANs = 32

// maxSocketPath is the longest path of a Unix socket, in bytes (unix(7):
// sun_path has 108, one of them for the final NUL).
const maxSocketPath = 107

// Validate returns an error for the first invalid field of c.
func (c Config) Validate() error {
	switch {
	case c.APIVersion != Version:
		return fmt.Errorf("apiVersion %q: this mullion reads %q", c.APIVersion, Version)
	case !validName.MatchString(c.Name):
		return fmt.Errorf("name %q: want a DNS label", c.Name)
	case !filepath.IsAbs(c.DataDir) || filepath.Clean(c.DataDir) != c.DataDir:
		return fmt.Errorf("dataDir %q: want an absolute, clean path", c.DataDir)
	case c.Datastore.Embedded() && len(c.EtcdSocket()) > maxSocketPath:
		return fmt.Errorf("dataDir %q: the path is too long for a Unix socket in it (%d bytes, at most %d)", c.DataDir,
			len(c.EtcdSocket()), maxSocketPath)
	case c.Port == 0:
		return errors.New("port: want 1 to 65535")
	case c.AdmissionPort == c.Port:
		return fmt.Errorf("admissionPort %d: the API server has this port", c.AdmissionPort)
	case !validDomain.MatchString(c.ClusterDomain):
		return fmt.Errorf("clusterDomain %q: want a DNS name in lower case", c.ClusterDomain)
	}
	if err := c.validateAddresses(); err != nil {
		return err
	}
	if err := c.validateNetworks(); err != nil {
		return err
	}
	return c.Datastore.Validate()
}

func (c Config) validateAddresses() error {
	if len(c.Addresses) == 0 {
		return errors.New("addresses: want at least one")
	}
	loopback := false
	for i, a := range c.Addresses {
		if !a.IsValid() || a.IsUnspecified() || a.IsMulticast() {
			return fmt.Errorf("addresses: %s: want the address of an interface", a)
		}
		if slices.Contains(c.Addresses[:i], a) {
			return fmt.Errorf("addresses: %s is listed twice", a)
		}
		loopback = loopback || a.IsLoopback()
	}
	if !loopback {
		// The other parts of the control plane talk to the API server through it.
		return errors.New("addresses: want a loopback address among them")
	}
	if len(c.ExtraSANs) > maxSANs {
		return fmt.Errorf("extraSANs: %d, at most %d", len(c.ExtraSANs), maxSANs)
	}
	for _, s := range c.ExtraSANs {
		if _, err := netip.ParseAddr(s); err != nil && !validSAN.MatchString(s) {
			return fmt.Errorf("extraSANs: %q is neither an address nor a host name", s)
		}
	}
	for _, u := range c.DNSUpstream {
		if u == c.DNSAddress {
			return fmt.Errorf("dnsUpstream: %s is the cluster's own DNS server", u)
		}
	}
	return nil
}

// networks lists the networks of both families.
func (c Config) networks() []ipv6.Network {
	return append([]ipv6.Network{{Name: "nodeCIDR", CIDR: c.NodeCIDR}, {Name: "podCIDR", CIDR: c.PodCIDR},
		{Name: "serviceCIDR", CIDR: c.ServiceCIDR}}, c.IPv6.Networks()...)
}

func (c Config) validateNetworks() error {
	nets := c.networks()
	for i, n := range nets {
		if !n.CIDR.IsValid() || n.CIDR.Masked() != n.CIDR {
			return fmt.Errorf("%s %q: want a network, as 10.1.0.0/16", n.Name, n.CIDR)
		}
		for _, m := range nets[:i] {
			if n.CIDR.Overlaps(m.CIDR) {
				return fmt.Errorf("%s %s overlaps %s %s", n.Name, n.CIDR, m.Name, m.CIDR)
			}
		}
	}
	if err := c.validateIPv6(); err != nil {
		return err
	}
	if err := c.validateLoadBalancer(); err != nil {
		return err
	}
	// kube-apiserver's own limit is 20 bits of host part for IPv4.
	if bits := c.ServiceCIDR.Addr().BitLen() - c.ServiceCIDR.Bits(); bits < 4 || bits > 20 {
		return fmt.Errorf("serviceCIDR %s: want between 16 and 1048576 addresses", c.ServiceCIDR)
	}
	// kube-controller-manager keeps a bit per node network, at most 2^16 of them.
	if extra := c.NodeMaskSize - c.PodCIDR.Bits(); extra < 0 || extra > 16 ||
		c.NodeMaskSize > c.PodCIDR.Addr().BitLen() {
		return fmt.Errorf("nodeMaskSize %d does not fit podCIDR %s", c.NodeMaskSize, c.PodCIDR)
	}
	if !c.ServiceCIDR.Contains(c.DNSServiceIP) || c.DNSServiceIP == c.ServiceIP() {
		return fmt.Errorf("dnsServiceIP %s: want an address of serviceCIDR %s other than the API server's %s",
			c.DNSServiceIP, c.ServiceCIDR, c.ServiceIP())
	}
	if !servable(c.DNSAddress) {
		return fmt.Errorf("dnsAddress %s: want an address that pods can reach, and a port", c.DNSAddress)
	}
	if !servable(c.MetricsAddress) {
		return fmt.Errorf("metricsAddress %s: want an address of this machine other than loopback, and a port",
			c.MetricsAddress)
	}
	return nil
}

func (c Config) validateLoadBalancer() error {
	lb := c.LoadBalancer
	if lb == (LoadBalancer{}) {
		return nil
	}
	if len(lb.Pools()) == 0 || !filepath.IsAbs(lb.Router) {
		return fmt.Errorf("loadBalancer: pool %q, router %q: want a network and a file", lb.Pool, lb.Router)
	}
	if lb.IPv6Pool.IsValid() && (lb.IPv6Pool.Addr().Is4() || c.IPv6.IsZero()) {
		return fmt.Errorf("loadBalancer.ipv6Pool %s: want a network of IPv6, in a cluster that has IPv6", lb.IPv6Pool)
	}
	for _, pool := range lb.Pools() {
		if pool.Masked() != pool {
			return fmt.Errorf("loadBalancer: pool %q: want a network, as 10.90.0.0/24", pool)
		}
		for _, n := range c.networks() {
			if n.CIDR.Overlaps(pool) {
				return fmt.Errorf("loadBalancer: pool %s overlaps %s %s", pool, n.Name, n.CIDR)
			}
		}
	}
	return nil
}

// servable reports whether an address is left out, or one that Kubernetes takes in an
// EndpointSlice.
func servable(a netip.AddrPort) bool {
	return !a.IsValid() ||
		!a.Addr().IsUnspecified() && !a.Addr().IsLoopback() && !a.Addr().IsMulticast() && a.Port() != 0
}

// Validate returns an error if the datastore cannot be used.
func (d Datastore) Validate() error {
	for _, e := range d.Endpoints {
		u, err := url.Parse(e)
		// Every secret crosses this connection.
		if err != nil || u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
			return fmt.Errorf("datastore endpoint %q: want https://HOST:PORT", e)
		}
		if d.CAFile == "" {
			return fmt.Errorf("datastore endpoint %q: caFile is needed to verify the server", e)
		}
	}
	if (d.CertFile == "") != (d.KeyFile == "") {
		return errors.New("datastore: certFile and keyFile belong together")
	}
	if d.Embedded() && (d.CAFile != "" || d.CertFile != "") {
		return errors.New("datastore: TLS files without endpoints")
	}
	return nil
}

// Marshal is the inverse of Parse.
func (c Config) Marshal() ([]byte, error) {
	data, err := durable.EncodeDocument(c)
	if err != nil {
		return nil, fmt.Errorf("marshal control plane configuration: %w", err)
	}
	return data, nil
}

// Loopback returns the address that the control plane's own parts use.
func (c Config) Loopback() netip.Addr {
	i := slices.IndexFunc(c.Addresses, netip.Addr.IsLoopback)
	return c.Addresses[i] // Validate has seen one
}

// Advertise returns the address behind Service default/kubernetes: the first that
// is not a loopback address, or else the loopback address.
func (c Config) Advertise() netip.Addr {
	if i := slices.IndexFunc(c.Addresses, func(a netip.Addr) bool { return !a.IsLoopback() }); i >= 0 {
		return c.Addresses[i]
	}
	return c.Loopback()
}

// LocalURL returns the API server's URL for programs on this machine.
func (c Config) LocalURL() string {
	return "https://" + netip.AddrPortFrom(c.Loopback(), c.Port).String()
}

// ServiceIP returns the cluster IP of Service default/kubernetes: kube-apiserver
// takes the first address.
func (c Config) ServiceIP() netip.Addr { return nth(c.ServiceCIDR, 1) }

// nth address of a network, counted from its base.
func nth(p netip.Prefix, n int) netip.Addr {
	a := p.Masked().Addr()
	for range n {
		a = a.Next()
	}
	return a
}
