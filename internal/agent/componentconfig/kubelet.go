// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package componentconfig has the parts of the configuration files of kubelet and kube-proxy that are the same on the
// nodes of both operating systems. Packages agent and linuxhost embed them and add the differences. Tests there
// decode the files strictly with upstream's types; linking the types here would triple the executables.
package componentconfig

import "net/netip"

// Health check addresses of the kubelet (its default) and kube-proxy, on the node itself.
const (
	KubeletHealth = "127.0.0.1:10248"
	ProxyHealth   = "127.0.0.1:10249"
)

// KubeletConfiguration is the part of upstream's type of that name, version kubelet.config.k8s.io/v1beta1, that
// differs from its defaults on all nodes.
type KubeletConfiguration struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`

	Authentication kubeletAuthentication `json:"authentication"`
	Authorization  kubeletAuthorization  `json:"authorization"`
	// ReadOnlyPort 0 is the default; written because audits require it (CIS 4.2.4).
	ReadOnlyPort int `json:"readOnlyPort"`
	// RotateCertificates and ServerTLSBootstrap: client and serving certificate
	// are requested from the cluster and renewed.
	RotateCertificates bool `json:"rotateCertificates"`
	ServerTLSBootstrap bool `json:"serverTLSBootstrap"`

	ClusterDomain string       `json:"clusterDomain"`
	ClusterDNS    []netip.Addr `json:"clusterDNS"`

	ContainerRuntimeEndpoint string `json:"containerRuntimeEndpoint"`
}

type kubeletAuthentication struct {
	Anonymous enabled `json:"anonymous"`
	Webhook   enabled `json:"webhook"`
	X509      struct {
		ClientCAFile string `json:"clientCAFile"`
	} `json:"x509"`
}

type enabled struct {
	Enabled bool `json:"enabled"`
}

type kubeletAuthorization struct {
	Mode string `json:"mode"`
}

// NewKubelet returns the configuration of a node of a cluster. caFile has the cluster's CA certificate, domain and dns
// are the cluster's, and runtime is the endpoint of the node's container runtime.
func NewKubelet(caFile, domain string, dns []netip.Addr, runtime string) KubeletConfiguration {
	k := KubeletConfiguration{
		APIVersion: "kubelet.config.k8s.io/v1beta1", Kind: "KubeletConfiguration",
		Authorization:      kubeletAuthorization{Mode: "Webhook"},
		RotateCertificates: true, ServerTLSBootstrap: true,
		ClusterDomain: domain, ClusterDNS: dns,
		ContainerRuntimeEndpoint: runtime,
	}
	k.Authentication.Webhook.Enabled = true
	k.Authentication.X509.ClientCAFile = caFile
	return k
}
