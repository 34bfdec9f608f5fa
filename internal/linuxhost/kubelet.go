// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import "net/netip"

// Files of the host's programs.
const (
	caFile              = "/etc/kubernetes/ca.crt"
	kubeletConfig       = "/etc/kubernetes/kubelet.json"
	bootstrapKubeconfig = "/etc/kubernetes/bootstrap.kubeconfig"
	kubeletDir          = "/var/lib/kubelet"
	kubeletKubeconfig   = kubeletDir + "/kubeconfig"
	// kubeletCertificate is certificate and key; the kubelet renews them.
	kubeletCertificate = kubeletDir + "/pki/kubelet-client-current.pem"
)

// kubeletConfiguration is the part of KubeletConfiguration, version
// kubelet.config.k8s.io/v1beta1, that differs from its defaults. A test decodes it
// strictly with upstream's types.
type kubeletConfiguration struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`

	Authentication     kubeletAuthentication `json:"authentication"`
	Authorization      kubeletAuthorization  `json:"authorization"`
	RotateCertificates bool                  `json:"rotateCertificates"`
	ServerTLSBootstrap bool                  `json:"serverTLSBootstrap"`

	ClusterDomain string       `json:"clusterDomain"`
	ClusterDNS    []netip.Addr `json:"clusterDNS"`

	ContainerRuntimeEndpoint string `json:"containerRuntimeEndpoint"`
	CgroupDriver             string `json:"cgroupDriver"`
	// FailCgroupV1 is true by default; many machines still have version 1.
	FailCgroupV1 bool `json:"failCgroupV1"`
	// FailSwapOn: swap is the machine's business.
	FailSwapOn bool `json:"failSwapOn"`

	// The disk is the machine's too: as on the Windows hosts, only the last
	// gigabyte is reserved, and images are not removed because others fill it.
	EvictionHard                 map[string]string `json:"evictionHard"`
	MergeDefaultEvictionSettings bool              `json:"mergeDefaultEvictionSettings"`
	ImageGCHighThresholdPercent  int               `json:"imageGCHighThresholdPercent"`
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

func describeKubelet(c Config) kubeletConfiguration {
	k := kubeletConfiguration{
		APIVersion:                   "kubelet.config.k8s.io/v1beta1",
		Kind:                         "KubeletConfiguration",
		Authorization:                kubeletAuthorization{Mode: "Webhook"},
		RotateCertificates:           true,
		ServerTLSBootstrap:           true,
		ClusterDomain:                c.Domain,
		ClusterDNS:                   []netip.Addr{c.DNS},
		ContainerRuntimeEndpoint:     "unix://" + containerdSocket,
		CgroupDriver:                 "cgroupfs",
		EvictionHard:                 map[string]string{"nodefs.available": "1Gi", "imagefs.available": "1Gi"},
		MergeDefaultEvictionSettings: true,
		ImageGCHighThresholdPercent:  100,
	}
	k.Authentication.Webhook.Enabled = true
	k.Authentication.X509.ClientCAFile = caFile
	return k
}

// kubeletArgv returns the command line, with the settings that the configuration
// file lacks.
func kubeletArgv(c Config) []string {
	addresses := c.Address.Addr().String()
	if c.dual() {
		addresses += "," + c.Second.Address.Addr().String()
	}
	return []string{
		programsDir + "/kubelet",
		"--config=" + kubeletConfig,
		"--bootstrap-kubeconfig=" + bootstrapKubeconfig,
		"--kubeconfig=" + kubeletKubeconfig,
		"--hostname-override=" + c.Name,
		"--node-ip=" + addresses,
		"--v=2",
	}
}
