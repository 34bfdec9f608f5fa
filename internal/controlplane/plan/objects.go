// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/controlplane/pki"
	"github.com/mullion-k8s/mullion/internal/durable/kubeconfig"
)

// Groups that users of bootstrap tokens are in.
const (
	// BootstrapGroup is given to the tokens that package join makes. Kubernetes
	// demands the prefix (bootstrap.kubernetes.io/token, auth-extra-groups).
	BootstrapGroup = "system:bootstrappers:mullion:nodes"
	nodesGroup     = "system:nodes"
)

// Object is one that every cluster has. It is applied to its path.
type Object struct {
	Path    string
	Content []byte
}

const rbacAPI = "rbac.authorization.k8s.io/v1"

// Objects lists the objects to write when the API server is up. caPEM is the cluster's
// authority, for cluster-info.
func Objects(c config.Config, caPEM []byte) ([]Object, error) {
	var out []Object
	var failed error
	add := func(collection string, o object) {
		meta := o["metadata"].(object)
		meta["labels"] = labels(meta["labels"])
		data, err := json.Marshal(o)
		if err != nil {
			failed = fmt.Errorf("marshal %s: %w", collection, err)
		}
		out = append(out, Object{fmt.Sprintf("%s/%s", collection, meta["name"]), data})
	}
	for _, o := range append(clusterRoles(c), metricsRoles(c)...) {
		add("/apis/"+rbacAPI+"/clusterroles", o)
	}
	for _, o := range clusterRoleBindings(c) {
		add("/apis/"+rbacAPI+"/clusterrolebindings", o)
	}
	const system, public = "/namespaces/kube-system", "/namespaces/kube-public"
	add("/apis/"+rbacAPI+system+"/roles", role("kube-system", "mullion:bootstrap-tokens", rule("", "secrets", "get")))
	add("/apis/"+rbacAPI+system+"/rolebindings", roleBinding("kube-system", "mullion:bootstrap-tokens",
		subject("User", pki.ControllersUser)))

	info, err := clusterInfo(c, caPEM)
	if err != nil {
		return nil, err
	}
	add("/api/v1"+public+"/configmaps", info)
	named := rule("", "configmaps", "get")
	named["resourceNames"] = []string{"cluster-info"}
	add("/apis/"+rbacAPI+public+"/roles", role("kube-public", "mullion:cluster-info", named))
	add("/apis/"+rbacAPI+public+"/rolebindings",
		roleBinding("kube-public", "mullion:cluster-info", subject("Group", BootstrapGroup)))

	if c.DNSAddress.IsValid() {
		add("/api/v1"+system+"/services", dnsService(c))
		add("/apis/discovery.k8s.io/v1"+system+"/endpointslices", dnsEndpoints(c))
	}
	if c.MetricsAddress.IsValid() {
		add("/api/v1"+system+"/services", metricsService(c))
		add("/apis/discovery.k8s.io/v1"+system+"/endpointslices", metricsEndpoints(c))
		add("/apis/apiregistration.k8s.io/v1/apiservices", metricsAPI(caPEM))
	}
	return out, failed
}

func labels(more any) object {
	l := object{"app.kubernetes.io/managed-by": "mullion"}
	if m, ok := more.(object); ok {
		maps.Copy(l, m)
	}
	return l
}

func rule(group, resource string, verbs ...string) object {
	return object{"apiGroups": []string{group}, "resources": []string{resource}, "verbs": verbs}
}

func subject(kind, name string) object {
	return object{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
}

func clusterRole(name string, rules ...object) object {
	return object{"apiVersion": rbacAPI, "kind": "ClusterRole", "metadata": object{"name": name}, "rules": rules}
}

func role(namespace, name string, rules ...object) object {
	return object{"apiVersion": rbacAPI, "kind": "Role", "metadata": object{"name": name, "namespace": namespace},
		"rules": rules}
}

func roleBinding(namespace, roleName string, who object) object {
	return object{"apiVersion": rbacAPI, "kind": "RoleBinding",
		"metadata": object{"name": roleName, "namespace": namespace},
		"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": roleName},
		"subjects": []object{who}}
}

func clusterRoleBinding(name, roleName string, who object) object {
	return object{"apiVersion": rbacAPI, "kind": "ClusterRoleBinding", "metadata": object{"name": name},
		"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": roleName},
		"subjects": []object{who}}
}

func clusterRoles(c config.Config) []object {
	read := []string{"list", "watch"}
	approve := rule("certificates.k8s.io", "signers", "approve")
	approve["resourceNames"] = []string{"kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"}
	roles := []object{
		// The objects that CoreDNS' kubernetes plugin reads with "pods insecure"
		// (plugin/kubernetes/README.md).
		clusterRole("mullion:coredns",
			rule("", "services", read...), rule("", "namespaces", read...),
			rule("discovery.k8s.io", "endpointslices", read...)),
		clusterRole("mullion:controllers",
			rule("certificates.k8s.io", "certificatesigningrequests", "get", "list", "watch"),
			rule("certificates.k8s.io", "certificatesigningrequests/approval", "update"),
			approve,
			rule("", "nodes", "get", "list")),
	}
	if c.NetworkPolicy {
		// The objects that internal/agent/netpolicy/watch reads; system:node-proxier has
		// EndpointSlices.
		roles = append(roles, clusterRole("mullion:network-policies",
			rule("networking.k8s.io", "networkpolicies", read...),
			rule("", "pods", read...), rule("", "namespaces", read...)))
	}
	return roles
}

func clusterRoleBindings(c config.Config) []object {
	b := []object{
		clusterRoleBinding("mullion:cluster-admins", "cluster-admin", subject("Group", pki.AdminGroup)),
		// kube-apiserver, for logs, exec and port-forward.
		clusterRoleBinding("mullion:kubelet-clients", "system:kubelet-api-admin",
			subject("Group", pki.KubeletClientGroup)),
		// To join, a node may only request a certificate. Package approve decides about
		// the request, because RBAC cannot check whether the name belongs to another
		// node.
		clusterRoleBinding("mullion:node-bootstrappers", "system:node-bootstrapper", subject("Group", BootstrapGroup)),
		// Renewing one's own certificate.
		clusterRoleBinding("mullion:node-renewal",
			"system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", subject("Group", nodesGroup)),
		// kube-proxy runs with its node's identity. It gets no more permissions than
		// an administrator of the node has anyway.
		clusterRoleBinding("mullion:node-proxiers", "system:node-proxier", subject("Group", nodesGroup)),
		clusterRoleBinding("mullion:controllers", "mullion:controllers", subject("User", pki.ControllersUser)),
	}
	if c.NetworkPolicy {
		// Nodes enforce policies with their own identity, as they run kube-proxy.
		b = append(b, clusterRoleBinding("mullion:network-policies", "mullion:network-policies",
			subject("Group", nodesGroup)))
	}
	if len(c.LoadBalancer.Pools()) > 0 {
		// Upstream's role for the controller of this name.
		b = append(b, clusterRoleBinding("mullion:service-controller", "system:controller:service-controller",
			subject("User", pki.ServiceControllerUser)))
	}
	if c.DNSAddress.IsValid() {
		b = append(b, clusterRoleBinding("mullion:coredns", "mullion:coredns", subject("User", pki.CoreDNSUser)))
	}
	if c.MetricsAddress.IsValid() {
		b = append(b, clusterRoleBinding("mullion:metrics-server", "mullion:metrics-server",
			subject("User", pki.MetricsServerUser)))
	}
	return b
}

// clusterInfo has the server and its authority, for joining nodes
// (https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/).
func clusterInfo(c config.Config, caPEM []byte) (object, error) {
	k := kubeconfig.New()
	k.Clusters = []kubeconfig.Cluster{kubeconfig.WithCAData("", fmt.Sprintf("https://%s", hostPort(c)), caPEM)}
	k.Users, k.Contexts = []kubeconfig.User{}, []kubeconfig.Context{}
	data, err := json.Marshal(k)
	if err != nil {
		return nil, fmt.Errorf("marshal cluster-info: %w", err)
	}
	return object{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": object{"name": "cluster-info", "namespace": "kube-public"},
		"data":     object{"kubeconfig": string(data)}}, nil
}

// dnsService returns the Service through which pods reach the cluster's DNS server.
// It has no selector, because the server is not a pod; the names, ports and labels
// are kubeadm's.
func dnsService(c config.Config) object {
	port := c.DNSAddress.Port()
	return object{"apiVersion": "v1", "kind": "Service",
		"metadata": object{"name": "kube-dns", "namespace": "kube-system",
			"labels": object{"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true",
				"kubernetes.io/name": "CoreDNS"}},
		"spec": object{"clusterIP": c.DNSServiceIP.String(), "type": "ClusterIP", "ports": []object{
			{"name": "dns", "port": 53, "protocol": "UDP", "targetPort": port},
			{"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": port},
		}}}
}

func dnsEndpoints(c config.Config) object {
	port := c.DNSAddress.Port()
	return endpoints("kube-dns", c.DNSAddress.Addr(),
		object{"name": "dns", "port": port, "protocol": "UDP"},
		object{"name": "dns-tcp", "port": port, "protocol": "TCP"})
}

// endpoints returns the EndpointSlice of a Service in kube-system that is a part of
// this process.
func endpoints(service string, at netip.Addr, ports ...object) object {
	family := "IPv4"
	if at.Is6() {
		family = "IPv6"
	}
	return object{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
		"metadata": object{"name": service + "-mullion", "namespace": "kube-system",
			"labels": object{"kubernetes.io/service-name": service,
				"endpointslice.kubernetes.io/managed-by": "mullion"}},
		"addressType": family,
		"endpoints":   []object{{"addresses": []string{at.String()}, "conditions": object{"ready": true}}},
		"ports":       ports}
}
