// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package host

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// Phase of a host's life.
type Phase string

// The phases, in order.
const (
	Preparing Phase = "preparing" // templates, mounts, network
	Running   Phase = "running"   // its processes are started and watched
	Stopping  Phase = "stopping"
	Stopped   Phase = "stopped"
)

// Status is the status that a host writes to Spec.Status. The file is valid only
// while process PID runs.
type Status struct {
	Name    string `json:"name"`
	Build   string `json:"build,omitempty"` // of Windows: "10.0.17763.7919"
	Product string `json:"product"`         // "Windows Server 2019 Datacenter"
	Address string `json:"address"`

	// PID is the parent process, InitPID the host's process 1 as the
	// machine numbers it: `nsenter --all --target InitPID` looks inside.
	PID     int       `json:"pid"`
	InitPID int       `json:"initPID,omitempty"`
	Phase   Phase     `json:"phase"`
	Since   time.Time `json:"since"`
	// Step is the current step of the preparation, or the reason why the host
	// stopped by itself.
	Step string `json:"step,omitempty"`

	// Components are the processes that process 1 keeps.
	Components []supervise.Status `json:"components,omitempty"`
	// Agent is the Windows node agent's own status document, as it wrote it.
	Agent json.RawMessage `json:"agent,omitempty"`
}

// ReadStatus reads the last status that a host wrote. If the host never started,
// the error is fs.ErrNotExist.
func ReadStatus(path string) (Status, error) {
	s, err := durable.ReadStatus[Status](path)
	if err != nil {
		return s, fmt.Errorf("read host status: %w", err)
	}
	return s, nil
}

// Freezes lists the last restart of each program that did not answer, including the agent's programs.
func (s Status) Freezes() []supervise.Freeze {
	var list []supervise.Freeze
	add := func(f *supervise.Freeze) {
		if f != nil {
			list = append(list, *f)
		}
	}
	for _, c := range s.Components {
		add(c.Frozen)
	}
	var a agent.Status
	if json.Unmarshal(s.Agent, &a) == nil { // absent on a Linux worker
		add(a.Kubelet.Frozen)
		add(a.Proxy.Frozen)
	}
	return list
}
