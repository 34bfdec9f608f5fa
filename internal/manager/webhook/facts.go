// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package webhook

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/rule"
)

// Facts provides the facts that the rules need besides the object.
//
// It must answer before the context's deadline, with the facts it has by then;
// the caller does not wait longer. It may be called concurrently, and must not
// change the object.
type Facts interface {
	// Facts returns the known facts for judging object, which is (to be) in
	// namespace. The warnings are for users: kubectl prints them ("registry X
	// does not answer: the image's build is not known").
	Facts(ctx context.Context, namespace string, object *policy.Parsed) (facts policy.Facts, warnings []string)
}

const (
	// factsShare of the time that is left is for facts; the rest is for judging
	// and the way back.
	factsShare = 0.8
	// maxQueries bounds how many calls of Facts may hang: one that does not obey its
	// context is left behind, but not without end.
	maxQueries = 64
)

// factsClient requests facts, with a time limit.
type factsClient struct {
	facts   Facts
	queries atomic.Int32
	log     *slog.Logger
}

// answer is the result of a call.
type answer struct {
	facts    policy.Facts
	warnings []string
}

// get never fails: without facts the object is judged by itself, with a warning
// to the user.
func (a *factsClient) get(ctx context.Context, r *Request) answer {
	if r.known == nil {
		r.known = new(a.query(ctx, r))
	}
	return *r.known
}

func (a *factsClient) query(ctx context.Context, r *Request) answer {
	if a.queries.Load() >= maxQueries {
		return answer{
			warnings: []string{"the facts about the cluster are overloaded: this object was judged without them"}}
	}
	if at, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(factsShare*float64(time.Until(at))))
		defer cancel()
	}
	object := r.parse()
	done := make(chan answer, 1)
	a.queries.Add(1)
	go func() {
		defer a.queries.Add(-1)
		var out answer
		defer func() {
			if p := recover(); p != nil {
				a.log.LogAttrs(ctx, slog.LevelError, "facts about the cluster",
					slog.String(logkey.Reason, fmt.Sprintf("panic: %v\n%s", p, debug.Stack())))
				out =
					answer{
						warnings: []string{"the facts about the cluster failed: this object was judged without them"}}
			}
			done <- out
		}()
		out.facts, out.warnings = a.facts.Facts(ctx, r.Namespace, object)
	}()
	select {
	case out := <-done:
		return out
	case <-ctx.Done():
	}
	select { // both at once
	case out := <-done:
		return out
	case <-time.After(grace):
		return answer{warnings: []string{"the facts about the cluster did not arrive in time: this object was judged " +
			"without them"}}
	}
}

// grace is for Facts that obey the context: they return just after it.
const grace = 20 * time.Millisecond

// evaluators makes one rule.Set for each version of Kubernetes.
type evaluators struct {
	mu   sync.Mutex
	made map[policy.Version]*rule.Set // guarded by mu
}

func (j *evaluators) get(v policy.Version) *rule.Set {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.made[v]
	if e == nil {
		if j.made == nil {
			j.made = map[policy.Version]*rule.Set{}
		}
		e = rule.New(policy.Facts{Kubernetes: v})
		j.made[v] = e
	}
	return e
}
