// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
	"github.com/mullion-k8s/mullion/internal/controlplane/pki"
)

// EtcdEndpoint returns the URL of the embedded etcd.
func EtcdEndpoint(c config.Config) string { return "unixs://" + c.EtcdSocket() }

// Audit log sizes. 20 MB hold about a day of an idle cluster of two nodes at the level of
// auditPolicy; four files bound the disk at 100 MB. CIS 1.12 sections 1.2.17 to 1.2.19
// require 30 days, 10 files and 100 MB of a production server; the age is kept, the sizes
// are for one machine.
const (
	auditAgeDays  = 30
	auditFiles    = 4
	auditMegabyte = 20
)

// apiServer returns the command line of kube-apiserver. The numbers in the comments
// are sections of the CIS Kubernetes Benchmark 1.12.
func apiServer(c config.Config) []string {
	s := store(c)
	argv := []string{
		// The listener itself is given to the library, because kube-apiserver can
		// bind one address or all, and we want some; see fanIn in internal/controlplane.
		"--bind-address=" + c.Loopback().String(),
		fmt.Sprintf("--secure-port=%d", c.Port),
		"--advertise-address=" + c.Advertise().String(),
		"--tls-cert-file=" + s.Leaf(pki.APIServer),
		"--tls-private-key-file=" + s.Leaf(pki.APIServer),
		"--tls-min-version=VersionTLS12",
		"--profiling=false", // 1.2.15

		// Authentication.
		"--client-ca-file=" + s.Cert(pki.ClusterCA),
		"--authentication-config=" + generated(c, authenticationFile), // anonymous for health checks only, 1.2.1
		"--enable-bootstrap-token-auth=true",
		"--requestheader-client-ca-file=" + s.Cert(pki.FrontProxyCA),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--service-account-issuer=https://kubernetes.default.svc." + c.ClusterDomain,
		"--service-account-key-file=" + s.Public(pki.ServiceAccount),
		"--service-account-signing-key-file=" + s.Key(pki.ServiceAccount),
		"--service-account-extend-token-expiration=false", // 1.2.30

		// Authorization, admission and audit.
		"--authorization-mode=Node,RBAC",             // 1.2.7, 1.2.8
		"--enable-admission-plugins=NodeRestriction", // 1.2.14
		"--audit-policy-file=" + generated(c, "audit-policy.json"),
		"--audit-log-path=" + c.AuditLog(), // 1.2.16
		fmt.Sprintf("--audit-log-maxage=%d", auditAgeDays),
		fmt.Sprintf("--audit-log-maxbackup=%d", auditFiles),
		fmt.Sprintf("--audit-log-maxsize=%d", auditMegabyte),

		// How to reach others. Webhooks and extension API servers are reached at
		// the addresses of their pods: this machine routes pod addresses and not
		// cluster IPs.
		"--enable-aggregator-routing=true",
		"--proxy-client-cert-file=" + s.Leaf(pki.FrontProxy),
		"--proxy-client-key-file=" + s.Leaf(pki.FrontProxy),
		"--kubelet-certificate-authority=" + s.Cert(pki.ClusterCA), // 1.2.5
		"--kubelet-client-certificate=" + s.Leaf(pki.APIServerKubelet),
		"--kubelet-client-key=" + s.Leaf(pki.APIServerKubelet),
		"--kubelet-preferred-address-types=InternalIP,Hostname",

		"--service-cluster-ip-range=" + ipv6.Join(c.ServiceCIDR, c.IPv6.ServiceCIDR),
		"--allow-privileged=true",
		"--encryption-provider-config=" + s.Secret(pki.Encryption), // 1.2.27
	}
	if c.AdmissionPort != 0 {
		argv = append(argv, "--admission-control-config-file="+generated(c, admissionFile))
	}
	return append(argv, datastore(c)...)
}

func datastore(c config.Config) []string {
	if c.Datastore.Embedded() {
		s := store(c)
		return []string{
			"--etcd-servers=" + EtcdEndpoint(c),
			"--etcd-cafile=" + s.Cert(pki.EtcdCA),
			"--etcd-certfile=" + s.Leaf(pki.APIServerEtcd),
			"--etcd-keyfile=" + s.Leaf(pki.APIServerEtcd),
		}
	}
	d := c.Datastore
	argv := []string{"--etcd-servers=" + strings.Join(d.Endpoints, ",")}
	if d.CAFile != "" {
		argv = append(argv, "--etcd-cafile="+d.CAFile)
	}
	if d.CertFile != "" {
		argv = append(argv, "--etcd-certfile="+d.CertFile, "--etcd-keyfile="+d.KeyFile)
	}
	return argv
}

// electLeader: with its own etcd this is the only control plane, and an election would
// only cost time: after a crash the new process would wait for up to 15 s until the old
// one's lease has run out.
func electLeader(c config.Config) string {
	return fmt.Sprintf("--leader-elect=%t", !c.Datastore.Embedded())
}

// controllerManager returns the command line of kube-controller-manager.
func controllerManager(c config.Config) []string {
	s := store(c)
	kubeconfig := generated(c, ControllerManager+".kubeconfig")
	return slices.Concat([]string{
		"--kubeconfig=" + kubeconfig,
		electLeader(c),
		// It has no server: its metrics are part of the API server's, because they belong
		// to the process, and so is its liveness. So there is no port to protect (1.3.7)
		// or to collide.
		"--secure-port=0",
		"--bind-address=127.0.0.1",
		"--profiling=false",                      // 1.3.2
		"--use-service-account-credentials=true", // 1.3.3
		"--service-account-private-key-file=" + s.Key(pki.ServiceAccount), // 1.3.4
		"--root-ca-file=" + s.Cert(pki.ClusterCA),                         // 1.3.5
		"--cluster-name=" + c.Name,
		"--cluster-signing-cert-file=" + s.Cert(pki.ClusterCA),
		"--cluster-signing-key-file=" + s.Key(pki.ClusterCA),
		"--cluster-signing-duration=8760h",
		"--allocate-node-cidrs=true",
		"--cluster-cidr=" + ipv6.Join(c.PodCIDR, c.IPv6.PodCIDR),
	}, nodeMasks(c), []string{
		"--service-cluster-ip-range=" + ipv6.Join(c.ServiceCIDR, c.IPv6.ServiceCIDR),
		"--configure-cloud-routes=false",
		// The first two are off by default; bootstrap tokens need them. The third writes
		// an annotation for kubelets that keep Secrets for a time; ours watch. It writes
		// while the node IPAM controller gives a new node its range, and causes that
		// controller to retry with its stale view: a second range, a refusal by the API
		// server and an event CIDRAssignmentFailed.
		"--controllers=*,bootstrap-signer-controller,token-cleaner-controller,-ttl-controller",
		// The defaults (20 and 30) stretch the first start by seconds, because each of
		// some 40 controllers requests its own token.
		"--kube-api-qps=100",
		"--kube-api-burst=200",
	})
}

// nodeMasks returns the flags for the size of a node's part of the pods' networks, one for each family.
func nodeMasks(c config.Config) []string {
	family := "ipv4"
	if c.PodCIDR.Addr().Is6() {
		family = "ipv6"
	}
	flags := []string{fmt.Sprintf("--node-cidr-mask-size-%s=%d", family, c.NodeMaskSize)}
	if !c.IPv6.IsZero() {
		flags = append(flags, fmt.Sprintf("--node-cidr-mask-size-ipv6=%d", c.NodeMaskSizeIPv6))
	}
	return flags
}

// scheduler returns the command line of kube-scheduler.
func scheduler(c config.Config) []string {
	kubeconfig := generated(c, Scheduler+".kubeconfig")
	return []string{
		"--kubeconfig=" + kubeconfig,
		electLeader(c),
		"--secure-port=0", // as for kube-controller-manager; 1.4.2
		"--bind-address=127.0.0.1",
		"--profiling=false", // 1.4.1
	}
}
