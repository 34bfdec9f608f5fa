// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package cluster assembles a cluster on one Linux machine: the control plane,
// the network between the hosts and the emulated Windows hosts themselves.
//
// A cluster is described first (Describe: pure, printed by
// `mullion up --dry-run`) and then run by one supervisor process (Run). The
// commands communicate with the supervisor through files in the cluster's
// directory and through signals. A file lock, which the kernel releases on any
// exit, shows whether it is running.
package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// apiVersion of the document cluster.json.
const apiVersion = "mullion/v1alpha1"

// Config holds the user's choices; cluster.json.
type Config struct {
	APIVersion string `json:"apiVersion"`
	Name       string `json:"name"`
	// Index distinguishes the clusters of one machine; see Network.
	Index int `json:"index"`
	// Windows holds the build of each emulated host, win-1 first, in a spelling that
	// winver.Parse accepts.
	Windows []string `json:"windows"`
	// Linux is the number of Linux workers.
	Linux int `json:"linux,omitempty"`
	// Size is the size of each host that is not in Sizes, a map by name.
	Size  Size            `json:"size,omitzero"`
	Sizes map[string]Size `json:"sizes,omitempty"`
	// Removed names the removed Windows and Linux hosts. The others keep their numbers,
	// and therefore their addresses.
	Removed []string `json:"removed,omitempty"`
	// WindowsTaint is put onto every Windows node, in kubectl's notation
	// (os=windows:NoSchedule), or "".
	WindowsTaint string `json:"windowsTaint,omitempty"`
	// Admission is the webhooks' action on findings in namespaces without labels for it;
	// "" means policy.AdmissionEnforce.
	Admission policy.Admission `json:"admission,omitempty"`
	// NetworkMode is the kind of network between pods of different nodes; "" means
	// L2Bridge, as in clusters from before this setting existed.
	NetworkMode agent.NetworkMode `json:"network,omitempty"`
	// IPFamily has the address families of nodes, pods and Services.
	IPFamily ipFamily `json:"ipFamily,omitempty"`
	// LoadBalancerPool has the addresses for Services of type LoadBalancer: a range, one of each
	// address family separated by a comma, or noPool; "" means the defaults of Network. See
	// Pools.
	LoadBalancerPool string `json:"loadBalancerPool,omitempty"`
	// NoDSR: kube-proxy on Windows nodes works without direct server return.
	NoDSR bool `json:"noDSR,omitempty"`
	// NoWindowsLimits leaves out limits of Windows that only hinder.
	NoWindowsLimits bool `json:"noWindowsLimits,omitempty"`
	// NoAdmission leaves out the admission webhooks and their objects: the cluster
	// consists of upstream's components only.
	NoAdmission bool `json:"noAdmission,omitempty"`
	// NoMetrics leaves out metrics-server, so that the user can deploy one.
	NoMetrics bool `json:"noMetrics,omitempty"`
	// NoStorage leaves out the StorageClass mullion-local.
	NoStorage bool `json:"noStorage,omitempty"`
	// NoNetworkPolicy leaves NetworkPolicies to something that the user installs.
	NoNetworkPolicy bool `json:"noNetworkPolicy,omitempty"`
	// Datastore is an external etcd; empty means the embedded one.
	Datastore config.Datastore `json:"datastore,omitzero"`
}

// DefaultLinux is the number of Linux workers of a new cluster.
const DefaultLinux = 1

// defaultWindows lists the default hosts of a cluster: one of each build with
// long-term support, so that there is a node for each of their images.
func defaultWindows() []string { return []string{"2019", "2022", "2025"} }

// ErrNotFound is returned for a cluster that does not exist.
var ErrNotFound = errors.New("no such cluster")

// validName follows Kubernetes' DNS labels, and is short because the name is
// part of the names of network namespaces and cgroups.
var validName = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$`)

// CheckName returns an error if a cluster may not have this name.
func CheckName(name string) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("cluster name %q: want 1 to 20 lower-case letters, digits and '-', beginning with a letter "+
			"and not ending with '-'", name)
	}
	return nil
}

// validate checks a Config from outside.
func (c Config) validate() error {
	if c.APIVersion != apiVersion {
		return fmt.Errorf("apiVersion %q: this mullion reads %q", c.APIVersion, apiVersion)
	}
	if err := CheckName(c.Name); err != nil {
		return err
	}
	if c.Index < 0 || c.Index > maxIndex {
		return fmt.Errorf("index %d: want 0 to %d", c.Index, maxIndex)
	}
	if len(c.Windows) > maxNodes {
		return fmt.Errorf("%d Windows hosts: at most %d fit into the network", len(c.Windows), maxNodes)
	}
	if err := c.checkLinux(); err != nil {
		return err
	}
	if c.WindowsTaint != "" {
		if _, err := policy.ParseWindowsTaint(c.WindowsTaint); err != nil {
			return err
		}
	}
	if err := c.Admission.Validate(); err != nil {
		return err
	}
	if c.NoAdmission && c.Admission != "" {
		return fmt.Errorf("admission %q: there are no admission webhooks", string(c.Admission))
	}
	if _, err := agent.ParseNetworkMode(string(c.NetworkMode)); err != nil {
		return err
	}
	if err := c.checkFamily(); err != nil {
		return err
	}
	if _, err := c.Pools(); err != nil {
		return err
	}
	if err := c.Datastore.Validate(); err != nil {
		return err
	}
	if _, err := c.builds(); err != nil {
		return err
	}
	return errors.Join(c.checkSizes(), c.checkRemoved())
}

// checkLinux returns an error if the cluster cannot have its Linux workers.
func (c Config) checkLinux() error {
	if c.Linux < 0 || c.Linux > maxNodes {
		return fmt.Errorf("%d Linux workers: want 0 to %d", c.Linux, maxNodes)
	}
	return nil
}

// builds parses Windows.
func (c Config) builds() ([]winver.Build, error) {
	var builds []winver.Build
	for _, w := range c.Windows {
		b, err := winver.Parse(w)
		if err != nil {
			return nil, err
		}
		builds = append(builds, b)
	}
	return builds, nil
}

// Mode returns how pods of different nodes reach each other.
func (c Config) Mode() agent.NetworkMode {
	return cmp.Or(c.NetworkMode, agent.L2Bridge)
}

// Network returns the cluster's address plan.
func (c Config) Network() Network { return Network{c.Index} }

// Load reads cluster.json.
func Load(l Layout) (Config, error) {
	// The version is checked first: a later version may have fields that are unknown to
	// this one.
	made, err := durable.ReadStatus[struct {
		APIVersion string `json:"apiVersion"`
	}](l.config())
	if err == nil && made.APIVersion != "" && made.APIVersion != apiVersion {
		return Config{}, fmt.Errorf("load cluster: %s is of version %q, and this mullion reads %q: use the mullion "+
			"that made the cluster", l.config(), made.APIVersion, apiVersion)
	}
	c, err := durable.ReadDocument(l.config(), (*Config).validate)
	if errors.Is(err, fs.ErrNotExist) {
		return Config{}, fmt.Errorf("%w: %q in %s", ErrNotFound, l.Name, l.DataDir)
	}
	if errors.Is(err, fs.ErrPermission) {
		return Config{}, fmt.Errorf("load cluster: %w", err)
	}
	if err != nil {
		return Config{}, fmt.Errorf("load cluster: %w ('mullion down --name %s --purge' removes it)", err, l.Name)
	}
	return c, nil
}

// save writes cluster.json.
func (c Config) save(l Layout) error { return durable.WriteDocument(l.config(), c) }

// Names lists the clusters of a data directory, sorted.
func Names(dataDir string) ([]string, error) {
	dirs, err := filepath.Glob(filepath.Join(Layout{DataDir: dataDir}.clusters(), "*", "cluster.json"))
	if err != nil {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
	var names []string
	for _, d := range dirs {
		names = append(names, filepath.Base(filepath.Dir(d)))
	}
	slices.Sort(names)
	return names, nil
}

// Admits returns the action of the cluster's webhooks on findings, or "" for a cluster
// without webhooks.
func (c Config) Admits() policy.Admission {
	if c.NoAdmission {
		return ""
	}
	return cmp.Or(c.Admission, policy.AdmissionEnforce)
}

// datastoreName names a datastore for people.
func datastoreName(d config.Datastore) string {
	if d.Embedded() {
		return "its own etcd"
	}
	return "the etcd at " + strings.Join(d.Endpoints, ", ")
}

// create makes the Config of a new cluster: its index is the smallest that no
// other cluster of the data directory uses and whose addresses are free.
func create(l Layout, asked Choice, free func(Config) error) (Config, error) {
	names, err := Names(l.DataDir)
	if err != nil {
		return Config{}, err
	}
	used := map[int]bool{}
	for _, n := range names {
		other, err := Load(Layout{l.DataDir, n})
		if err != nil {
			// Without its index the new cluster could take the same addresses.
			return Config{}, fmt.Errorf("choose addresses beside cluster %q: %w", n, err)
		}
		used[other.Index] = true
	}
	if err := asked.Validate(); err != nil {
		return Config{}, err
	}
	c := Config{APIVersion: apiVersion, Name: l.Name, Windows: asked.Windows, Linux: DefaultLinux}
	asked.apply(&c)
	if asked.Windows == nil {
		c.Windows = defaultWindows()
	}
	if asked.Linux != nil {
		c.Linux = *asked.Linux
	}
	var first error // why the smallest index cannot be had
	for c.Index <= maxIndex {
		if !used[c.Index] {
			err := free(c)
			if err == nil {
				break
			}
			first = cmp.Or(first, err)
		}
		c.Index++
	}
	if c.Index > maxIndex && first != nil {
		return Config{}, fmt.Errorf("choose addresses: none of %d sets is free: %w", maxIndex+1, first)
	}
	if err := c.validate(); err != nil {
		return Config{}, err
	}
	return c, nil
}
