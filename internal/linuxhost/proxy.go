// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

const (
	proxyConfig    = "/etc/kubernetes/kube-proxy.json"
	nodeKubeconfig = "/etc/kubernetes/node.kubeconfig"
)

// proxyConfiguration is the part of KubeProxyConfiguration, version
// kubeproxy.config.k8s.io/v1alpha1, that differs from its defaults. A test decodes it
// strictly with upstream's types.
type proxyConfiguration struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`

	ClientConnection   proxyClient    `json:"clientConnection"`
	HostnameOverride   string         `json:"hostnameOverride"`
	Mode               string         `json:"mode"`
	ClusterCIDR        string         `json:"clusterCIDR"`
	MetricsBindAddress string         `json:"metricsBindAddress"`
	Conntrack          proxyConntrack `json:"conntrack"`
}

type proxyClient struct {
	Kubeconfig string `json:"kubeconfig"`
}

// proxyConntrack leaves the kernel's limits alone: they are the machine's, as in
// kind (pkg/cluster/internal/kubeadm/config.go).
type proxyConntrack struct {
	MaxPerCore            int    `json:"maxPerCore"`
	Min                   int    `json:"min"`
	TCPEstablishedTimeout string `json:"tcpEstablishedTimeout"`
	TCPCloseWaitTimeout   string `json:"tcpCloseWaitTimeout"`
}

func describeProxy(c Config) proxyConfiguration {
	pods := c.PodCIDR.String()
	if c.dual() {
		pods += "," + c.Second.PodCIDR.String()
	}
	return proxyConfiguration{
		APIVersion:         "kubeproxy.config.k8s.io/v1alpha1",
		Kind:               "KubeProxyConfiguration",
		ClientConnection:   proxyClient{Kubeconfig: nodeKubeconfig},
		HostnameOverride:   c.Name,
		Mode:               "nftables",
		ClusterCIDR:        pods,
		MetricsBindAddress: "127.0.0.1:10249",
		Conntrack:          proxyConntrack{TCPEstablishedTimeout: "0s", TCPCloseWaitTimeout: "0s"},
	}
}

func proxyArgv() []string {
	return []string{programsDir + "/kube-proxy", "--config=" + proxyConfig, "--v=2"}
}
