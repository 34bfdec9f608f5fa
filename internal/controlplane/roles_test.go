// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package controlplane

import (
	"context"
	"sync/atomic"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/tools/cache"
)

// TestSettledAuthorizer: a request that comes before the roles have been read is decided afterwards, or when it ends.
func TestSettledAuthorizer(t *testing.T) {
	var read atomic.Bool
	refused := make(chan struct{}, 10)
	s := settledAuthorizer{
		authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string,
			error) {
			if read.Load() && a.GetVerb() == "get" || a.GetVerb() == "master" {
				return authorizer.DecisionAllow, "", nil
			}
			refused <- struct{}{}
			return authorizer.DecisionNoOpinion, "", nil
		}), []cache.InformerSynced{read.Load}}
	authorize := func(ctx context.Context, verb string) authorizer.Decision {
		d, _, err := s.Authorize(ctx, authorizer.AttributesRecord{Verb: verb})
		if err != nil {
			t.Error(err)
		}
		return d
	}
	if got := authorize(t.Context(), "master"); got != authorizer.DecisionAllow {
		t.Errorf("who needs no role: %v", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got := authorize(ended, "get"); got == authorizer.DecisionAllow {
		t.Errorf("a request that ended: %v", got)
	}
	for len(refused) > 0 {
		<-refused
	}
	decided := make(chan authorizer.Decision)
	go func() { decided <- authorize(t.Context(), "get") }()
	<-refused
	read.Store(true)
	if got := <-decided; got != authorizer.DecisionAllow {
		t.Errorf("a request that waited: %v", got)
	}
	if got := authorize(t.Context(), "delete"); got == authorizer.DecisionAllow {
		t.Errorf("without a role: %v", got)
	}
}
