// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// kubeletConfiguration is the part of KubeletConfiguration, version
// kubelet.config.k8s.io/v1beta1, that differs from its defaults on our nodes.
// A test decodes it strictly with upstream's types; linking them here would
// triple the executable.
type kubeletConfiguration struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`

	Authentication kubeletAuthentication `json:"authentication"`
	Authorization  kubeletAuthorization  `json:"authorization"`
	// ReadOnlyPort 0 is the default; written because audits look for it (CIS 4.2.4).
	ReadOnlyPort int `json:"readOnlyPort"`
	// RotateCertificates and ServerTLSBootstrap: client and serving certificate
	// are requested from the cluster and renewed.
	RotateCertificates bool `json:"rotateCertificates"`
	ServerTLSBootstrap bool `json:"serverTLSBootstrap"`

	ClusterDomain string       `json:"clusterDomain"`
	ClusterDNS    []netip.Addr `json:"clusterDNS"`
	// ResolvConf must be "" on Windows, as kubeadm makes it on join
	// (kubernetes v1.36.3 cmd/kubeadm/app/componentconfigs/kubelet_windows.go):
	// the default names a file that no Windows has.
	ResolvConf string `json:"resolvConf"`

	// Windows has no cgroups (kubernetes v1.36.3
	// pkg/kubelet/apis/config/validation/validation_windows.go).
	CgroupsPerQOS          bool     `json:"cgroupsPerQOS"`
	EnforceNodeAllocatable []string `json:"enforceNodeAllocatable"`

	ContainerRuntimeEndpoint string `json:"containerRuntimeEndpoint"`
	// VolumePluginDir: the default is below \usr\libexec, which does not fit
	// Windows.
	VolumePluginDir string `json:"volumePluginDir"`

	RegisterWithTaints []taint `json:"registerWithTaints,omitempty"`

	// MergeDefaultEvictionSettings keeps the defaults of what EvictionHard does not name.
	MergeDefaultEvictionSettings bool `json:"mergeDefaultEvictionSettings"`
	Kubelet
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

type taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

func describeKubelet(c Config) kubeletConfiguration {
	k := kubeletConfiguration{
		APIVersion: "kubelet.config.k8s.io/v1beta1", Kind: "KubeletConfiguration",
		Authorization:      kubeletAuthorization{Mode: "Webhook"},
		RotateCertificates: true, ServerTLSBootstrap: true,
		ClusterDomain: c.Cluster.Domain, ClusterDNS: c.Cluster.DNS,
		EnforceNodeAllocatable:   []string{},
		ContainerRuntimeEndpoint: c.Runtime.Endpoint,
		VolumePluginDir:          KubeletDir + `\volume-plugins`,

		MergeDefaultEvictionSettings: true,
		Kubelet:                      c.Kubelet,
	}
	k.Authentication.Webhook.Enabled = true
	k.Authentication.X509.ClientCAFile = c.Cluster.CAFile
	for _, t := range c.Node.Taints {
		kv, effect, _ := strings.Cut(t, ":")
		key, value, _ := strings.Cut(kv, "=")
		k.RegisterWithTaints = append(k.RegisterWithTaints, taint{key, value, effect})
	}
	return k
}

// kubeletArgv returns the command line, with the settings that the configuration
// file lacks. It holds no secrets, because every user of the machine can read it.
func kubeletArgv(c Config) []string {
	argv := []string{
		kubeletExe,
		"--windows-service",
		// As the documentation of Windows nodes recommends, so that busy pods do
		// not starve the kubelet (compare dockerd and containerd, which do the same).
		"--windows-priorityclass=ABOVE_NORMAL_PRIORITY_CLASS",
		"--config=" + kubeletConfig,
		"--bootstrap-kubeconfig=" + bootstrapKubeconfig,
		"--kubeconfig=" + kubeletKubeconfig,
		"--cert-dir=" + kubeletPKI,
		"--root-dir=" + KubeletDir,
		"--hostname-override=" + c.Node.Name,
		"--node-ip=" + c.nodeIPs(),
		"--v=2",
	}
	if len(c.Node.Labels) > 0 {
		var labels []string
		for _, k := range slices.Sorted(maps.Keys(c.Node.Labels)) {
			labels = append(labels, k+"="+c.Node.Labels[k])
		}
		argv = append(argv, "--node-labels="+strings.Join(labels, ","))
	}
	return argv
}
