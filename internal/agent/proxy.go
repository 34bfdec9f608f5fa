// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import "net/netip"

// proxyConfiguration is the part of KubeProxyConfiguration, version
// kubeproxy.config.k8s.io/v1alpha1, that differs from its defaults on our
// nodes. A test decodes it strictly with upstream's types.
type proxyConfiguration struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`

	ClientConnection proxyClient `json:"clientConnection"`
	HostnameOverride string      `json:"hostnameOverride"`
	Mode             string      `json:"mode"`
	// BindAddress is the node's own address: kube-proxy takes it for the node IP
	// and need not wait for the Node object to have one.
	BindAddress netip.Addr `json:"bindAddress"`
	ClusterCIDR string     `json:"clusterCIDR"`
	// Metrics stay on the node. The health check for load balancers outside
	// (port 10256) keeps its default, because they come from outside.
	MetricsBindAddress  string         `json:"metricsBindAddress"`
	WindowsRunAsService bool           `json:"windowsRunAsService"`
	Winkernel           proxyWinkernel `json:"winkernel"`
}

type proxyClient struct {
	Kubeconfig string `json:"kubeconfig"`
}

type proxyWinkernel struct {
	NetworkName string `json:"networkName"`
	// SourceVip, of an overlay only; see reserveSourceVIP.
	SourceVip netip.Addr `json:"sourceVip,omitzero"`
	// EnableDSR is false by default upstream; see directServerReturn.
	EnableDSR bool `json:"enableDSR"`
}

// describeProxy returns kube-proxy as a service; sourceVIP is the invalid address but in an overlay.
func describeProxy(c Config, ca []byte, sourceVIP netip.Addr, dsr bool) (program, error) {
	config, err := yamlFile(proxyConfig, describeProxyConfig(c, sourceVIP, dsr))
	if err != nil {
		return program{}, err
	}
	credentials, err := yamlFile(proxyKubeconfig, nodeKubeconfig(c, ca))
	if err != nil {
		return program{}, err
	}
	return program{
		Service: service("kube-proxy", "Kubernetes kube-proxy",
			"Programs the services of the cluster into this node's network.", proxyLog, proxyArgv()),
		Files: []file{config, credentials},
	}, nil
}

func describeProxyConfig(c Config, sourceVIP netip.Addr, dsr bool) proxyConfiguration {
	return proxyConfiguration{
		APIVersion: "kubeproxy.config.k8s.io/v1alpha1", Kind: "KubeProxyConfiguration",
		ClientConnection:   proxyClient{Kubeconfig: proxyKubeconfig},
		HostnameOverride:   c.Node.Name,
		Mode:               "kernelspace",
		BindAddress:        c.Node.Address,
		ClusterCIDR:        c.clusterPods(),
		MetricsBindAddress: "127.0.0.1:10249",
		Winkernel:          proxyWinkernel{NetworkName: c.Network.Name, SourceVip: sourceVIP, EnableDSR: dsr},
	}
}

// proxyArgv returns the command line. Being a service must be said here: kube-proxy
// reads windowsRunAsService of the file only after it has decided about it
// (kubernetes v1.36.3 cmd/kube-proxy/app/server.go, NewProxyCommand).
func proxyArgv() []string {
	return []string{proxyExe, "--windows-service", "--config=" + proxyConfig, "--v=2"}
}
