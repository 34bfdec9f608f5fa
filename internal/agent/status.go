// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/mullion-k8s/mullion/internal/durable"
)

// Status is what the agent tells about the node in StatusFile.
type Status struct {
	Node string `json:"node"`
	PID  int    `json:"pid"`
	// Since is when the agent last changed its mind about Message.
	Since time.Time `json:"since"`
	// Message says what the node waits for; empty when it has all it needs.
	Message string `json:"message,omitempty"`

	Joined  bool          `json:"joined"`
	Ready   bool          `json:"ready"` // the Node's condition, seen at the API server
	PodCIDR string        `json:"podCIDR,omitempty"`
	Network bool          `json:"network"` // the HNS network and the CNI configuration are there
	Kubelet ProgramStatus `json:"kubelet"`
	Proxy   ProgramStatus `json:"kubeProxy"`
}

// ProgramStatus is how one service does.
type ProgramStatus struct {
	State    string `json:"state"`
	PID      uint32 `json:"pid,omitempty"`
	Restarts int    `json:"restarts"`
	Message  string `json:"message,omitempty"`
}

// Healthy says that nothing is missing.
func (s Status) Healthy() bool { return s.Joined && s.Ready && s.Network && s.Message == "" }

// ErrNoStatus is returned if the agent has never run here.
var ErrNoStatus = errors.New("the agent has not run on this machine")

// ReadStatus reads what a running agent wrote last.
func ReadStatus(d Disk) (Status, error) {
	s, err := durable.ReadStatus[Status](d.Path(StatusFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Status{}, ErrNoStatus
	}
	if err != nil {
		return Status{}, fmt.Errorf("read agent status: %w", err)
	}
	return s, nil
}
