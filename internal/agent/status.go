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

// Status is the status of the node, as the agent writes it to StatusFile.
type Status struct {
	Node string `json:"node"`
	PID  int    `json:"pid"`
	// Since is the time of the last change of Message.
	Since time.Time `json:"since"`
	// Message says what the node is waiting for; it is empty if the node is complete.
	Message string `json:"message,omitempty"`

	Joined  bool   `json:"joined"`
	Ready   bool   `json:"ready"` // the Node's condition, seen at the API server
	PodCIDR string `json:"podCIDR,omitempty"`
	// Mode is how pods of different nodes reach each other.
	Mode NetworkMode `json:"networkMode"`
	// SourceVIP is kube-proxy's, of an overlay.
	SourceVIP string        `json:"sourceVIP,omitempty"`
	Network   bool          `json:"network"` // the HNS network and the CNI configuration are there
	Kubelet   ProgramStatus `json:"kubelet"`
	Proxy     ProgramStatus `json:"kubeProxy"`
	// NetworkPolicies is "enforced", or says why they are not as the cluster has them
	// now; empty if the agent does not enforce them.
	NetworkPolicies string `json:"networkPolicies,omitempty"`
	// Flannel is flanneld's, in the modes that have it.
	Flannel *ProgramStatus `json:"flanneld,omitempty"`
}

// ProgramStatus is the status of one service.
type ProgramStatus struct {
	State    string `json:"state"`
	PID      uint32 `json:"pid,omitempty"`
	Restarts int    `json:"restarts"`
	Message  string `json:"message,omitempty"`
}

// Healthy reports whether the node is complete.
func (s Status) Healthy() bool { return s.Joined && s.Ready && s.Network && s.Message == "" }

// errNoStatus is returned if the agent has never run here.
var errNoStatus = errors.New("the agent has not run on this machine")

// ReadStatus reads the last status that an agent wrote.
func ReadStatus(d Disk) (Status, error) {
	s, err := durable.ReadStatus[Status](d.Path(StatusFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Status{}, errNoStatus
	}
	if err != nil {
		return Status{}, fmt.Errorf("read agent status: %w", err)
	}
	return s, nil
}
