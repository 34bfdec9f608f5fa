// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/mullion-k8s/mullion/internal/agent/netpolicy"
	"github.com/mullion-k8s/mullion/internal/agent/netpolicy/watch"
	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/nodeapi"
)

// How often the rules are compared with the cluster: while the host learns its range and
// the policies, and later, when the host gets notifications of changes.
const (
	policiesSoon  = followBusy
	policiesEvery = 30 * time.Second
)

// enforcePolicies keeps the rules of the host's pods in line with the cluster's
// NetworkPolicies until the context ends. The rules are the kernel's: they stay in
// force while the API server is away.
func enforcePolicies(ctx context.Context, c Config, authority []byte, node *follower, t tools) error {
	transport, err := nodeapi.Transport(authority, kubeletCertificate)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	w := watch.New(c.Server, &http.Client{Transport: transport}, log)
	var watcher sync.WaitGroup
	watcher.Go(func() { w.Run(ctx) })
	defer watcher.Wait()
	applied, failed := firstPolicyRules(c), ""
	for {
		text, complete := wantedPolicyRules(c, node, w)
		if text != applied {
			err := t.nft(ctx, text)
			if ctx.Err() != nil {
				return nil
			}
			if err == nil {
				applied, failed = text, ""
			} else if complete = false; err.Error() != failed {
				failed = err.Error()
				log.Warn("NetworkPolicies are not enforced", logkey.Error, err)
			}
		}
		wait := policiesEvery
		if !complete {
			wait = policiesSoon
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.Changed():
		case <-time.After(wait):
		}
	}
}

// firstPolicyRules isolate every pod that begins before anything is known.
func firstPolicyRules(c Config) string {
	return policyRules(nil, ipv6.List(c.PodCIDR, c.IPv6.PodCIDR), true)
}

// wantedPolicyRules returns the rules for the current state. While the policies or the
// host's range are not known, the rules are not complete: no pod reaches anything
// before the policies are.
func wantedPolicyRules(c Config, node *follower, w *watch.Watcher) (text string, complete bool) {
	n, _ := node.current()
	cluster, known := w.Cluster()
	if !known || !n.PodCIDR.IsValid() {
		return firstPolicyRules(c), false
	}
	return policyRules(netpolicy.Compile(cluster, c.Name), n.PodCIDRs(), len(cluster.Policies) > 0), true
}
