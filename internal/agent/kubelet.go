// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"maps"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/agent/componentconfig"
	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
)

// kubeletConfiguration is the kubelet's configuration on Windows.
type kubeletConfiguration struct {
	componentconfig.KubeletConfiguration
	// ResolvConf must be "" on Windows, as kubeadm makes it on join
	// (kubernetes v1.36.3 cmd/kubeadm/app/componentconfigs/kubelet_windows.go):
	// the default names a file that no Windows has.
	ResolvConf string `json:"resolvConf"`

	// Windows has no cgroups (kubernetes v1.36.3
	// pkg/kubelet/apis/config/validation/validation_windows.go).
	CgroupsPerQOS          bool     `json:"cgroupsPerQOS"`
	EnforceNodeAllocatable []string `json:"enforceNodeAllocatable"`

	// VolumePluginDir: the default is below \usr\libexec, which does not fit
	// Windows.
	VolumePluginDir string `json:"volumePluginDir"`

	RegisterWithTaints []taint `json:"registerWithTaints,omitempty"`

	// MergeDefaultEvictionSettings keeps the defaults of signals that EvictionHard does
	// not name.
	MergeDefaultEvictionSettings bool `json:"mergeDefaultEvictionSettings"`
	Kubelet
}

type taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

func describeKubelet(c Config) kubeletConfiguration {
	k := kubeletConfiguration{
		KubeletConfiguration: componentconfig.NewKubelet(c.Cluster.CAFile, c.Cluster.Domain, c.Cluster.DNS,
			c.Runtime.Endpoint),
		EnforceNodeAllocatable: []string{},
		VolumePluginDir:        KubeletDir + `\volume-plugins`,

		MergeDefaultEvictionSettings: true,
		Kubelet:                      c.Kubelet,
	}
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
		"--node-ip=" + ipv6.Join(c.Node.Address, c.Node.IPv6Address),
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
