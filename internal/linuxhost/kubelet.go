// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"net/netip"

	"github.com/mullion-k8s/mullion/internal/agent/componentconfig"
	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
)

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

// kubeletConfiguration is the kubelet's configuration on Linux.
type kubeletConfiguration struct {
	componentconfig.KubeletConfiguration

	CgroupDriver string `json:"cgroupDriver"`
	// FailCgroupV1 is true by default; many machines still have version 1.
	FailCgroupV1 bool `json:"failCgroupV1"`
	// FailSwapOn: swap is the machine's business.
	FailSwapOn bool `json:"failSwapOn"`

	// SeccompDefault gives containerd's profile to a container without a profile.
	SeccompDefault bool `json:"seccompDefault"`
	// PodPIDsLimit is the number of processes and threads of a pod.
	PodPIDsLimit int64 `json:"podPidsLimit"`
}

func describeKubelet(c Config) kubeletConfiguration {
	return kubeletConfiguration{
		KubeletConfiguration: componentconfig.NewKubelet(caFile, c.Domain, []netip.Addr{c.DNS},
			"unix://"+containerdSocket),
		CgroupDriver:   "cgroupfs",
		SeccompDefault: true,
		PodPIDsLimit:   podProcesses,
	}
}

// podProcesses leaves room for a server with a thread per connection, and keeps one pod from using up the host's
// limit, half of the machine's. It is the limit that OpenShift has for a pod.
const podProcesses = 4096

// kubeletArgv returns the command line, with the settings that the configuration
// file lacks.
func kubeletArgv(c Config) []string {
	return []string{
		programsDir + "/kubelet",
		"--config=" + kubeletConfig,
		"--bootstrap-kubeconfig=" + bootstrapKubeconfig,
		"--kubeconfig=" + kubeletKubeconfig,
		"--hostname-override=" + c.Name,
		"--node-ip=" + ipv6.Join(c.Address.Addr(), c.IPv6Address.Addr()),
		"--v=2",
	}
}
