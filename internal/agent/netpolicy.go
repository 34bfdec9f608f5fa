// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/mullion-k8s/mullion/internal/agent/netpolicy"
	"github.com/mullion-k8s/mullion/internal/agent/netpolicy/watch"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/nodeapi"
)

// policyKeeper enforces NetworkPolicies: it keeps the ACLs of the pods' endpoints in step
// with the cluster's policies. HNS holds the ACLs, so they stay in force while the agent
// or the API server is away, and over restarts of both.
//
// While the cluster has a policy, the CNI configuration gives each new endpoint the ACLs
// of an isolated pod. The keeper replaces them when it finds the endpoint's pod, so no
// packet of a new pod passes before its policies are known.
type policyKeeper struct {
	node    string
	hns     hnsClient
	cluster *watch.Watcher
	log     *slog.Logger
	// wake notifies the agent of a change of isolate.
	wake func()

	// written has the last ACLs written to each endpoint, by its ID.
	written map[string]string

	mu      sync.Mutex
	known   bool         // guarded by mu; the policies were read once
	isolate bool         // guarded by mu; new endpoints begin isolated
	err     error        // guarded by mu; of the last pass
	always  []netip.Addr // guarded by mu; the node's own addresses
}

// The interval at which the keeper compares all ACLs with the desired ones even without a
// change, and the delay of a retry after a failure.
const (
	policiesEvery = 30 * time.Second
	policiesRetry = time.Second
)

func newPolicyKeeper(c Config, ca []byte, keyPair string, h hnsClient, log *slog.Logger,
	wake func()) (*policyKeeper, error) {
	transport, err := nodeapi.Transport(ca, keyPair)
	if err != nil {
		return nil, err
	}
	return &policyKeeper{node: c.Node.Name, hns: h,
		cluster: watch.New(c.Cluster.Server, &http.Client{Transport: transport}, log),
		log:     log, wake: wake, written: map[string]string{}}, nil
}

// nodeAddresses returns the addresses from which the node reaches its pods.
func nodeAddresses(c Config, podCIDRs []netip.Prefix) []netip.Addr {
	var list []netip.Addr
	for i, p := range podCIDRs {
		a := addressesOf(p)
		list = append(list, []netip.Addr{c.Node.Address, c.Node.IPv6Address}[i], a.gateway, a.host)
	}
	return list
}

// reachedFrom sets the addresses of the node that always reach its pods.
func (k *policyKeeper) reachedFrom(node []netip.Addr) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.always = node
}

// run works until the context ends.
func (k *policyKeeper) run(ctx context.Context) {
	var watcher sync.WaitGroup
	watcher.Go(func() { k.cluster.Run(ctx) })
	defer watcher.Wait()
	next := time.NewTimer(policiesEvery)
	defer next.Stop()
	all := true
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.cluster.Changed():
		case <-next.C:
			all = true
		}
		err := k.pass(ctx, all)
		wait := policiesEvery
		if err != nil {
			wait = policiesRetry
		}
		all = false
		next.Reset(wait)
	}
}

// pass brings the endpoints of this node up to date: only the ones with changed rules, or
// all of them.
func (k *policyKeeper) pass(ctx context.Context, all bool) error {
	c, ok := k.cluster.Cluster()
	if !ok {
		return nil
	}
	k.publish(len(c.Policies) > 0)
	err := k.apply(ctx, netpolicy.Compile(c, k.node), all)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil && (k.err == nil || k.err.Error() != err.Error()) {
		k.log.Warn("NetworkPolicies are not enforced everywhere", logkey.Error, err)
	}
	k.err = err
	return err
}

// publish records whether new endpoints begin isolated, before any rule changes.
func (k *policyKeeper) publish(isolate bool) {
	k.mu.Lock()
	changed := !k.known || k.isolate != isolate
	k.known, k.isolate = true, isolate
	k.mu.Unlock()
	if changed {
		k.wake()
	}
}

// state returns whether new endpoints begin isolated, and false before that is known.
func (k *policyKeeper) state() (isolate, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.isolate, k.known
}

// failure returns why policies are not enforced as the cluster has them now.
func (k *policyKeeper) failure() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return errors.Join(k.cluster.Err(), k.err)
}

// apply writes ACLs. A failure at one endpoint does not keep the others from theirs.
func (k *policyKeeper) apply(ctx context.Context, pods []netpolicy.Endpoint, all bool) error {
	list, err := k.hns.endpoints(ctx)
	if err != nil {
		return fmt.Errorf("list endpoints: %w", err)
	}
	byAddress := map[string]*netpolicy.Endpoint{}
	for i := range pods {
		for _, a := range pods[i].Addresses {
			byAddress[a.String()] = &pods[i]
		}
	}
	k.mu.Lock()
	always := k.always
	k.mu.Unlock()
	var errs []error
	present := map[string]bool{}
	for _, e := range list {
		pod := byAddress[e.IPAddress]
		if e.IsRemoteEndpoint || pod == nil {
			continue // its pod is not known yet
		}
		present[e.ID] = true
		want := describeACLs(*pod, always)
		ids := []string{pod.Namespace + "/" + pod.Name}
		for _, a := range want {
			ids = append(ids, a.ID)
		}
		key := strings.Join(ids, " ")
		if !all && k.written[e.ID] == key {
			continue
		}
		if err := writeACLs(ctx, k.hns, e.ID, want); err != nil {
			delete(k.written, e.ID)
			errs = append(errs, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err))
			continue
		}
		k.written[e.ID] = key
	}
	for id := range k.written {
		if !present[id] {
			delete(k.written, id)
		}
	}
	return errors.Join(errs...)
}

// liftPolicies removes the agent's ACLs from all endpoints.
func liftPolicies(ctx context.Context, h hnsClient) error {
	list, err := h.endpoints(ctx)
	if err != nil {
		return fmt.Errorf("list endpoints: %w", err)
	}
	for _, e := range list {
		if e.IsRemoteEndpoint {
			continue
		}
		if err := writeACLs(ctx, h, e.ID, nil); err != nil {
			return fmt.Errorf("end NetworkPolicies: %w", err)
		}
	}
	return nil
}

// writeACLs replaces the ACLs of an endpoint with the desired ones. It adds before it
// removes, so that no packet finds the endpoint without rules; between the two calls the
// old rules and the new ones are in force.
func writeACLs(ctx context.Context, h hnsClient, endpoint string, want []schema.ACLSetting) error {
	have, err := h.policies(ctx, endpoint)
	if err != nil {
		return err
	}
	add, remove, err := diffACLs(have, want)
	if err != nil {
		return err
	}
	if len(add) > 0 {
		if err := h.modifyPolicies(ctx, endpoint, schema.Add, add); err != nil {
			return err
		}
	}
	if len(remove) > 0 {
		return h.modifyPolicies(ctx, endpoint, schema.Remove, remove)
	}
	return nil
}
