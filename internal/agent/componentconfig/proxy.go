// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package componentconfig

// KubeProxyConfiguration is the part of upstream's type of that name, version kubeproxy.config.k8s.io/v1alpha1, that
// differs from its defaults on all nodes.
type KubeProxyConfiguration struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`

	ClientConnection proxyClient `json:"clientConnection"`
	HostnameOverride string      `json:"hostnameOverride"`
	Mode             string      `json:"mode"`
	ClusterCIDR      string      `json:"clusterCIDR"`
	// Metrics stay on the node. The health check for load balancers outside
	// (port 10256) keeps its default, because they come from outside.
	MetricsBindAddress string `json:"metricsBindAddress"`
}

type proxyClient struct {
	Kubeconfig string `json:"kubeconfig"`
}

// NewKubeProxy returns the configuration of a node. pods are the cluster's pod networks, separated by commas.
func NewKubeProxy(kubeconfig, node, mode, pods string) KubeProxyConfiguration {
	return KubeProxyConfiguration{
		APIVersion: "kubeproxy.config.k8s.io/v1alpha1", Kind: "KubeProxyConfiguration",
		ClientConnection:   proxyClient{Kubeconfig: kubeconfig},
		HostnameOverride:   node,
		Mode:               mode,
		ClusterCIDR:        pods,
		MetricsBindAddress: ProxyHealth,
	}
}
