// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// State is the status that the supervisor publishes; status.json.
type State struct {
	PID        int                `json:"pid"`
	Started    time.Time          `json:"started"`
	Components []supervise.Status `json:"components"`
}

// ReadState returns the state of the running supervisor, and false if none runs.
func ReadState(l Layout) (State, bool, error) {
	pid, err := durable.Holder(l.lock())
	if err != nil || pid == 0 {
		return State{}, false, err
	}
	s, err := durable.ReadStatus[State](l.status())
	if errors.Is(err, fs.ErrNotExist) {
		return State{PID: pid}, true, nil // it has only just begun
	}
	if _, unreadable := errors.AsType[*fs.PathError](err); unreadable {
		return State{}, true, fmt.Errorf("read state: %w", err)
	}
	if err != nil || s.PID != pid {
		// Left over by a supervisor that was killed; the new one has yet to write.
		return State{PID: pid}, true, nil
	}
	return s, true, nil
}

func (s State) write(l Layout) error { return durable.WriteDocument(l.status(), s) }
