// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clustercmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cluster"
	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/policy"
)

// choiceFlags are the flags of `mullion up` that describe the cluster. Each is also a
// field of cluster.Choice, whose comment lists the other places to change for a new one.
type choiceFlags struct {
	config       string
	windows      []string
	linux        int
	size         cluster.Size
	windowsTaint string
	admission    string
	network      string
	family       string
	pool         string
	dsr          bool
	limits       bool
	noAdmission  bool
	policies     bool
	noMetrics    bool
	noStorage    bool
	datastore    config.Datastore
}

func (c *choiceFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&c.config, "config", "",
		"`file` that describes the cluster, as --dry-run -o yaml prints it; - for standard input; flags win over it")
	fl.StringSliceVar(&c.windows, "windows", nil,
		"`builds` of the Windows hosts: 2016, 1709, 1803, 2019, 2022, 2025; '' for none (default 2019,2022,2025)")
	fl.IntVar(&c.linux, "linux", cluster.DefaultLinux,
		"`number` of Linux workers")
	addSize(cmd, &c.size, "all of the machine",
		"the hosts share three quarters of the machine's memory, at least 2Gi each",
		"the hosts share three quarters of the free space, 2Gi to 100Gi each")
	fl.StringVar(&c.windowsTaint, "windows-taint", "",
		"`taint` of every Windows node, for example os=windows:NoSchedule (default none: placement keeps Linux pods "+
			"off)")
	cli.OneOf(cmd, &c.admission, "admission", "",
		"`mode` for findings in namespaces without admission labels: enforce refuses objects that cannot run, warn "+
			"only warns, off does neither (default enforce)", "enforce", "warn", "off")
	cli.OneOf(cmd, &c.network, "network", "",
		"`mode` of the pod network: l2bridge, host-gw or vxlan (default l2bridge)", "l2bridge", "host-gw", "vxlan")
	fl.StringVar(&c.family, "ip-family", "",
		"address `family` of nodes, pods and Services: ipv4, or dual for IPv4 and IPv6, which needs --network "+
			"l2bridge (default ipv4)")
	fl.StringVar(&c.pool, "load-balancer-pool", "",
		"address `range` for Services of type LoadBalancer, or none; with two address families one range of each, "+
			"separated by a comma (default 10.90.0.0/24 and fd00:10:90::/112; further clusters 10.90.1.0/24 and so on)")
	fl.BoolVar(&c.dsr, "dsr", true,
		"direct server return: pods behind Services on Windows see the client's address; without it, a node's address")
	c.limits = true
	fl.Var((*cluster.Switch)(&c.limits), "windows-limits",
		"`on|off`: keep two limits of Windows: programs of a node don't reach its own pods through a Service or node "+
			"port, and builds before 20H2 have no session affinity")
	fl.BoolVar(&c.noAdmission, "no-admission", false,
		"run only upstream's components: no placement, no validation, no RuntimeClasses, no StorageClass")
	fl.BoolVar(&c.noMetrics, "no-metrics", false,
		"leave out the metrics API: without a metrics-server of your own there is no kubectl top and no autoscaling")
	fl.BoolVar(&c.noStorage, "no-storage", false,
		"leave out the default StorageClass mullion-local (--no-admission leaves it out, too)")
	fl.BoolVar(&c.policies, "network-policy", true,
		"enforce NetworkPolicies on all nodes; false leaves this to another policy manager")
	fl.StringSliceVar(&c.datastore.Endpoints, "datastore-endpoints", nil,
		"`URLs` of an external etcd instead of the embedded one")
	fl.StringVar(&c.datastore.CAFile, "datastore-cafile", "", "CA `file` of the external etcd")
	fl.StringVar(&c.datastore.CertFile, "datastore-certfile", "", "client certificate `file` for the external etcd")
	fl.StringVar(&c.datastore.KeyFile, "datastore-keyfile", "", "client key `file` for the external etcd")
}

// addSize adds the flags for the size of hosts.
func addSize(cmd *cobra.Command, s *cluster.Size, cpus, memory, disk string) {
	cmd.Flags().IntVar(&s.CPUs, "cpus", 0,
		"`number` of processors of each host (default: "+cpus+")")
	cmd.Flags().StringVar(&s.Memory, "memory", "",
		"memory of each host, a `quantity` such as 4Gi (default: "+memory+")")
	cmd.Flags().StringVar(&s.Disk, "disk", "",
		"disk of each host for images, pods and claims, a `quantity` such as 20Gi (default: "+disk+")")
}

// choice returns the Choice made by the file and the flags, and the cluster's name in the
// file.
func (c *choiceFlags) choice(given *pflag.FlagSet, in io.Reader) (cluster.Choice, string, error) {
	var doc cluster.Document
	if given.Changed("config") {
		var err error
		if doc, err = readDocument(c.config, in); err != nil {
			return cluster.Choice{}, "", cli.Usagef("--config: read %s: %w", c.config, err)
		}
	}
	out := doc.Choice
	set := map[string]func(){
		"windows":            func() { out.Windows = append(cluster.Builds{}, c.windows...) },
		"linux":              func() { out.Linux = &c.linux },
		"cpus":               func() { out.CPUs = &c.size.CPUs },
		"memory":             func() { out.Memory = &c.size.Memory },
		"disk":               func() { out.Disk = &c.size.Disk },
		"windows-taint":      func() { out.WindowsTaint = &c.windowsTaint },
		"admission":          func() { out.Admission = (*policy.Admission)(&c.admission) },
		"network":            func() { out.NetworkMode = (*agent.NetworkMode)(&c.network) },
		"ip-family":          func() { out.IPFamily = &c.family },
		"load-balancer-pool": func() { out.LoadBalancerPool = &c.pool },
		"dsr":                func() { out.DSR = &c.dsr },
		"windows-limits":     func() { out.WindowsLimits = &c.limits },
		"no-admission":       func() { out.NoAdmission = &c.noAdmission },
		"no-metrics":         func() { out.NoMetrics = &c.noMetrics },
		"network-policy":     func() { out.NetworkPolicy = &c.policies },
		"no-storage":         func() { out.NoStorage = &c.noStorage },
	}
	for _, name := range []string{"endpoints", "cafile", "certfile", "keyfile"} {
		// They belong together: if the flags set one, the file's are all ignored.
		set["datastore-"+name] = func() { out.Datastore = &c.datastore }
	}
	for name, f := range set {
		if given.Changed(name) {
			f()
		}
	}
	if err := out.Validate(); err != nil {
		return out, "", cli.Usagef("%w", err)
	}
	if out.Datastore != nil {
		var err error
		if out.Datastore, err = absoluteFiles(*out.Datastore); err != nil {
			return out, "", err
		}
	}
	return out, doc.Name, nil
}

// absoluteFiles returns the datastore with files as the control plane, which runs in
// another directory, can find them.
func absoluteFiles(d config.Datastore) (*config.Datastore, error) {
	for _, file := range []*string{&d.CAFile, &d.CertFile, &d.KeyFile} {
		if *file == "" {
			continue
		}
		path, err := filepath.Abs(*file)
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", *file, err)
		}
		*file = path
	}
	return &d, nil
}

func readDocument(file string, in io.Reader) (cluster.Document, error) {
	if file == "-" {
		return cluster.ReadDocument(in)
	}
	f, err := os.Open(file)
	if err != nil {
		// The path is in the message already.
		if path, ok := errors.AsType[*os.PathError](err); ok {
			err = path.Err
		}
		return cluster.Document{}, err
	}
	defer f.Close() // opened for reading
	return cluster.ReadDocument(f)
}
