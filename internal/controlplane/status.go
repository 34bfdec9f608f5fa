// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controlplane

import (
	"log/slog"
	"os"
	"time"

	"k8s.io/component-base/version"

	"github.com/mullion-k8s/mullion/internal/controlplane/config"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// statusFile keeps config.Status up to date. The supervisor calls update never
// concurrently.
type statusFile struct {
	path string
	log  *slog.Logger
	last config.Status
	// failing keeps a full disk from filling the log, too.
	failing bool
	ready   chan struct{} // closed when everything is ready for the first time
}

func newStatus(path string, started time.Time, log *slog.Logger) *statusFile {
	return &statusFile{path: path, log: log, ready: make(chan struct{}),
		last: config.Status{PID: os.Getpid(), Since: started, Started: started, Version: version.Get().GitVersion}}
}

func (f *statusFile) update(components []supervise.Status) {
	st := f.last
	st.Components = nil
	ready := true
	for _, c := range components {
		st.Components = append(st.Components, config.ComponentStatus{
			Name:    c.Name,
			State:   string(c.State),
			Since:   c.Since,
			Message: c.Message,
		})
		ready = ready && c.State == supervise.Ready
	}
	if ready != st.Ready {
		st.Ready, st.Since = ready, time.Now()
		if ready {
			st.ReadyAfter = config.Duration(st.Since.Sub(st.Started).Round(time.Millisecond))
			f.log.Info("the control plane is ready", logkey.Duration, time.Duration(st.ReadyAfter))
			close(f.ready) // ready once, then only stopping: components are not started again
		}
	}
	f.last = st
	err := supervise.WriteStatus(f.path, st)
	if err != nil && !f.failing {
		// The control plane itself may work; the next change tries again.
		f.log.Error("cannot report the status", logkey.Error, err)
	}
	f.failing = err != nil
}
