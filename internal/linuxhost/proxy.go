// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"github.com/mullion-k8s/mullion/internal/agent/componentconfig"
	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
)

const (
	proxyConfig    = "/etc/kubernetes/kube-proxy.json"
	nodeKubeconfig = "/etc/kubernetes/node.kubeconfig"
)

// proxyConfiguration is kube-proxy's configuration on Linux.
type proxyConfiguration struct {
	componentconfig.KubeProxyConfiguration
	Conntrack proxyConntrack `json:"conntrack"`
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
	return proxyConfiguration{
		KubeProxyConfiguration: componentconfig.NewKubeProxy(nodeKubeconfig, c.Name, "nftables",
			ipv6.Join(c.PodCIDR, c.IPv6.PodCIDR)),
		Conntrack: proxyConntrack{TCPEstablishedTimeout: "0s", TCPCloseWaitTimeout: "0s"},
	}
}

func proxyArgv() []string {
	return []string{programsDir + "/kube-proxy", "--config=" + proxyConfig, "--v=2"}
}
