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
	"reflect"
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
	// Windows holds the build of each emulated host, win-1 first, in a spelling
	// that winver.Parse knows.
	Windows []string `json:"windows"`
	// Linux is the number of Linux workers.
	Linux int `json:"linux,omitempty"`
	// WindowsTaint is put onto every Windows node, in kubectl's notation
	// (os=windows:NoSchedule); "" means none.
	WindowsTaint string `json:"windowsTaint,omitempty"`
	// Admission says what the webhooks do with findings in namespaces without
	// labels for it; "" means policy.AdmissionEnforce.
	Admission policy.Admission `json:"admission,omitempty"`
	// NetworkMode says how pods of different nodes reach each other; "" means L2Bridge, as
	// in clusters that were made before there was a choice.
	NetworkMode agent.NetworkMode `json:"network,omitempty"`
	// NoAdmission leaves out the admission webhooks and what belongs to them: a
	// cluster as upstream's components alone make it.
	NoAdmission bool `json:"noAdmission,omitempty"`
	// Datastore is an external etcd; empty means the embedded one.
	Datastore config.Datastore `json:"datastore,omitzero"`
}

// Choice holds the choices given to `mullion up`.
type Choice struct {
	// Windows are the builds of the hosts; empty means those of the cluster that
	// exists, or one of each current build.
	Windows []string
	// Linux is the number of Linux workers; nil means those of the cluster that
	// exists, or DefaultLinux.
	Linux *int
	// WindowsTaint, Admission, NetworkMode, NoAdmission and Datastore are as in Config. They are
	// chosen when the cluster is made; later their zero values mean "as it is".
	WindowsTaint string
	Admission    policy.Admission
	NetworkMode  agent.NetworkMode
	NoAdmission  bool
	Datastore    config.Datastore
}

// DefaultLinux is the number of Linux workers of a new cluster.
const DefaultLinux = 1

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

// nodeName of the i-th Windows host, counted from 0.
func nodeName(i int) string { return fmt.Sprintf("win-%d", i+1) }

// linuxName of the i-th Linux worker, counted from 0.
func linuxName(i int) string { return fmt.Sprintf("linux-%d", i+1) }

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
	if err := c.checkLinux(c.Linux); err != nil {
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
	if err := c.Datastore.Validate(); err != nil {
		return err
	}
	_, err := c.builds()
	return err
}

// checkLinux returns an error if the cluster cannot have n Linux workers.
func (c Config) checkLinux(n int) error {
	switch {
	case n < 0 || n > maxNodes:
		return fmt.Errorf("%d Linux workers: want 0 to %d", n, maxNodes)
	case n > 0 && c.Mode() != agent.L2Bridge:
		return fmt.Errorf("%d Linux workers: they need the network %s; a cluster with %s has Windows hosts only "+
			"(--linux 0)", n, agent.L2Bridge, c.Mode())
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
	// The version is looked at first: a later one may have fields that this one does
	// not know.
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
	if err != nil {
		return Config{}, fmt.Errorf("load cluster: %w", err)
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

// merge combines the choices of another `mullion up` with the existing cluster.
// Hosts may be added at the end; nothing else may change, because a running host
// cannot become a different one.
func (c Config) merge(asked Choice) (Config, error) {
	if asked.WindowsTaint != "" && asked.WindowsTaint != c.WindowsTaint {
		return c, fmt.Errorf("cluster %q was made with the Windows taint %q; it cannot become %q", c.Name,
			c.WindowsTaint, asked.WindowsTaint)
	}
	if asked.Admission != "" && asked.Admission != c.Admits() {
		if c.NoAdmission {
			return c, fmt.Errorf("cluster %q was made without admission webhooks; they cannot be added later", c.Name)
		}
		return c, fmt.Errorf("cluster %q was made with --admission %s; it cannot become %s (labels of a namespace "+
			"choose for it: admission.mullion.dev/enforce and warn)", c.Name, c.Admits(), asked.Admission)
	}
	if asked.NetworkMode != "" && asked.NetworkMode != c.Mode() {
		return c, fmt.Errorf("cluster %q was made with the network %s; pods cannot move to another one, so make a "+
			"cluster with --name NAME --network %s beside it, or remove this one", c.Name, c.Mode(), asked.NetworkMode)
	}
	if asked.NoAdmission && !c.NoAdmission {
		return c, fmt.Errorf("cluster %q was made with admission webhooks; they cannot be left out later", c.Name)
	}
	if !reflect.DeepEqual(asked.Datastore, config.Datastore{}) && !reflect.DeepEqual(asked.Datastore, c.Datastore) {
		return c, fmt.Errorf("cluster %q was made with %s; a cluster cannot move to another datastore", c.Name,
			datastoreName(c.Datastore))
	}
	if asked.Linux != nil {
		if *asked.Linux < c.Linux {
			return c, fmt.Errorf("cluster %q has %d Linux workers; workers can be added, not removed", c.Name, c.Linux)
		}
		if err := c.checkLinux(*asked.Linux); err != nil {
			return c, err
		}
		c.Linux = *asked.Linux
	}
	return c.mergeHosts(asked.Windows)
}

// Admits returns what the cluster's webhooks do with findings; "" means that there
// are none.
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

func (c Config) mergeHosts(windows []string) (Config, error) {
	if len(windows) == 0 {
		return c, nil
	}
	want := Config{APIVersion: apiVersion, Name: c.Name, Windows: windows}
	if err := want.validate(); err != nil {
		return c, err
	}
	asked, _ := want.builds() // validated above
	have, err := c.builds()
	if err != nil {
		return c, err
	}
	for i, b := range have {
		if i >= len(asked) || asked[i].Number != b.Number {
			return c, fmt.Errorf("cluster %q has the Windows hosts %v; hosts can be added at the end of the list, "+
				"not changed or removed", c.Name, c.Windows)
		}
	}
	c.Windows = windows
	return c, nil
}

// create makes the Config of a new cluster: its index is the smallest that no
// other cluster of the data directory uses and that is not taken by one of
// another.
func create(l Layout, asked Choice, taken func(index int) bool) (Config, error) {
	names, err := Names(l.DataDir)
	if err != nil {
		return Config{}, err
	}
	used := map[int]bool{}
	for _, n := range names {
		other, err := Load(Layout{l.DataDir, n})
		if err != nil {
			// Without its index the new cluster could take the same addresses.
			return Config{}, fmt.Errorf("choose addresses beside cluster %q ('mullion down --name %s --purge' "+
				"removes it): %w", n, n, err)
		}
		used[other.Index] = true
	}
	c := Config{
		APIVersion: apiVersion, Name: l.Name, Windows: asked.Windows, Linux: DefaultLinux,
		WindowsTaint: asked.WindowsTaint, Admission: asked.Admission, NetworkMode: asked.NetworkMode,
		NoAdmission: asked.NoAdmission,
		Datastore:   asked.Datastore,
	}
	switch {
	case asked.Linux != nil:
		c.Linux = *asked.Linux
	case c.Mode() != agent.L2Bridge:
		c.Linux = 0
	}
	for used[c.Index] || c.Index <= maxIndex && taken(c.Index) {
		c.Index++
	}
	if err := c.validate(); err != nil {
		return Config{}, err
	}
	return c, nil
}
