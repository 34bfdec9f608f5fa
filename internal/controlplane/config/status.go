// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package config

import (
	"fmt"
	"time"

	"github.com/mullion-k8s/mullion/internal/durable"
)

// Status is the content of StatusFile. It is about the process PID; a reader
// must check that this process still runs (LockFile is locked while it does).
type Status struct {
	PID int `json:"pid"`
	// Ready is true once every component has been ready.
	Ready bool      `json:"ready"`
	Since time.Time `json:"since"` // of the last change of Ready
	// Started is the start time of the process; ReadyAfter is the time until it was
	// ready.
	Started    time.Time         `json:"started"`
	ReadyAfter Duration          `json:"readyAfter,omitzero"`
	Version    string            `json:"version"` // Kubernetes' version
	Components []ComponentStatus `json:"components"`
}

// ComponentStatus is one part of the control plane.
type ComponentStatus struct {
	Name    string    `json:"name"`
	State   string    `json:"state"` // a word of package supervise
	Since   time.Time `json:"since"`
	Message string    `json:"message,omitempty"`
}

// Duration is written as "2.5s".
type Duration time.Duration

// String implements fmt.Stringer.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes it as time.Duration prints it.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText parses the output of MarshalText.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// ReadStatus reads the Status that a control plane has written.
func ReadStatus(path string) (Status, error) {
	s, err := durable.ReadStatus[Status](path)
	if err != nil {
		return s, fmt.Errorf("read control plane status: %w", err)
	}
	return s, nil
}

// Snapshot describes a snapshot of the embedded etcd.
type Snapshot struct {
	Revision int64 `json:"revision"`
	Keys     int   `json:"keys"`
	Size     int64 `json:"size"` // bytes
}
