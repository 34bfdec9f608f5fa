// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"github.com/mullion-k8s/mullion/internal/cgroup"
	"github.com/mullion-k8s/mullion/internal/host"
)

// boot is the document that the parent sends to process 1.
type boot struct {
	Config Config `json:"config"`
	// CA and Token are the content of the files that Config names: process 1 cannot
	// see them.
	CA    []byte `json:"ca"`
	Token string `json:"token,omitempty"`
	// Secret is the password of the parent's proxy for image pulls. A pod in the
	// host's network reaches the proxy, and must not reach the machine through it.
	Secret string `json:"secret"`
	// Cgroups are the hierarchies of the machine; the host has all of them.
	Cgroups cgroup.Hierarchies `json:"cgroups"`
	// Size of the machine as the host's programs see it.
	Size host.Size `json:"size"`
}
