// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package plan

import (
	"fmt"
	"path/filepath"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/controlplane/pki"
	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/durable/kubeconfig"
)

const authenticationFile = "authentication.json"

// object is a JSON object of one of Kubernetes' configuration formats. The
// formats are small here, and their Go types would link the API server.
type object map[string]any

func generated(c config.Config, name string) string { return filepath.Join(c.Generated(), name) }

// Kubeconfig returns the file of a component's identity.
func Kubeconfig(c config.Config, component string) string {
	return generated(c, component+".kubeconfig")
}

func files(c config.Config) ([]File, error) {
	s := store(c)
	var fs []File
	add := func(name string, content any) error {
		data, err := durable.EncodeDocument(content)
		if err != nil {
			return fmt.Errorf("make %s: %w", name, err)
		}
		fs = append(fs, File{generated(c, name), 0o600, data})
		return nil
	}
	type named struct {
		name    string
		content any
	}
	all := []named{{"audit-policy.json", auditPolicy()}, {authenticationFile, authentication()}}
	ids := []struct{ component, leaf string }{{ControllerManager, pki.ControllerManager}, {Scheduler, pki.Scheduler},
		{Controllers, pki.Controllers}}
	if c.AdmissionPort != 0 {
		ids = append(ids, struct{ component, leaf string }{Manager, pki.Manager})
		all = append(all, named{admissionFile, admission(c)}, named{admissionKubeconfig, webhookClient(c)})
	}
	if len(c.LoadBalancer.Pools()) > 0 {
		ids = append(ids, struct{ component, leaf string }{ServiceController, pki.ServiceController})
	}
	if c.DNSAddress.IsValid() {
		ids = append(ids, struct{ component, leaf string }{CoreDNS, pki.CoreDNS})
	}
	if c.MetricsAddress.IsValid() {
		ids = append(ids, struct{ component, leaf string }{MetricsServer, pki.MetricsServer})
	}
	for _, id := range ids {
		// The files are named, not copied, so that client-go sees a renewed
		// certificate without a restart.
		all = append(all, named{id.component + ".kubeconfig", forUser(
			kubeconfig.WithCA(c.Name, c.LocalURL(), s.Cert(pki.ClusterCA)),
			id.component, kubeconfig.Credentials{Certificate: s.Leaf(id.leaf), Key: s.Leaf(id.leaf)})})
	}
	for _, f := range all {
		if err := add(f.name, f.content); err != nil {
			return nil, err
		}
	}
	return fs, nil
}

// AdminKubeconfig returns a kubeconfig that holds everything it needs, so that it can
// be copied elsewhere.
func AdminKubeconfig(c config.Config, caPEM, certPEM, keyPEM []byte) ([]byte, error) {
	data, err := durable.EncodeDocument(forUser(
		kubeconfig.WithCAData(c.Name, c.LocalURL(), caPEM),
		"admin", kubeconfig.Credentials{CertificateData: certPEM, KeyData: keyPEM}))
	if err != nil {
		return nil, fmt.Errorf("make admin kubeconfig: %w", err)
	}
	return data, nil
}

// forUser returns a kubeconfig of one user. It is written as JSON, which is YAML.
func forUser(c kubeconfig.Cluster, name string, credentials kubeconfig.Credentials) kubeconfig.Config {
	return kubeconfig.ForUser(name+"@"+c.Name, c, kubeconfig.User{Name: name, User: credentials})
}

// authentication allows anonymous requests only for the health checks
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#anonymous-requests).
func authentication() object {
	return object{
		"apiVersion": "apiserver.config.k8s.io/v1",
		"kind":       "AuthenticationConfiguration",
		"anonymous": object{
			"enabled":    true,
			"conditions": []object{{"path": "/livez"}, {"path": "/readyz"}, {"path": "/healthz"}},
		},
	}
}

// auditPolicy records the user, verb and object of requests, never the contents: secrets
// and tokens must not land in a log. The constant requests of the cluster's own
// components (watches, leases, node status, events) are left out, or it would be nearly
// all of the log
// (https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/#audit-policy).
func auditPolicy() object {
	none := func(rule object) object { rule["level"] = "None"; return rule }
	resources := func(group string, names ...string) []object {
		return []object{{"group": group, "resources": names}}
	}
	return object{
		"apiVersion": "audit.k8s.io/v1",
		"kind":       "Policy",
		"omitStages": []string{"RequestReceived"},
		"rules": []object{
			none(object{"resources": append(resources("", "events"), resources("events.k8s.io", "events")...)}),
			none(object{"resources": resources("coordination.k8s.io", "leases")}),
			none(object{"nonResourceURLs": []string{"/healthz*", "/livez*", "/readyz*", "/version", "/openapi/*",
				"/api", "/api/*", "/apis", "/apis/*"}}),
			none(object{"userGroups": []string{"system:nodes"}, "verbs": []string{"get", "list", "watch"},
				"resources": append(resources("", "nodes", "nodes/status", "pods", "services", "configmaps"), append(
					resources("node.k8s.io"),
					append(resources("storage.k8s.io"), resources("discovery.k8s.io")...)...)...)}),
			none(object{"userGroups": []string{"system:nodes"}, "verbs": []string{"update", "patch"},
				"resources": resources("", "nodes/status", "pods/status")}),
			none(object{"users": []string{"system:kube-controller-manager", "system:kube-scheduler", "system:apiserver",
				pki.CoreDNSUser, pki.ControllersUser, pki.MetricsServerUser,
				pki.ServiceControllerUser},
				"verbs": []string{"get", "list", "watch"}}),
			none(object{"userGroups": []string{"system:serviceaccounts:kube-system"},
				"verbs": []string{"get", "list", "watch"}}),
			{"level": "Metadata"},
		},
	}
}
