// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package approve decides about the certificate requests of nodes.
//
// Two signers concern it. A joining node requests its identity from
// kubernetes.io/kube-apiserver-client-kubelet, with a bootstrap token: upstream's own
// approver would grant any name, so a token would be enough to become a node that exists
// already; here the name must be the one that the token is bound to, or unused. A node
// requests the certificate of its HTTPS server from kubernetes.io/kubelet-serving:
// upstream leaves its approval to the cluster's owner; here the names and addresses must
// be the node's own and lie in the nodes' network.
//
// Renewal of a client certificate by the node that holds it is approved by
// kube-controller-manager and ignored here.
//
// decide is pure; Controller feeds it. A request that can never be right is denied, so
// that the node's log has the reason; one that may become right (the node has yet to
// register its addresses) waits.
package approve

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
)

// NodeAnnotation of a bootstrap token's Secret names the only node that may join
// with it.
const NodeAnnotation = "mullion.dev/node"

const (
	nodeUser   = "system:node:"
	nodesGroup = "system:nodes"
)

// verdict about a request.
type verdict int

// The verdicts.
const (
	ignore  verdict = iota // not ours to decide
	wait                   // not yet; retry
	deny                   // never
	approve                //
)

// String implements fmt.Stringer.
func (v verdict) String() string { return [...]string{"ignore", "wait", "deny", "approve"}[v] }

// evidence holds everything except the request on which the decision depends.
type evidence struct {
	// Token is the Secret of the requester's bootstrap token; nil if it no longer exists.
	Token *corev1.Secret
	// Node is the object of the node that the request names, or nil.
	Node *corev1.Node
	// Nodes are all of them.
	Nodes []corev1.Node
	// NodeCIDRs are the nodes' networks, one for each address family, Reserved the
	// addresses in them that are not nodes' (the API server's).
	NodeCIDRs []netip.Prefix
	Reserved  []netip.Addr
}

// subject returns the node and the token of a request, so that the evidence can be
// gathered; ours is false for requests that decide would ignore.
func subject(csr *certv1.CertificateSigningRequest) (node, token string, ours bool) {
	if len(csr.Status.Certificate) > 0 || decided(csr) {
		return "", "", false
	}
	switch csr.Spec.SignerName {
	case certv1.KubeAPIServerClientKubeletSignerName:
		id, ok := strings.CutPrefix(csr.Spec.Username, bootstrapapi.BootstrapUserPrefix)
		if !ok || !slices.Contains(csr.Spec.Groups, bootstrapapi.BootstrapDefaultGroup) {
			return "", "", false
		}
		token = id
	case certv1.KubeletServingSignerName:
	default:
		return "", "", false
	}
	if req, err := parse(csr.Spec.Request); err == nil {
		node = strings.TrimPrefix(req.Subject.CommonName, nodeUser)
	}
	return node, token, true
}

func decided(csr *certv1.CertificateSigningRequest) bool {
	return slices.ContainsFunc(csr.Status.Conditions, func(c certv1.CertificateSigningRequestCondition) bool {
		return c.Type == certv1.CertificateApproved || c.Type == certv1.CertificateDenied ||
			c.Type == certv1.CertificateFailed
	})
}

// decide decides about a request; reason is for people.
func decide(csr *certv1.CertificateSigningRequest, f evidence) (v verdict, reason string) {
	if _, _, ours := subject(csr); !ours {
		return ignore, ""
	}
	req, err := parse(csr.Spec.Request)
	if err != nil {
		return deny, err.Error()
	}
	node, ok := strings.CutPrefix(req.Subject.CommonName, nodeUser)
	if !ok || node == "" {
		return deny, fmt.Sprintf("the subject %q is not a node's", req.Subject.CommonName)
	}
	if !slices.Equal(req.Subject.Organization, []string{nodesGroup}) {
		return deny, fmt.Sprintf("the organization is %q, want %s alone", req.Subject.Organization, nodesGroup)
	}
	if len(req.EmailAddresses)+len(req.URIs) > 0 {
		return deny, "the request has mail addresses or URIs"
	}
	if csr.Spec.SignerName == certv1.KubeletServingSignerName {
		return judgeServing(csr, req, node, f)
	}
	return judgeJoin(csr, req, node, f)
}

// judgeJoin decides about a node's first client certificate.
func judgeJoin(csr *certv1.CertificateSigningRequest, req *x509.CertificateRequest, node string,
	f evidence) (verdict, string) {
	if len(req.DNSNames)+len(req.IPAddresses) > 0 {
		return deny, "a client certificate has no names or addresses"
	}
	if !usagesAre(csr.Spec.Usages, certv1.UsageClientAuth) {
		return deny, fmt.Sprintf("usages %q, want client usages", csr.Spec.Usages)
	}
	if f.Token == nil {
		return deny, "the bootstrap token has been deleted"
	}
	if bound := f.Token.Annotations[NodeAnnotation]; bound != "" {
		if bound != node {
			return deny, fmt.Sprintf("the bootstrap token is for node %s, not %s", bound, node)
		}
		return approve, "the bootstrap token is for this node"
	}
	if f.Node != nil {
		return deny, fmt.Sprintf("node %s exists already; use a token that is bound to it, or delete the node first",
			node)
	}
	return approve, "the bootstrap token is good and the node is new"
}

// judgeServing decides about the certificate of a node's own server.
func judgeServing(csr *certv1.CertificateSigningRequest, req *x509.CertificateRequest, node string,
	f evidence) (verdict, string) {
	if csr.Spec.Username != nodeUser+node || !slices.Contains(csr.Spec.Groups, nodesGroup) {
		return deny, fmt.Sprintf("%s requests a certificate of node %s", csr.Spec.Username, node)
	}
	if !usagesAre(csr.Spec.Usages, certv1.UsageServerAuth) {
		return deny, fmt.Sprintf("usages %q, want server usages", csr.Spec.Usages)
	}
	if len(req.DNSNames)+len(req.IPAddresses) == 0 {
		return deny, "a server's certificate needs a name or an address"
	}
	if f.Node == nil {
		return wait, fmt.Sprintf("node %s is not registered yet", node)
	}
	for _, ip := range req.IPAddresses {
		a, ok := netip.AddrFromSlice(ip)
		a = a.Unmap()
		inside := slices.ContainsFunc(f.NodeCIDRs, func(p netip.Prefix) bool { return p.Contains(a) })
		if !ok || !inside || slices.Contains(f.Reserved, a) {
			return deny, fmt.Sprintf("%s is not an address for nodes (%s)", ip, listed(f.NodeCIDRs))
		}
		if other := owner(f.Nodes, node, a.String()); other != "" {
			return deny, fmt.Sprintf("%s is the address of node %s", a, other)
		}
		if !has(f.Node, a.String(), corev1.NodeInternalIP, corev1.NodeExternalIP) {
			return wait, fmt.Sprintf("node %s has not registered the address %s", node, a)
		}
	}
	for _, name := range req.DNSNames {
		if other := owner(f.Nodes, node, name); other != "" {
			return deny, fmt.Sprintf("%s is the name of node %s", name, other)
		}
		if !has(f.Node, name, corev1.NodeHostName, corev1.NodeInternalDNS, corev1.NodeExternalDNS) {
			return wait, fmt.Sprintf("node %s has not registered the name %s", node, name)
		}
		// The node itself reports its names; that keeps it from reporting the API
		// server's.
		if !strings.EqualFold(name, node) && !strings.EqualFold(name, f.Node.Labels[corev1.LabelHostname]) {
			return deny, fmt.Sprintf("%s is not the name of node %s", name, node)
		}
	}
	return approve, "the names and addresses are the node's own"
}

// listed names networks in a sentence.
func listed(networks []netip.Prefix) string {
	var text []string
	for _, p := range networks {
		text = append(text, p.String())
	}
	return strings.Join(text, ", ")
}

// usagesAre reports whether the usages are exactly the ones that a kubelet requests:
// want, digital signature, and with an RSA key also key encipherment
// (k8s.io/kubernetes/pkg/apis/certificates, ValidateKubeletServingCSR).
func usagesAre(have []certv1.KeyUsage, want certv1.KeyUsage) bool {
	s := slices.Clone(have)
	slices.Sort(s)
	s = slices.Compact(s)
	short := []certv1.KeyUsage{certv1.UsageDigitalSignature, want}
	long := append([]certv1.KeyUsage{certv1.UsageKeyEncipherment}, short...)
	slices.Sort(short)
	slices.Sort(long)
	return slices.Equal(s, short) || slices.Equal(s, long)
}

func has(node *corev1.Node, value string, types ...corev1.NodeAddressType) bool {
	return slices.ContainsFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool {
		return slices.Contains(types, a.Type) && strings.EqualFold(a.Address, value)
	})
}

// owner names another node that has registered the value, or "".
func owner(nodes []corev1.Node, self, value string) string {
	for _, n := range nodes {
		if n.Name == self {
			continue
		}
		if strings.EqualFold(n.Name, value) ||
			slices.ContainsFunc(n.Status.Addresses, func(a corev1.NodeAddress) bool {
				return strings.EqualFold(a.Address, value)
			}) {
			return n.Name
		}
	}
	return ""
}

func parse(request []byte) (*x509.CertificateRequest, error) {
	block, rest := pem.Decode(request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, errors.New("it is not one PEM block with a certificate request")
	}
	req, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse certificate request: %w", err)
	}
	return req, nil
}
