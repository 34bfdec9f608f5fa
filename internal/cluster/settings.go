// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/policy"
)

// Choice holds the settings given to `mullion up`, by flags or by a file (--config). A
// nil field was not given: the cluster keeps its setting; a new cluster gets the default.
//
// A new setting of clusters needs
//
//   - a field here, which gives it its name in the file;
//   - a field in Config, checked by Config.validate, set by Choice.apply, and shown
//     by Config.choice;
//   - an entry in settings (settings_change.go), with the reason if it cannot change later;
//   - a flag in choiceFlags of package clustercmd, where a test fails for a flag
//     without a field in the file.
type Choice struct {
	// Windows are the builds of the Windows hosts; empty and not nil means no hosts.
	Windows Builds `json:"windows,omitzero"`
	// Linux is the number of Linux workers.
	Linux *int `json:"linux,omitempty"`
	// CPUs, Memory and Disk are the size of each host, as in Size.
	CPUs   *int    `json:"cpus,omitempty"`
	Memory *string `json:"memory,omitempty"`
	Disk   *string `json:"disk,omitempty"`
	// Sizes are the sizes of hosts that differ from Size, by the hosts' names in a new cluster: win-2 is the second
	// of Windows. `mullion node add` makes such hosts.
	Sizes map[string]Size `json:"sizes,omitzero"`
	// The others are as in Config.
	WindowsTaint *string            `json:"windowsTaint,omitempty"`
	NetworkMode  *agent.NetworkMode `json:"network,omitempty"`
	IPFamily     *string            `json:"ipFamily,omitempty"` // "ipv4" or "dual"
	Admission    *policy.Admission  `json:"admission,omitempty"`
	NoAdmission  *bool              `json:"noAdmission,omitempty"`
	// NetworkPolicy is the opposite of Config.NoNetworkPolicy.
	NetworkPolicy *bool             `json:"networkPolicy,omitempty"`
	NoMetrics     *bool             `json:"noMetrics,omitempty"`
	NoStorage     *bool             `json:"noStorage,omitempty"`
	Datastore     *config.Datastore `json:"datastore,omitempty"`
	// LoadBalancerPool is as in Config.
	LoadBalancerPool *string `json:"loadBalancerPool,omitempty"`
	// DSR is the opposite of Config.NoDSR.
	DSR *bool `json:"dsr,omitempty"`
	// WindowsLimits is the opposite of Config.NoWindowsLimits.
	WindowsLimits *bool `json:"windowsLimits,omitempty"`
}

// Builds are builds of Windows in spellings that winver.Parse accepts. In a document, one
// that looks like a number may be written as one: windows: [2019, 2022].
type Builds []string

// UnmarshalJSON implements json.Unmarshaler.
func (b *Builds) UnmarshalJSON(data []byte) error {
	var list []json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil {
		return errors.New("want a list of builds")
	}
	*b = Builds{}
	for _, item := range list {
		var name string
		if json.Unmarshal(item, &name) != nil {
			var number json.Number
			if err := json.Unmarshal(item, &number); err != nil {
				return fmt.Errorf("build %s: want a name or a number", item)
			}
			name = number.String()
		}
		*b = append(*b, name)
	}
	return nil
}

// size returns the size of hosts that had another one.
func (c Choice) size(s Size) Size {
	if c.CPUs != nil {
		s.CPUs = *c.CPUs
	}
	if c.Memory != nil {
		s.Memory = *c.Memory
	}
	if c.Disk != nil {
		s.Disk = *c.Disk
	}
	return s
}

// without reports whether a cluster without admission webhooks was requested.
func (c Choice) without() bool { return c.NoAdmission != nil && *c.NoAdmission }

// choice returns the choices that make another cluster like this one.
func (c Config) choice() Choice {
	linux, mode, none, admission := len(c.LinuxHosts()), c.Mode(), c.NoAdmission, c.Admits()
	policies, dsr, limits, families := !c.NoNetworkPolicy, !c.NoDSR, !c.NoWindowsLimits, c.Families()
	out := Choice{
		Windows:       Builds{},
		Linux:         &linux,
		WindowsTaint:  &c.WindowsTaint,
		NetworkMode:   &mode,
		IPFamily:      &families,
		NoAdmission:   &none,
		NetworkPolicy: &policies,
		NoMetrics:     &c.NoMetrics,
		NoStorage:     &c.NoStorage,
		DSR:           &dsr,
		WindowsLimits: &limits,
	}
	if c.LoadBalancerPool != "" { // the default depends on the machine's other clusters
		out.LoadBalancerPool = &c.LoadBalancerPool
	}
	if c.Size.CPUs != 0 { // otherwise they depend on the machine
		out.CPUs = &c.Size.CPUs
	}
	if c.Size.Memory != "" {
		out.Memory = &c.Size.Memory
	}
	if c.Size.Disk != "" {
		out.Disk = &c.Size.Disk
	}
	for _, name := range c.WindowsHosts() {
		out.Windows = append(out.Windows, c.build(name))
	}
	for as, name := range c.inOrder() {
		if own, ok := c.Sizes[name]; ok {
			if out.Sizes == nil {
				out.Sizes = map[string]Size{}
			}
			out.Sizes[as] = own
		}
	}
	if !none {
		out.Admission = &admission
	}
	if !c.Datastore.Embedded() {
		out.Datastore = &c.Datastore
	}
	return out
}

// apply makes the choices of a new cluster. Hosts are not among them.
func (c Choice) apply(to *Config) {
	to.Size = c.size(to.Size)
	to.Sizes = maps.Clone(c.Sizes)
	if c.WindowsTaint != nil {
		to.WindowsTaint = *c.WindowsTaint
	}
	if c.NetworkMode != nil {
		to.NetworkMode = *c.NetworkMode
	}
	if c.IPFamily != nil {
		to.IPFamily, _ = parseFamily(*c.IPFamily) // validated
	}
	if c.LoadBalancerPool != nil {
		to.LoadBalancerPool = *c.LoadBalancerPool
	}
	if c.DSR != nil {
		to.NoDSR = !*c.DSR
	}
	if c.WindowsLimits != nil {
		to.NoWindowsLimits = !*c.WindowsLimits
	}
	if c.Admission != nil {
		to.Admission = *c.Admission
	}
	if c.Datastore != nil {
		to.Datastore = *c.Datastore
	}
	if c.NetworkPolicy != nil {
		to.NoNetworkPolicy = !*c.NetworkPolicy
	}
	to.NoAdmission = c.without()
	to.NoMetrics = c.NoMetrics != nil && *c.NoMetrics
	to.NoStorage = c.NoStorage != nil && *c.NoStorage
}

// Switch is a setting with the values on and off, as people write and read it.
type Switch bool

func (s Switch) String() string {
	if s {
		return "on"
	}
	return "off"
}

// Set implements pflag.Value.
func (s *Switch) Set(value string) error {
	switch value {
	case "on":
		*s = true
	case "off":
		*s = false
	default:
		return errors.New("want on or off")
	}
	return nil
}

// Type implements pflag.Value.
func (s *Switch) Type() string { return "on|off" }
