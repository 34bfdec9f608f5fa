// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package plan describes a control plane as data: its components and the order in which
// they start, their command lines and their files. Everything in it is pure and printed
// by `mullion-kube server --dry-run`; package controlplane carries it out. It does not
// import Kubernetes.
package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/controlplane/pki"
)

// The components, with the names that `mullion status` prints.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	Bootstrap         = "bootstrap"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Controllers       = "mullion-controllers"
	CoreDNS           = "coredns"
	MetricsServer     = "metrics-server"
	Certificates      = "certificates"
	Manager           = "mullion-manager"
	ServiceController = "service-controller"
)

// Component is one part of the control plane.
type Component struct {
	Name  string
	Needs []string
	// Argv are the flags that upstream's own program of this name would take.
	// Parts that have no command line have a Note instead.
	Argv []string
	Note string
}

// File is a file that is rewritten at each start.
type File struct {
	Path    string
	Mode    os.FileMode
	Content []byte
}

// Plan is the whole control plane.
type Plan struct {
	Config     config.Config
	PKI        pki.Plan
	Files      []File
	Components []Component
	Corefile   string // "" if there is no DNS server
}

// Machine holds the properties of the machine on which the plan depends.
type Machine struct {
	// Resolvers are the machine's own DNS servers; see ParseResolvConf.
	Resolvers []netip.AddrPort
}

// New makes the plan.
func New(c config.Config, m Machine) (Plan, error) {
	p := Plan{Config: c, PKI: pki.NewPlan(c)}
	var err error
	if p.Files, err = files(c); err != nil {
		return p, err
	}
	first := Component{Name: Etcd,
		Note: fmt.Sprintf("data in %s, mutual TLS on the socket %s", c.Etcd(), c.EtcdSocket())}
	if c.Datastore.Embedded() {
		p.Components = append(p.Components, first)
	}
	p.Components = append(p.Components,
		Component{Name: APIServer, Argv: apiServer(c)},
		Component{Name: Bootstrap, Needs: []string{APIServer},
			Note: "once: roles and bindings, Service kube-system/kube-dns, cluster-info"},
		Component{Name: ControllerManager, Needs: []string{Bootstrap}, Argv: controllerManager(c)},
		Component{Name: Scheduler, Needs: []string{Bootstrap}, Argv: scheduler(c)},
		Component{Name: Controllers, Needs: []string{Bootstrap}, Note: "approves the certificate requests of nodes"},
		Component{Name: Certificates, Needs: []string{Bootstrap}, Note: "renews certificates while the process runs"},
	)
	if c.Datastore.Embedded() {
		p.Components[1].Needs = []string{Etcd}
	}
	if c.AdmissionPort != 0 {
		p.Components = append(p.Components, Component{Name: Manager, Needs: []string{Bootstrap},
			Note: "admission webhooks on " + AdmissionAddress(c).String() +
				" (" + cmp.Or(c.Admission, "enforce") + "); RuntimeClasses, labels and taints of Windows nodes"})
	}
	if lb := c.LoadBalancer; len(lb.Pools()) > 0 {
		p.Components = append(p.Components, Component{Name: ServiceController, Needs: []string{Bootstrap},
			Note: fmt.Sprintf("addresses of %s for Services of type LoadBalancer, router in %s",
				poolNames(lb), lb.Router)})
	}
	if c.DNSAddress.IsValid() {
		p.Corefile = corefile(c, m)
		p.Components = append(p.Components, Component{Name: CoreDNS, Needs: []string{Bootstrap},
			Note: "the Corefile below"})
	}
	if c.MetricsAddress.IsValid() {
		p.Components = append(p.Components, Component{Name: MetricsServer, Needs: []string{Bootstrap},
			Argv: metricsServer(c)})
	}
	return p, nil
}

// String prints the plan for people.
func (p Plan) String() string {
	var b strings.Builder
	section := func(title string) { fmt.Fprintf(&b, "# %s\n", title) }
	c := p.Config
	section("directories (0700)")
	fmt.Fprintf(&b, "%s\n%s\n%s\n", c.DataDir, c.PKI(), c.Run())
	if c.Datastore.Embedded() {
		fmt.Fprintf(&b, "%s\n", c.Etcd())
	}
	section("keys and certificates in " + c.PKI())
	b.WriteString(p.PKI.String())
	section("files")
	for _, f := range p.Files {
		fmt.Fprintf(&b, "%s %#o\n", f.Path, f.Mode)
	}
	fmt.Fprintf(&b, "%s 0600 (the administrator's)\n%s 0600 (status)\n", c.AdminKubeconfig(), c.StatusFile())
	section("components")
	for _, x := range p.Components {
		b.WriteString(x.Name)
		if len(x.Needs) > 0 {
			fmt.Fprintf(&b, " after %s", strings.Join(x.Needs, ", "))
		}
		if x.Note != "" {
			fmt.Fprintf(&b, ": %s", x.Note)
		}
		b.WriteByte('\n')
		for _, a := range x.Argv {
			fmt.Fprintf(&b, "  %s\n", a)
		}
	}
	if p.Corefile != "" {
		section("Corefile")
		b.WriteString(p.Corefile)
	}
	return b.String()
}

// store returns the key directory, for its file names only.
func store(c config.Config) pki.Store { return pki.Store{Dir: c.PKI()} }

func poolNames(lb config.LoadBalancer) string {
	var names []string
	for _, p := range lb.Pools() {
		names = append(names, p.String())
	}
	return strings.Join(names, " and ")
}
