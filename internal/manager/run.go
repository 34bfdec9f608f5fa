// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package manager

import "context"

// Run is the life of a manager: it returns nil when the context is cancelled
// and everything has stopped.
func Run(ctx context.Context, c Config) error {
	m, err := New(c)
	if err != nil {
		return err
	}
	return m.Run(ctx)
}

// Manager is one manager.
type Manager struct{ cfg Config }

// New checks the configuration and makes a manager. It does nothing yet.
func New(c Config) (*Manager, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Manager{cfg: c.withDefaults()}, nil
}

// Run runs the manager until the context is cancelled.
func (m *Manager) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Ready says whether the webhooks are registered and answer; the error says
// what is missing.
func (m *Manager) Ready(ctx context.Context) error { return nil }
