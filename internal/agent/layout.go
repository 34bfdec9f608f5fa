// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"path/filepath"
	"runtime"
	"strings"
)

// Paths on a node. The kubelet's directories are the usual ones of Windows nodes, the CNI
// directories are from containerd's default configuration, so that other tools find them.
const (
	ProgramDir = `C:\Program Files\mullion`
	StateDir   = `C:\ProgramData\mullion`

	// podsDir has the volumes of pods.
	podsDir = KubeletDir + `\pods`
	// KubeletDir has the kubelet's identity in the cluster.
	KubeletDir = `C:\var\lib\kubelet`

	ConfigFile = StateDir + `\agent.json`
	StatusFile = StateDir + `\status.json`

	agentExe   = ProgramDir + `\mullion.exe`
	kubeletExe = ProgramDir + `\kubelet.exe`
	proxyExe   = ProgramDir + `\kube-proxy.exe`
	flannelExe = ProgramDir + `\flanneld.exe`

	bootstrapKubeconfig = StateDir + `\bootstrap-kubeconfig`
	kubeletConfig       = StateDir + `\kubelet-config.yaml`
	proxyConfig         = StateDir + `\kube-proxy-config.yaml`
	proxyKubeconfig     = StateDir + `\kube-proxy.kubeconfig`
	flannelKubeconfig   = StateDir + `\flanneld.kubeconfig`
	flannelNetConf      = StateDir + `\net-conf.json`
	startedFile         = StateDir + `\started.json`

	// ipamDir, flannelSubnetFile and flannelDataDir are the plugins' defaults, with a
	// drive.
	ipamDir           = `C:\var\lib\cni\networks`
	flannelSubnetFile = `C:\run\flannel\subnet.env`
	flannelDataDir    = `C:\var\lib\cni\flannel`
	kubeletKubeconfig = KubeletDir + `\kubeconfig`
	kubeletPKI        = KubeletDir + `\pki`
	// KubeletKeyPair is written and rotated by the kubelet itself
	// (k8s.io/client-go/util/certificate, NewFileStore).
	KubeletKeyPair = kubeletPKI + `\kubelet-client-current.pem`

	cniBinDir  = `C:\Program Files\containerd\cni\bin`
	cniConfDir = `C:\Program Files\containerd\cni\conf`
	cniConf    = cniConfDir + `\10-mullion.conf`

	logDir     = `C:\var\log`
	kubeletLog = logDir + `\kubelet\kubelet.log`
	proxyLog   = logDir + `\kube-proxy\kube-proxy.log`
	flannelLog = logDir + `\flanneld\flanneld.log`
)

// Disk is the location of the node's C:. On Windows it is C: itself; tests and emulated
// hosts have it in a directory.
type Disk struct {
	Root string // "" on Windows
}

// Path returns the name of a file on C: for the operating system that we run on.
func (d Disk) Path(windows string) string {
	if d.Root == "" {
		return windows
	}
	rest := strings.TrimPrefix(windows, `C:\`)
	if runtime.GOOS != "windows" {
		rest = strings.ReplaceAll(rest, `\`, "/")
	}
	return filepath.Join(d.Root, rest)
}
