// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import "github.com/mullion-k8s/mullion/internal/host"

// boot is the document that the parent sends to process 1.
type boot struct {
	host.Boot
	Config Config `json:"config"`
	// Secret is the password of the parent's proxy for image pulls. A pod in the
	// host's network reaches the proxy, and must not reach the machine through it.
	Secret string `json:"secret"`
}
