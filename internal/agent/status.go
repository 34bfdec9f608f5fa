// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// Status is the status of the node, as the agent writes it to StatusFile.
type Status struct {
	Node string `json:"node"`
	PID  int    `json:"pid"`
	// Since is the time of the last change of Message.
	Since time.Time `json:"since"`
	// Message is the reason why the node is incomplete, or "".
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
	// NetworkPolicies is "enforced", or the reason why the rules are not up to date;
	// empty if the agent does not enforce them.
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
	// Frozen is the last restart because the program did not respond, since the start of the
	// agent.
	Frozen *supervise.Freeze `json:"frozen,omitempty"`
	// Hopeless: several such restarts did not help.
	Hopeless bool `json:"hopeless,omitempty"`
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

// heartbeat is the interval at which the agent touches the status file. A frozen agent is noticed after two
// intervals and a minute.
const heartbeat = 5 * time.Second

// Alive returns nil if the agent of the machine makes its passes. The error is a supervise.Permanent one if the agent
// works, but one of its programs does not respond even after restarts.
func Alive(d Disk, now time.Time) error {
	info, err := os.Stat(d.Path(StatusFile))
	if err != nil {
		return fmt.Errorf("check agent: %w", err)
	}
	if age := now.Sub(info.ModTime()); age > 2*heartbeat {
		return fmt.Errorf("check agent: its last sign of life is %s old", age.Round(time.Second))
	}
	s, err := ReadStatus(d)
	if err == nil && (s.Kubelet.Hopeless || s.Proxy.Hopeless) {
		err = supervise.Permanent(errors.New("kubelet.exe or kube-proxy.exe does not answer after several restarts"))
	}
	return err
}
