// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

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
	if a := asked.Disk; a != nil {
		add(setting{flag: "disk", have: orNone(c.Size.Disk), asked: *a,
			differs: (Size{Disk: *a}).diskBytes() != c.Size.diskBytes(), set: func(c *Config) { c.Size.Disk = *a }})
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
			differs: *a != c.NoAdmission, why: "the webhooks' objects are made with the cluster"})
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

// DifferentError is returned for choices that an existing cluster does not have, and
// that it cannot take on.
type DifferentError struct {
	Cluster     string
	Differences []string
}

func (e *DifferentError) Error() string {
	return fmt.Sprintf("cluster %q differs from the request: %s", e.Cluster, strings.Join(e.Differences, "; "))
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
