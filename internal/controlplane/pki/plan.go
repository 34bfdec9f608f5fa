// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package pki

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
)

// Lifetimes. Kubernetes' own deployment tools use the same: replacing an authority
// requires a change on every node, while Ensure replaces leaves.
const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 365 * 24 * time.Hour
	// renewBefore is the remaining life at which a leaf is replaced: a third, so that a
	// machine that is switched on a few times a year still replaces it in time.
	renewBefore = leafLife / 3
	// backdate allows for clocks of nodes that are a little late.
	backdate = 5 * time.Minute
)

// Authority is a certificate authority: NAME.crt and NAME.key.
type Authority struct {
	Name       string
	CommonName string
	// Internal authorities sign only for parts of this control plane, which all
	// get new leaves when it changes; such an authority can be recreated.
	Internal bool
}

// Leaf is a certificate with its key in one file, NAME.pem, so that replacing
// the file replaces both at once.
type Leaf struct {
	Name          string
	Authority     string
	CommonName    string
	Organizations []string
	// Names and Addresses make it a server's certificate.
	Names     []string
	Addresses []netip.Addr
	Client    bool
}

// Plan lists all key material of a control plane.
type Plan struct {
	Authorities []Authority
	Leaves      []Leaf
	// Keys are bare signing keys: NAME.key and NAME.pub.
	Keys []string
	// Secrets are files of an encryption configuration: NAME.json.
	Secrets []string
}

// The names in a Plan, and identities that RBAC rules name.
const (
	ClusterCA    = "cluster-ca"
	EtcdCA       = "etcd-ca"
	FrontProxyCA = "front-proxy-ca"

	APIServer         = "kube-apiserver"
	APIServerKubelet  = "kube-apiserver-kubelet"
	APIServerEtcd     = "kube-apiserver-etcd"
	Etcd              = "etcd"
	FrontProxy        = "front-proxy-client"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	CoreDNS           = "coredns"
	MetricsServer     = "metrics-server"
	Controllers       = "mullion-controllers"
	Manager           = "mullion-manager"
	ServiceController = "service-controller"
	AdmissionClientCA = "admission-client-ca"
	AdmissionClient   = "kube-apiserver-admission"
	Admin             = "admin"

	ServiceAccount = "service-account"
	Encryption     = "encryption"

	// AdminGroup is bound to ClusterRole cluster-admin by an ordinary binding,
	// which can be deleted; system:masters could not be revoked.
	AdminGroup = "mullion:cluster-admins"
	// KubeletClientGroup may use the kubelets' API.
	KubeletClientGroup = "mullion:kubelet-clients"
	CoreDNSUser        = "system:mullion:coredns"
	MetricsServerUser  = "system:mullion:metrics-server"
	// MetricsServerName is the name of its Service.
	MetricsServerName = "metrics-server.kube-system.svc"
	ControllersUser   = "system:mullion:controllers"
	ManagerUser       = "system:mullion:manager"
	// ServiceControllerUser gives Services of type LoadBalancer their addresses.
	ServiceControllerUser = "system:mullion:service-controller"
)

// NewPlan returns the key material that the control plane needs.
func NewPlan(c config.Config) Plan {
	names := []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." +
		c.ClusterDomain, "localhost"}
	addresses := append([]netip.Addr{c.ServiceIP()}, c.Addresses...)
	for _, s := range c.ExtraSANs {
		if a, err := netip.ParseAddr(s); err == nil {
			addresses = append(addresses, a)
		} else {
			names = append(names, s)
		}
	}
	p := Plan{
		Authorities: []Authority{{ClusterCA, "mullion cluster " + c.Name, false},
			{FrontProxyCA, "mullion front proxy " + c.Name, true}},
		Leaves: []Leaf{
			{Name: APIServer, Authority: ClusterCA, CommonName: "kube-apiserver", Names: names, Addresses: addresses},
			{Name: APIServerKubelet, Authority: ClusterCA, CommonName: "kube-apiserver-kubelet-client",
				Organizations: []string{KubeletClientGroup}, Client: true},
			{Name: FrontProxy, Authority: FrontProxyCA, CommonName: "front-proxy-client", Client: true},
			{Name: ControllerManager, Authority: ClusterCA, CommonName: "system:kube-controller-manager", Client: true},
			{Name: Scheduler, Authority: ClusterCA, CommonName: "system:kube-scheduler", Client: true},
			{Name: Controllers, Authority: ClusterCA, CommonName: ControllersUser, Client: true},
			{Name: Admin, Authority: ClusterCA, CommonName: "mullion-admin", Organizations: []string{AdminGroup},
				Client: true},
		},
		Keys:    []string{ServiceAccount},
		Secrets: []string{Encryption},
	}
	if c.DNSAddress.IsValid() {
		p.Leaves = append(p.Leaves, Leaf{Name: CoreDNS, Authority: ClusterCA, CommonName: CoreDNSUser, Client: true})
	}
	if c.MetricsAddress.IsValid() {
		// The API server, its client, reaches it by the name of its Service.
		p.Leaves = append(p.Leaves, Leaf{Name: MetricsServer, Authority: ClusterCA, CommonName: MetricsServerUser,
			Names: []string{MetricsServerName}, Client: true})
	}
	if len(c.LoadBalancer.Pools()) > 0 {
		p.Leaves = append(p.Leaves,
			Leaf{Name: ServiceController, Authority: ClusterCA, CommonName: ServiceControllerUser, Client: true})
	}
	if c.AdmissionPort != 0 {
		// A separate authority: no other certificate of the cluster may call the
		// webhooks.
		p.Authorities = append(p.Authorities, Authority{AdmissionClientCA, "mullion admission clients " + c.Name, true})
		p.Leaves = append(p.Leaves,
			Leaf{
				Name:       AdmissionClient,
				Authority:  AdmissionClientCA,
				CommonName: "kube-apiserver-admission-client",
				Client:     true,
			},
			Leaf{Name: Manager, Authority: ClusterCA, CommonName: ManagerUser, Client: true})
	}
	if c.Datastore.Embedded() {
		p.Authorities = append(p.Authorities, Authority{EtcdCA, "mullion etcd " + c.Name, true})
		p.Leaves = append(p.Leaves,
			// etcd's client library takes the last element of the socket's path for
			// the server's name (client/v3/internal/endpoint, translateEndpoint).
			Leaf{Name: Etcd, Authority: EtcdCA, CommonName: "etcd", Names: []string{"etcd.sock"}},
			Leaf{Name: APIServerEtcd, Authority: EtcdCA, CommonName: "kube-apiserver-etcd-client", Client: true})
	}
	return p
}

// String prints the plan for people.
func (p Plan) String() string {
	var b strings.Builder
	for _, a := range p.Authorities {
		fmt.Fprintf(&b, "%s.{crt,key}  authority %q\n", a.Name, a.CommonName)
	}
	for _, l := range p.Leaves {
		fmt.Fprintf(&b, "%s.pem  by %s, CN=%s", l.Name, l.Authority, l.CommonName)
		for _, o := range l.Organizations {
			fmt.Fprintf(&b, ", O=%s", o)
		}
		if l.Client {
			b.WriteString(", client")
		}
		if sans := l.sans(); len(sans) > 0 {
			fmt.Fprintf(&b, ", server %s", strings.Join(sans, " "))
		}
		b.WriteByte('\n')
	}
	for _, k := range p.Keys {
		fmt.Fprintf(&b, "%s.{key,pub}  signing key\n", k)
	}
	for _, s := range p.Secrets {
		fmt.Fprintf(&b, "%s.json  key for encryption at rest\n", s)
	}
	return b.String()
}

func (l Leaf) sans() []string {
	sans := slices.Clone(l.Names)
	for _, a := range l.Addresses {
		sans = append(sans, a.String())
	}
	return sans
}
