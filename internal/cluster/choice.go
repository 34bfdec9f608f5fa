// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// Choice holds what `mullion up` was asked for, by flags or by a file (--config).
// Nil was not asked for: it means what the cluster has or, if there is none yet,
// the default.
//
// A new setting of clusters needs
//
//   - a field here, which gives it its name in the file;
//   - a field in Config, checked by Config.validate, set by Choice.apply, and shown
//     by Config.choice;
//   - an entry in settings, with the reason if it cannot change later;
//   - a flag in upFlags.addChoice of package clustercmd, where a test fails for a
//     flag that the file cannot say.
type Choice struct {
	// Windows are the builds of the Windows hosts; empty and not nil means none.
	Windows Builds `json:"windows,omitzero"`
	// Linux is the number of Linux workers.
	Linux *int `json:"linux,omitempty"`
	// CPUs and Memory are the size of each host, as in Size.
	CPUs   *int    `json:"cpus,omitempty"`
	Memory *string `json:"memory,omitempty"`
	// Sizes are those of hosts that have another one, by the names that the hosts have in a new cluster: win-2 is the
	// second of Windows. `mullion node add` makes such hosts.
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

// Builds are builds of Windows in spellings that winver.Parse knows. In a document,
// one that looks like a number may be written as one: windows: [2019, 2022].
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

// fieldError says what is wrong with one field of a Choice.
type fieldError struct {
	Flag  string // of `mullion up`
	Field string // in the file
	Err   error
}

func (e *fieldError) Error() string { return "--" + e.Flag + ": " + e.Err.Error() }

// Unwrap returns what is wrong.
func (e *fieldError) Unwrap() error { return e.Err }

// Validate checks each field by itself; the error is a *fieldError.
func (c Choice) Validate() error {
	for _, w := range c.Windows {
		if _, err := winver.Parse(w); err != nil {
			return &fieldError{"windows", "windows", err}
		}
	}
	if c.Linux != nil && *c.Linux < 0 {
		return &fieldError{"linux", "linux", fmt.Errorf("%d must not be negative", *c.Linux)}
	}
	if err := c.size(Size{}).Validate(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Sizes)) {
		if f, ok := errors.AsType[*fieldError](c.Sizes[name].Validate()); ok {
			return &fieldError{"config", "sizes." + name + "." + f.Field, f.Err}
		}
	}
	if c.WindowsTaint != nil && *c.WindowsTaint != "" {
		if _, err := policy.ParseWindowsTaint(*c.WindowsTaint); err != nil {
			return &fieldError{"windows-taint", "windowsTaint", err}
		}
	}
	if c.NetworkMode != nil {
		if _, err := agent.ParseNetworkMode(string(*c.NetworkMode)); err != nil {
			return &fieldError{"network", "network", err}
		}
	}
	if c.IPFamily != nil {
		if _, err := parseFamily(*c.IPFamily); err != nil {
			return &fieldError{"ip-family", "ipFamily", err}
		}
	}
	if p := c.LoadBalancerPool; p != nil && *p != "" && *p != noPool {
		if _, err := parsePools(*p); err != nil {
			return &fieldError{"load-balancer-pool", "loadBalancerPool", err}
		}
	}
	if c.Admission != nil {
		if err := c.Admission.Validate(); err != nil {
			return &fieldError{"admission", "admission", err}
		}
	}
	if c.without() && c.Admission != nil && *c.Admission != "" {
		return &fieldError{"no-admission", "noAdmission", fmt.Errorf(
			"it excludes admission %s: there would be no webhooks", *c.Admission)}
	}
	if c.Datastore != nil {
		if err := c.Datastore.Validate(); err != nil {
			return &fieldError{"datastore-endpoints", "datastore", err}
		}
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
	return s
}

// without reports whether a cluster without admission webhooks was asked for.
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

// setting is one choice, compared with the cluster that exists.
type setting struct {
	flag        string
	have, asked string // for people
	differs     bool
	// why the setting cannot change; if it can while the cluster is stopped, set
	// changes it.
	why string
	set func(*Config)
}

// settings compares everything but the hosts.
func (c Config) settings(asked Choice) []setting {
	var out []setting
	add := func(s setting) { out = append(out, s) }
	if a := asked.WindowsTaint; a != nil {
		add(setting{flag: "windows-taint", have: orNone(c.WindowsTaint), asked: orNone(*a),
			differs: *a != c.WindowsTaint, why: "nodes get it when they join"})
	}
	if a := asked.CPUs; a != nil {
		add(setting{flag: "cpus", have: fmt.Sprint(c.Size.CPUs), asked: fmt.Sprint(*a), differs: *a != c.Size.CPUs,
			set: func(c *Config) { c.Size.CPUs = *a }})
	}
	if a := asked.Memory; a != nil {
		add(setting{flag: "memory", have: orNone(c.Size.Memory), asked: *a,
			differs: (Size{Memory: *a}).bytes() != c.Size.bytes(), set: func(c *Config) { c.Size.Memory = *a }})
	}
	if a := asked.NetworkMode; a != nil {
		mode := Config{NetworkMode: *a}.Mode()
		add(setting{flag: "network", have: string(c.Mode()), asked: string(mode), differs: mode != c.Mode(),
			why: "pods cannot move to another network; make a cluster beside this one with --name"})
	}
	if a := asked.IPFamily; a != nil {
		family, _ := parseFamily(*a) // validated
		want := Config{IPFamily: family}.Families()
		add(setting{flag: "ip-family", have: c.Families(), asked: want, differs: want != c.Families(),
			why: "nodes, pods and Services keep their addresses; make a cluster beside this one with --name"})
	}
	if a := asked.LoadBalancerPool; a != nil {
		other := c
		other.LoadBalancerPool = *a
		have, _ := c.Pools() // checked when the cluster was loaded
		want, err := other.Pools()
		s := setting{flag: "load-balancer-pool", have: PoolName(have), asked: PoolName(want),
			differs: err != nil || !slices.Equal(want, have), why: "Services may have its addresses"}
		if err != nil {
			s.asked, s.why = *a, err.Error()
		}
		add(s)
	}
	if a := asked.DSR; a != nil {
		add(setting{flag: "dsr", have: fmt.Sprint(!c.NoDSR), asked: fmt.Sprint(*a), differs: *a == c.NoDSR,
			why: "nodes get it when they are made; make a cluster beside this one with --name"})
	}
	if a := asked.WindowsLimits; a != nil {
		add(setting{flag: "windows-limits", have: Switch(!c.NoWindowsLimits).String(), asked: Switch(*a).String(),
			differs: *a == c.NoWindowsLimits, set: func(c *Config) { c.NoWindowsLimits = !*a }})
	}
	if a := asked.NoAdmission; a != nil {
		add(setting{flag: "no-admission", have: fmt.Sprint(c.NoAdmission), asked: fmt.Sprint(*a),
			differs: *a != c.NoAdmission, why: "what belongs to the webhooks is made with the cluster"})
	}
	if a := asked.NoMetrics; a != nil {
		add(setting{flag: "no-metrics", have: fmt.Sprint(c.NoMetrics), asked: fmt.Sprint(*a),
			differs: *a != c.NoMetrics, why: "the metrics API is registered when the cluster is made"})
	}
	if a := asked.NetworkPolicy; a != nil {
		add(setting{flag: "network-policy", have: fmt.Sprint(!c.NoNetworkPolicy), asked: fmt.Sprint(*a),
			differs: *a == c.NoNetworkPolicy, set: func(c *Config) { c.NoNetworkPolicy = !*a }})
	}
	if a := asked.NoStorage; a != nil {
		s := setting{flag: "no-storage", have: fmt.Sprint(c.NoStorage), asked: fmt.Sprint(*a),
			differs: *a != c.NoStorage, why: "claims may need the StorageClass"}
		if !*a {
			s.set = func(c *Config) { c.NoStorage = false }
		}
		add(s)
	}
	if a := asked.Admission; a != nil && *a != "" {
		s := setting{flag: "admission", have: orNone(string(c.Admits())), asked: string(*a), differs: *a != c.Admits(),
			set: func(c *Config) { c.Admission = *a }}
		if c.NoAdmission {
			s.set, s.why = nil, "the cluster was made with --no-admission"
		}
		add(s)
	}
	if a := asked.Datastore; a != nil {
		add(setting{flag: "datastore-endpoints", have: datastoreName(c.Datastore), asked: datastoreName(*a),
			differs: !reflect.DeepEqual(*a, c.Datastore), why: "a cluster cannot move to another datastore"})
	}
	return out
}

// merge combines the choices of another `mullion up` with the existing cluster.
// Hosts may be added, and some settings may change while the cluster is stopped; all
// else that differs is refused, with every difference.
func (c Config) merge(asked Choice, running bool) (Config, error) {
	if err := asked.Validate(); err != nil {
		return c, err
	}
	out := c
	var differences []string
	for _, s := range c.settings(asked) {
		switch {
		case !s.differs:
		case s.set == nil:
			differences = append(differences, fmt.Sprintf("--%s is %s, not %s: %s", s.flag, s.have, s.asked, s.why))
		case running:
			differences = append(differences, fmt.Sprintf(
				"--%[1]s is %[2]s, not %[3]s: "+
					"run 'mullion stop%[4]s' first, and then 'mullion up%[4]s --%[1]s%[5]s%[3]s'",
				s.flag, s.have, s.asked, nameFlag(c.Name), between(s.asked)))
		default:
			s.set(&out)
		}
	}
	differences = append(differences, out.mergeHosts(asked)...)
	differences = append(differences, out.mergeSizes(asked, c, running)...)
	if len(differences) > 0 {
		return c, &DifferentError{Cluster: c.Name, Differences: differences}
	}
	return out, out.validate()
}

// between separates a flag from its value, which a flag that is true or false has only behind a sign.
func between(value string) string {
	if value == "true" || value == "false" {
		return "="
	}
	return " "
}

// mergeHosts adds the hosts that were asked for and that the cluster lacks, and
// returns how it differs otherwise.
func (c *Config) mergeHosts(asked Choice) (differences []string) {
	if asked.Windows != nil {
		var have []string
		for _, name := range c.WindowsHosts() {
			have = append(have, c.build(name))
		}
		if !begins(asked.Windows, have) {
			differences = append(differences, fmt.Sprintf("--windows is %s, not %s: hosts are added at the end of the "+
				"list, and 'mullion node remove%s NAME' removes one", orNone(strings.Join(have, ",")),
				orNone(strings.Join(asked.Windows, ",")), nameFlag(c.Name)))
		} else {
			for _, build := range asked.Windows[len(have):] {
				c.addWindows(build, nil)
			}
		}
	}
	if asked.Linux != nil {
		have := len(c.LinuxHosts())
		if *asked.Linux < have {
			differences = append(differences, fmt.Sprintf("--linux is %d, not %d: workers are added, and 'mullion "+
				"node remove%s NAME' removes one", have, *asked.Linux, nameFlag(c.Name)))
		}
		for range *asked.Linux - have {
			c.addLinux(nil)
		}
	}
	return differences
}

// mergeSizes gives hosts the sizes that were asked for, and returns what has to be otherwise first: hosts that the
// cluster had before keep theirs while it runs.
func (c *Config) mergeSizes(asked Choice, before Config, running bool) (differences []string) {
	hosts := c.inOrder()
	for _, as := range slices.Sorted(maps.Keys(asked.Sizes)) {
		name, want, have := hosts[as], asked.Sizes[as], c.Sizes[hosts[as]]
		switch {
		case name == "":
			differences = append(differences, fmt.Sprintf("sizes names %s: there is no such host", as))
		case want.CPUs == have.CPUs && want.bytes() == have.bytes():
		case running && IsNode(before, name):
			differences = append(differences, fmt.Sprintf("the size of %s is %s, not %s: run 'mullion stop%s' first",
				name, have, want, nameFlag(c.Name)))
		default:
			c.resize(name, want)
		}
	}
	return differences
}

// begins reports whether the builds begin with those that the cluster has, in
// whatever spelling.
func begins(asked, have []string) bool {
	return len(asked) >= len(have) && slices.EqualFunc(asked[:len(have)], have, func(a, b string) bool {
		x, errX := winver.Parse(a)
		y, errY := winver.Parse(b)
		return errX == nil && errY == nil && x.Number == y.Number
	})
}

// DifferentError is returned for choices that an existing cluster does not have, and
// that it cannot take on.
type DifferentError struct {
	Cluster     string
	Differences []string
}

func (e *DifferentError) Error() string {
	return fmt.Sprintf("cluster %q is not as asked for: %s", e.Cluster, strings.Join(e.Differences, "; "))
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// nameFlag selects the cluster in a command.
func nameFlag(name string) string {
	if name == "default" {
		return ""
	}
	return " --name " + name
}
