// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/mullion-k8s/mullion/internal/atomicfile"
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

// Status is what a host tells about itself in Config.Status. The file is
// meaningful while process PID runs.
type Status struct {
	Name    string `json:"name"`
	Build   string `json:"build"`   // "10.0.17763.7919"
	Product string `json:"product"` // "Windows Server 2019 Datacenter"
	Address string `json:"address"`

	// PID is the `mullion winhost` process, InitPID the host's process 1 as the
	// machine numbers it: `nsenter --all --target InitPID` looks inside.
	PID     int       `json:"pid"`
	InitPID int       `json:"initPID,omitempty"`
	Phase   Phase     `json:"phase"`
	Since   time.Time `json:"since"`
	// Step is what is being prepared, or why it had to be begun anew.
	Step string `json:"step,omitempty"`

	// Components are the processes that init keeps.
	Components []supervise.Status `json:"components,omitempty"`
	// Agent is the node agent's own status document, as it wrote it.
	Agent json.RawMessage `json:"agent,omitempty"`
}

// ReadStatus reads what a host wrote last. The error of a host that never
// started is fs.ErrNotExist.
func ReadStatus(path string) (Status, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return Status{}, fmt.Errorf("read host status: %w", err)
	}
	var s Status
	if err := json.Unmarshal(content, &s); err != nil {
		return Status{}, fmt.Errorf("read host status: %w", err)
	}
	return s, nil
}

func (s Status) write(path string) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return atomicfile.Write(path, append(content, '\n'), 0o600)
}
