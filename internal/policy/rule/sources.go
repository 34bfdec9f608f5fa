// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

// Sources of rules. Sources that only one file's rules share are in that file.
const (
	srcAllocation = "k8s.io/kubernetes pkg/kubelet/allocation: features_windows.go"
	srcBaseImages = "https://learn.microsoft.com/virtualization/windowscontainers/manage-containers/" +
		"container-base-images"
	srcBlockVolumes   = "k8s.io/kubernetes pkg/volume/util/volumepathhandler: volume_path_handler_unsupported.go"
	srcClusterDNSTest = "k8s.io/kubernetes test/e2e/network: dns.go"
	srcComputerNames  = "https://learn.microsoft.com/troubleshoot/windows-server/active-directo" +
		"ry/naming-conventions-for-computer-domain-site-ou"
	srcContainerdSpec  = "github.com/containerd/containerd pkg/oci: spec_opts_windows.go"
	srcDNS             = "https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#dns-windows"
	srcDNSTest         = "k8s.io/kubernetes test/e2e/windows: dns.go"
	srcEmptyDirMedium  = "k8s.io/kubernetes pkg/volume/emptydir: empty_dir_unsupported.go"
	srcFlannelBackends = "https://github.com/flannel-io/flannel/blob/master/Documentation/backends.md"
	srcFlannelVXLAN    = "github.com/flannel-io/flannel pkg/backend/vxlan: vxlan_windows.go"
	srcHostNetworkGate = "k8s.io/kubernetes pkg/features: WindowsHostNetwork (withdrawn)"
	srcHostNetworkKEP  = "https://github.com/kubernetes/enhancements/tree/master/" +
		"keps/sig-windows/3503-host-network-support-for-windows-pods"
	srcHostProcessKEP = "https://github.com/kubernetes/enhancements/tree/master/" +
		"keps/sig-windows/1981-windows-privileged-container-support"
	srcMakeAbsolutePath  = "k8s.io/kubernetes pkg/volume/util: util.go, MakeAbsolutePath"
	srcMountUtils        = "k8s.io/mount-utils mount_windows.go"
	srcPersistentStorage = "https://learn.microsoft.com/virtualization/windowscontainers/manage-co" +
		"ntainers/persistent-storage"
	srcRunAsUserName  = "https://kubernetes.io/docs/tasks/configure-pod-container/configure-runasusername/"
	srcValidateResize = "k8s.io/kubernetes pkg/apis/core/validation: ValidatePodResize"
)
