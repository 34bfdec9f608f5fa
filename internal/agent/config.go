// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/durable/certpem"
)

// Version is the apiVersion of agent.json.
const Version = "mullion/v1alpha1"

// Config is agent.json: the settings that the administrator of a node chooses.
type Config struct {
	APIVersion string  `json:"apiVersion"`
	Node       Node    `json:"node"`
	Cluster    Cluster `json:"cluster"`
	Runtime    Runtime `json:"runtime,omitzero"`
	Volumes    Volumes `json:"volumes,omitzero"`
	Network    Network `json:"network,omitzero"`
	Kubelet    Kubelet `json:"kubelet,omitzero"`
	// Renamed has a warning for each setting that the file has by a former name.
	Renamed []string `json:"-"`
}

// Node describes the node when it registers.
type Node struct {
	// Name of the node; empty: the computer's name in lower case.
	Name string `json:"name,omitempty"`
	// Address is the node's IP address. It belongs to an adapter of the machine.
	Address netip.Addr `json:"address"`
	// IPv6Address is its IPv6 address, if the cluster has two address families.
	// SecondAddress is its former name.
	IPv6Address   netip.Addr `json:"ipv6Address,omitzero"`
	SecondAddress netip.Addr `json:"secondAddress,omitzero"`
	// Labels the kubelet registers, in addition to Kubernetes' own.
	Labels map[string]string `json:"labels,omitempty"`
	// Taints in kubectl's notation, "key=value:Effect".
	Taints []string `json:"taints,omitempty"`
}

// Cluster holds the properties of the cluster that the node needs.
type Cluster struct {
	// Server is the API server's URL.
	Server string `json:"server"`
	// CAFile holds the cluster's CA certificate (PEM).
	CAFile string `json:"caFile"`
	// CAHash pins the CA: "sha256:<hex>" of its public key, as kubeadm prints it
	// for --discovery-token-ca-cert-hash. A CA that does not have it is refused.
	CAHash string `json:"caHash,omitempty"`
	// TokenFile holds a bootstrap token; the agent deletes it after joining.
	TokenFile string `json:"tokenFile,omitempty"`

	Domain string       `json:"domain"`
	DNS    []netip.Addr `json:"dns"`
	// PodCIDR is the range of all pods of the cluster, ServiceCIDR the range of services;
	// NodeCIDRs are the networks of the nodes. Traffic of pods to them keeps the pod's
	// address.
	PodCIDR     netip.Prefix   `json:"podCIDR"`
	ServiceCIDR netip.Prefix   `json:"serviceCIDR"`
	NodeCIDRs   []netip.Prefix `json:"nodeCIDRs,omitempty"`
	// IPv6 has the same in IPv6, if the cluster has two address families. Second is its
	// former name.
	IPv6   ipv6.Plan `json:"ipv6,omitzero"`
	Second ipv6.Plan `json:"second,omitzero"`
}

// Runtime is the container runtime.
type Runtime struct {
	// Endpoint of its CRI; empty: containerd's named pipe.
	Endpoint string `json:"endpoint,omitempty"`
}

// Volumes is the service that gives claims of mullion-local a size.
type Volumes struct {
	// Endpoint of csidriver.DisksHandler; empty: a claim may take all of the node's disk.
	Endpoint string `json:"endpoint,omitempty"`
}

// Network is the HNS network of the pods.
type Network struct {
	// Mode is the kind of network between pods of different nodes; empty means L2Bridge.
	// All nodes of a cluster have the same.
	Mode NetworkMode `json:"mode,omitempty"`
	// Name of the network; empty: "cbr0", the name that kube-proxy's and
	// flannel's documentation use, or "flannel.4096" with VXLAN.
	Name string `json:"name,omitempty"`
	// Adapter is the adapter of the bridge. If it is empty, HNS chooses the adapter with
	// the default route, flanneld the adapter with the node's address.
	Adapter string `json:"adapter,omitempty"`
	// EnforcePolicies makes the agent enforce NetworkPolicies. Leave it out where
	// something else does, as Calico or Azure's policy manager.
	EnforcePolicies bool `json:"enforcePolicies,omitempty"`
	// DSR is direct server return: backends of a Service see their clients' addresses. Null:
	// where HNS has it.
	DSR *bool `json:"dsr,omitempty"`
}

// Kubelet has settings of KubeletConfiguration, with its names. Unset fields have the
// kubelet's defaults, except EvictionHard.
type Kubelet struct {
	// SystemReserved and KubeReserved keep a part of the node from its pods. They and
	// EvictionHard make Allocatable of Capacity.
	SystemReserved map[string]string `json:"systemReserved,omitempty"`
	KubeReserved   map[string]string `json:"kubeReserved,omitempty"`
	// EvictionHard has the thresholds below which the kubelet evicts pods. Empty means
	// the kubelet's defaults on Windows (kubernetes v1.36.3
	// pkg/kubelet/eviction/defaults_windows.go).
	EvictionHard map[string]string `json:"evictionHard,omitempty"`
	// EvictionSoft has the thresholds for eviction after the time in
	// EvictionSoftGracePeriod for the same resource, with pods' own grace periods.
	EvictionSoft            map[string]string `json:"evictionSoft,omitempty"`
	EvictionSoftGracePeriod map[string]string `json:"evictionSoftGracePeriod,omitempty"`
	// EvictionPressureTransitionPeriod is the time for which a node keeps a condition
	// such as MemoryPressure after its cause; "" means the kubelet's default, five
	// minutes.
	EvictionPressureTransitionPeriod string `json:"evictionPressureTransitionPeriod,omitempty"`
	// Images are removed when the disk is filled by more than the first, until it is
	// filled by less than the second.
	ImageGCHighThresholdPercent int `json:"imageGCHighThresholdPercent,omitempty"`
	ImageGCLowThresholdPercent  int `json:"imageGCLowThresholdPercent,omitempty"`
	// The size of a container's log at which it is rotated, and the number of files to
	// keep.
	ContainerLogMaxSize  string `json:"containerLogMaxSize,omitempty"`
	ContainerLogMaxFiles int    `json:"containerLogMaxFiles,omitempty"`
}

// Defaults of fields that may be left out.
const (
	// defaultEndpoint is containerd's, and kubeadm's choice on Windows (kubernetes
	// v1.36.3 cmd/kubeadm/app/constants/constants_windows.go).
	defaultEndpoint = "npipe:////./pipe/containerd-containerd"
)

// ErrNoConfig is returned if there is no agent.json.
var ErrNoConfig = errors.New("this machine is not set up as a node")

// Load reads agent.json.
func Load(path string) (Config, error) {
	c, err := durable.ReadDocument(path, (*Config).complete)
	if errors.Is(err, fs.ErrNotExist) {
		return Config{}, fmt.Errorf("%w: %s does not exist", ErrNoConfig, path)
	}
	if err != nil {
		return Config{}, fmt.Errorf("load agent configuration: %w", err)
	}
	return c, nil
}

// complete fills in the defaults and checks the result.
func (c *Config) complete() error {
	c.moveIPv6()
	if c.Node.Name == "" {
		name, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("find the computer's name: %w", err)
		}
		c.Node.Name = strings.ToLower(name)
	}
	c.Runtime.Endpoint = cmp.Or(c.Runtime.Endpoint, defaultEndpoint)
	c.Network.Mode = cmp.Or(c.Network.Mode, L2Bridge)
	if len(c.Kubelet.EvictionHard) == 0 {
		c.Kubelet.EvictionHard = map[string]string{
			"memory.available": "500Mi", "nodefs.available": "10%", "imagefs.available": "15%",
		}
	}
	if c.Network.Name == "" {
		c.Network.Name = c.Network.Mode.networkName()
	}
	return c.Validate()
}

var (
	validName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
	// A kubelet refuses to start with a taint or label that it cannot parse.
	validTaint = regexp.MustCompile(`^[A-Za-z0-9./_-]+(=[A-Za-z0-9._-]*)?:(NoSchedule|PreferNoSchedule|NoExecute)$`)
	validLabel = regexp.MustCompile(`^([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,` +
		`61}[A-Za-z0-9])?=([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$`)
)

// Validate checks a complete Config; all faults are reported together.
func (c Config) Validate() error {
	var errs []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	want(c.APIVersion == Version, "apiVersion %q: this mullion reads %q", c.APIVersion, Version)
	want(validName.MatchString(c.Node.Name), "node.name %q is not a node name: lower-case letters, digits, '-' and '.'",
		c.Node.Name)
	want(c.Node.Address.IsValid() && !c.Node.Address.IsLoopback() && !c.Node.Address.IsUnspecified(),
		"node.address is missing, or an address that other nodes cannot reach")
	for k, v := range c.Node.Labels {
		want(validLabel.MatchString(k+"="+v), "node.labels: %s=%s is not a label", k, v)
	}
	for _, t := range c.Node.Taints {
		want(validTaint.MatchString(t), "node.taints: %q is not key=value:Effect", t)
	}
	u, err := url.Parse(c.Cluster.Server)
	want(err == nil && u.Scheme == "https" && u.Host != "", "cluster.server %q is not an https URL", c.Cluster.Server)
	want(c.Cluster.CAFile != "", "cluster.caFile is missing")
	want(certpem.ValidPin(c.Cluster.CAHash),
		`cluster.caHash: want "sha256:" and 64 hexadecimal digits; without it another machine could pose as the `+
			`cluster`)
	want(c.Cluster.Domain != "", "cluster.domain is missing")
	want(len(c.Cluster.DNS) > 0 && !slices.Contains(c.Cluster.DNS, netip.Addr{}), "cluster.dns is missing")
	want(c.Cluster.PodCIDR.IsValid(), "cluster.podCIDR is missing")
	want(c.Cluster.ServiceCIDR.IsValid(), "cluster.serviceCIDR is missing")
	if _, err := ParseNetworkMode(string(c.Network.Mode)); err != nil {
		errs = append(errs, fmt.Errorf("network.mode: %w", err))
	}
	// host-local keeps a directory of this name.
	want(!strings.ContainsAny(c.Network.Name, `\/:*?"<>|`), "network.name %q is not a file name", c.Network.Name)
	want(c.Network.Adapter == "" || !c.Network.Mode.Flannel(), "network.adapter: flanneld chooses it by node.address")
	want(strings.HasPrefix(c.Runtime.Endpoint, "npipe:") || strings.HasPrefix(c.Runtime.Endpoint, "tcp:"),
		"runtime.endpoint %q: want npipe:////./pipe/NAME or tcp://ADDRESS:PORT", c.Runtime.Endpoint)
	want(c.Volumes.Endpoint == "" || strings.HasPrefix(c.Volumes.Endpoint, "tcp://"),
		"volumes.endpoint %q: want tcp://ADDRESS:PORT", c.Volumes.Endpoint)
	if err := c.validateIPv6(); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, c.Kubelet.validate()...)
	return errors.Join(errs...)
}

// A kubelet refuses to start with an unknown resource, signal or quantity.
var (
	validQuantity = regexp.MustCompile(`^[0-9]{1,18}(\.[0-9]{1,9})?([KMGTP]i|[mkMGTP])?$`)
	validPercent  = regexp.MustCompile(`^([0-9]{1,2}(\.[0-9]{1,9})?|100)%$`)
)

func (k Kubelet) validate() []error {
	var errs []error
	known := func(field string, of map[string]string, names ...string) {
		for name, q := range of {
			percent := strings.HasPrefix(field, "eviction") && validPercent.MatchString(q)
			if !slices.Contains(names, name) || !percent && !validQuantity.MatchString(q) {
				errs = append(errs, fmt.Errorf("kubelet.%s: %s=%s: want one of %s and a quantity", field, name, q,
					strings.Join(names, ", ")))
			}
		}
	}
	known("systemReserved", k.SystemReserved, "cpu", "memory", "ephemeral-storage")
	known("kubeReserved", k.KubeReserved, "cpu", "memory", "ephemeral-storage")
	// inodes and processes are not counted on Windows.
	signals := []string{"memory.available", "nodefs.available", "imagefs.available"}
	known("evictionHard", k.EvictionHard, signals...)
	known("evictionSoft", k.EvictionSoft, signals...)
	errs = append(errs, k.validateTimes()...)
	high, low := cmp.Or(k.ImageGCHighThresholdPercent, 85), cmp.Or(k.ImageGCLowThresholdPercent, 80)
	if high > 100 || low < 0 || low >= high {
		errs = append(errs, fmt.Errorf("kubelet: images are removed above %d %% until %d %%: want at most 100 and less",
			high, low))
	}
	if k.ContainerLogMaxSize != "" && !validQuantity.MatchString(k.ContainerLogMaxSize) {
		errs = append(errs, fmt.Errorf("kubelet.containerLogMaxSize %q: want for example 10Mi", k.ContainerLogMaxSize))
	}
	// kubernetes v1.36.3 pkg/kubelet/apis/config/validation/validation.go
	if k.ContainerLogMaxFiles < 0 || k.ContainerLogMaxFiles == 1 {
		errs = append(errs, fmt.Errorf("kubelet.containerLogMaxFiles %d: want 2 at least", k.ContainerLogMaxFiles))
	}
	return errs
}

// validateTimes rejects values with which the kubelet refuses to start.
func (k Kubelet) validateTimes() []error {
	var errs []error
	for name := range k.EvictionSoft {
		if k.EvictionSoftGracePeriod[name] == "" {
			errs = append(errs, fmt.Errorf("kubelet.evictionSoft: %s has no evictionSoftGracePeriod", name))
		}
	}
	for name, d := range k.EvictionSoftGracePeriod {
		if t, err := time.ParseDuration(d); err != nil || t < 0 || k.EvictionSoft[name] == "" {
			errs = append(errs, fmt.Errorf(
				"kubelet.evictionSoftGracePeriod: %s=%s: want a time, as 30s, for a resource of evictionSoft", name, d))
		}
	}
	if d := k.EvictionPressureTransitionPeriod; d != "" {
		if t, err := time.ParseDuration(d); err != nil || t <= 0 {
			errs = append(errs, fmt.Errorf("kubelet.evictionPressureTransitionPeriod %q: want a time, as 30s", d))
		}
	}
	return errs
}
