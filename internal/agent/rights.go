// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import "github.com/mullion-k8s/mullion/internal/winsys/acl"

// directory is a directory with an access control list that the agent maintains.
type directory struct {
	path string
	list acl.List
}

// directories lists the directories with keys, tokens, configuration that runs code, or
// volumes of pods, in the order of their creation. Each gets its access list before its
// content.
//
// The kubelet sets the rights of the logs of containers itself (CVE-2024-5321).
func directories() []directory {
	return []directory{
		{StateDir, acl.Private()},
		{KubeletDir, acl.Private()},
		{kubeletPKI, acl.Private()},
		{podsDir, acl.Volumes()},
		{cniConfDir, acl.Private()},
		{logDir + `\kubelet`, acl.Private()},
		{logDir + `\kube-proxy`, acl.Private()},
		{logDir + `\flanneld`, acl.Private()},
	}
}
