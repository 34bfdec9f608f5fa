// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package plan

import (
	"fmt"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/controlplane/pki"
)

// metricsServer returns the command line of metrics-server. Flags that don't depend on
// the environment are as in upstream's components.yaml (manifests/base/deployment.yaml).
func metricsServer(c config.Config) []string {
	s := store(c)
	kubeconfig := Kubeconfig(c, MetricsServer)
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--bind-address=" + c.MetricsAddress.Addr().String(),
		fmt.Sprintf("--secure-port=%d", c.MetricsAddress.Port()),
		"--tls-cert-file=" + s.Leaf(pki.MetricsServer),
		"--tls-private-key-file=" + s.Leaf(pki.MetricsServer),
		"--tls-min-version=VersionTLS12",
		"--profiling=false",

		// Only kube-apiserver may send requests, with the names of its own clients.
		"--authentication-skip-lookup=true",
		"--requestheader-client-ca-file=" + s.Cert(pki.FrontProxyCA),
		"--requestheader-allowed-names=front-proxy-client",
		"--authorization-kubeconfig=" + kubeconfig,

		"--kubelet-certificate-authority=" + s.Cert(pki.ClusterCA),
		"--kubelet-preferred-address-types=InternalIP,Hostname",
		"--kubelet-use-node-status-port",
		"--metric-resolution=15s",
	}
}

// metricsRoles returns the roles of metrics-server, and the role that lets users who may
// view a namespace see its metrics (manifests/base/rbac.yaml).
func metricsRoles(c config.Config) []object {
	if !c.MetricsAddress.IsValid() {
		return nil
	}
	reader := clusterRole("system:aggregated-metrics-reader",
		object{"apiGroups": []string{"metrics.k8s.io"}, "resources": []string{"pods", "nodes"},
			"verbs": []string{"get", "list", "watch"}})
	const aggregate = "rbac.authorization.k8s.io/aggregate-to-"
	reader["metadata"].(object)["labels"] = object{aggregate + "view": "true", aggregate + "edit": "true",
		aggregate + "admin": "true"}
	return []object{reader, clusterRole("mullion:metrics-server",
		rule("", "nodes/metrics", "get"),
		rule("", "pods", "list", "watch"), rule("", "nodes", "list", "watch"),
		rule("authorization.k8s.io", "subjectaccessreviews", "create"))}
}

// metricsService returns the Service through which the API server reaches metrics-server.
// It has no selector, because the server is not a pod.
func metricsService(c config.Config) object {
	return object{"apiVersion": "v1", "kind": "Service",
		"metadata": object{"name": "metrics-server", "namespace": "kube-system",
			"labels": object{"k8s-app": "metrics-server"}},
		"spec": object{"type": "ClusterIP", "ports": []object{{"name": "https", "port": 443, "protocol": "TCP",
			"targetPort": c.MetricsAddress.Port(), "appProtocol": "https"}}}}
}

func metricsEndpoints(c config.Config) object {
	return endpoints("metrics-server", c.MetricsAddress.Addr(),
		object{"name": "https", "port": c.MetricsAddress.Port(), "protocol": "TCP", "appProtocol": "https"})
}

// metricsAPI makes the API server pass requests for the metrics on. Upstream's manifest
// does not check the server's certificate; here the cluster's authority signs it.
func metricsAPI(caPEM []byte) object {
	return object{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": object{"name": "v1beta1.metrics.k8s.io", "labels": object{"k8s-app": "metrics-server"}},
		"spec": object{"group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100,
			"versionPriority": 100, "caBundle": caPEM,
			"service": object{"name": "metrics-server", "namespace": "kube-system", "port": 443}}}
}
