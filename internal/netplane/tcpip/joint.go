// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package tcpip

import (
	"context"
	"sync"

	"github.com/mullion-k8s/mullion/internal/netplane/intent"
)

// Joint puts the network that HNS wants and the routes of the host together: the
// data plane takes only complete intents.
type Joint struct {
	apply func(context.Context, intent.Host) error

	mu   sync.Mutex
	host intent.Host // the last applied host. guarded by mu
	// known: HNS has set its part. guarded by mu
	known bool
}

// NewJoint passes intents on to apply.
func NewJoint(apply func(context.Context, intent.Host) error) *Joint { return &Joint{apply: apply} }

// Apply makes the network be as HNS wants it, with the host's routes.
func (j *Joint) Apply(ctx context.Context, want intent.Host) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	want.Routes = j.host.Routes
	if err := j.apply(ctx, want); err != nil {
		return err
	}
	j.host, j.known = want, true
	return nil
}

// SetRoutes replaces the host's routes. Before the first Apply they are only
// remembered for it.
func (j *Joint) SetRoutes(ctx context.Context, routes []intent.HostRoute) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	want := j.host
	want.Routes = routes
	if j.known {
		if err := j.apply(ctx, want); err != nil {
			return err
		}
	}
	j.host = want
	return nil
}
