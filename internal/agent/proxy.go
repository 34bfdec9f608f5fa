// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"net/netip"

	"github.com/mullion-k8s/mullion/internal/agent/componentconfig"
	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
)

// proxyConfiguration is kube-proxy's configuration on Windows.
type proxyConfiguration struct {
	componentconfig.KubeProxyConfiguration
	// BindAddress is the node's own address: kube-proxy takes it for the node IP
	// and need not wait for the Node object to have one.
	BindAddress         netip.Addr     `json:"bindAddress"`
	WindowsRunAsService bool           `json:"windowsRunAsService"`
	Winkernel           proxyWinkernel `json:"winkernel"`
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
		Files:  []file{config, credentials},
		Health: componentconfig.ProxyHealth,
	}, nil
}

func describeProxyConfig(c Config, sourceVIP netip.Addr, dsr bool) proxyConfiguration {
	return proxyConfiguration{
		KubeProxyConfiguration: componentconfig.NewKubeProxy(proxyKubeconfig, c.Node.Name, "kernelspace",
			ipv6.Join(c.Cluster.PodCIDR, c.Cluster.IPv6.PodCIDR)),
		BindAddress: c.Node.Address,
		Winkernel:   proxyWinkernel{NetworkName: c.Network.Name, SourceVip: sourceVIP, EnableDSR: dsr},
	}
}

// proxyArgv returns the command line. It must have the flag for running as a service:
// kube-proxy reads windowsRunAsService of the file only after it has decided about it
// (kubernetes v1.36.3 cmd/kube-proxy/app/server.go, NewProxyCommand).
func proxyArgv() []string {
	return []string{proxyExe, "--windows-service", "--config=" + proxyConfig, "--v=2"}
}
