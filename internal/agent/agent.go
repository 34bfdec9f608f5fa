// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/nodeapi"
	"github.com/mullion-k8s/mullion/internal/supervise"
	"github.com/mullion-k8s/mullion/internal/winsys/acl"
	"github.com/mullion-k8s/mullion/internal/winsys/scm"
)

// Intervals between passes: short while the node starts, so that each step
// follows the previous one at once; longer when the node is complete. Checking
// the services takes two local calls; checking the cluster takes a request, so
// that happens less often.
const (
	busy         = 200 * time.Millisecond
	idle         = 2 * time.Second
	clusterEvery = 30 * time.Second
)

// Options configures an Agent.
type Options struct {
	Config Config
	Disk   Disk
	SCM    scm.Manager
	HNS    HNS
	// Plugins runs CNI plugins; nil means as programs of this machine.
	Plugins invoke.Exec
	// Answers checks that a program of the node responds at an address; nil means over HTTP.
	Answers func(ctx context.Context, address string) error
	Log     *slog.Logger
	// Statuses receives each status, a JSON document per line. It may be nil.
	Statuses io.Writer
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Agent keeps a machine set up as a node. Its methods are not safe for concurrent use.
type Agent struct {
	Options
	kubelet, flannel, proxy *reconciler
	api                     *nodeapi.Client
	volumes                 volumes

	node     nodeapi.Node  // last known; without a pod range before
	queried  time.Time     // when the cluster was last queried
	strayed  time.Time     // time of the last search for pods of former ranges
	changed  chan struct{} // receives when the node is to be queried again
	watching bool          // whether something sends to changed
	status   Status
	reported *string // the last message that was logged; nil before the first

	policies   *policyKeeper  // nil until it runs
	lifted     bool           // no endpoint has ACLs of an agent that enforced policies
	background sync.WaitGroup // of policies
	wake       supervise.Bell // ends the wait for the next pass
}

// New returns an agent. Run starts it.
func New(o Options) *Agent {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Answers == nil {
		o.Answers = func(ctx context.Context, address string) error {
			return supervise.Answers("tcp", address, supervise.HTTPRequest)(ctx)
		}
	}
	a := &Agent{Options: o, changed: make(chan struct{}, 1)}
	for _, r := range []**reconciler{&a.kubelet, &a.flannel, &a.proxy} {
		*r = &reconciler{scm: o.SCM, disk: o.Disk, now: o.Now, answers: o.Answers, wake: a.wake.Ring}
	}
	return a
}

// Run works until the context is cancelled. The services keep running without
// it. Run returns an error only if the machine cannot be a node; it retries after
// all other errors.
func (a *Agent) Run(ctx context.Context) error {
	for _, d := range directories() {
		if err := acl.Make(a.Disk.Path(d.path), d.list); err != nil {
			return err
		}
	}
	defer a.background.Wait()
	defer a.waitForStorage()
	a.Log.Info("agent started", logkey.Node, a.Config.Node.Name, logkey.URL, a.Config.Cluster.Server)
	for _, r := range a.Config.Renamed {
		a.Log.Warn("agent.json has a former name; change it before the next release", logkey.Reason, r)
	}
	for {
		wait, woken := idle, a.wake.Next()
		if !a.pass(ctx) {
			wait = busy
		}
		select {
		case <-ctx.Done():
			return nil
		case <-a.changed:
			a.watching, a.queried, a.strayed = false, time.Time{}, time.Time{}
		case <-woken:
		case <-time.After(wait):
		}
	}
}

// pass checks and corrects everything once, and reports whether the node is
// complete.
func (a *Agent) pass(ctx context.Context) bool {
	err := a.advance(ctx)
	if ctx.Err() != nil {
		return false
	}
	if err == nil && !a.node.Ready {
		err = errors.New("waiting for the node to become Ready")
	}
	message := ""
	if err != nil {
		message = err.Error()
	}
	if a.reported == nil || message != *a.reported {
		a.reported = &message
		a.status.Since = a.Now()
		if err != nil {
			a.Log.Info("node is not complete yet", logkey.Reason, message)
		} else {
			a.Log.Info("node is complete")
		}
	}
	a.status.Message = message
	a.publish()
	return err == nil
}

// advance does everything that can be done now. Later steps need earlier ones, so
// it stops at the first step that is incomplete; but it keeps kube-proxy running
// while the kubelet is down, and vice versa.
func (a *Agent) advance(ctx context.Context) error {
	a.status.Node, a.status.PID, a.status.Mode = a.Config.Node.Name, os.Getpid(), a.Config.Network.Mode
	ca, err := os.ReadFile(a.Disk.Path(a.Config.Cluster.CAFile))
	if err != nil {
		return fmt.Errorf("read CA certificate: %w", err)
	}
	a.status.Joined = Joined(a.Disk, a.Now())
	token, err := a.token()
	if err != nil {
		return err
	}
	d, err := describe(a.Config, ca, token)
	if err != nil {
		return err
	}
	if d.Bootstrap != nil {
		if err := writeFiles(a.Disk, []file{*d.Bootstrap}); err != nil {
			return err
		}
	}
	var kubeletErr error
	a.status.Kubelet, kubeletErr = a.kubelet.reconcile(d.Kubelet)
	if !a.status.Joined {
		return errors.Join(kubeletErr, errors.New("waiting for the kubelet to get its certificate"))
	}
	if err := a.forgetToken(); err != nil {
		return errors.Join(kubeletErr, err)
	}
	return errors.Join(kubeletErr, a.connect(ctx, ca))
}

// connect does the steps that need the cluster: the pods' network and kube-proxy.
func (a *Agent) connect(ctx context.Context, ca []byte) error {
	if a.api == nil {
		api, err := nodeapi.New(a.Config.Cluster.Server, a.Config.Node.Name, ca, a.Disk.Path(KubeletKeyPair))
		if err != nil {
			return err
		}
		a.api = api
	}
	queryErr := a.queryNode(ctx)
	if queryErr == nil {
		queryErr = a.recordFrozen(ctx)
	}
	if !a.node.PodCIDR.IsValid() {
		if queryErr != nil {
			return queryErr
		}
		return errors.New("waiting for the cluster to give this node a pod range")
	}
	storageErr := a.runStorage(ctx)
	flannelErr := a.runFlannel(ca)
	podCIDRs, sourceVIP, err := a.makeNetwork(ctx)
	if err == nil {
		err = a.enforcePolicies(ctx, ca, podCIDRs)
	}
	if err == nil {
		err = a.writeCNI(podCIDRs)
	}
	a.status.Network, a.status.PodCIDR = err == nil, a.node.PodCIDR.String()
	if err != nil {
		return errors.Join(storageErr, flannelErr, err)
	}
	strayErr := a.deleteStrays(ctx)
	dsr, err := directServerReturn(ctx, hnsClient{a.HNS}, a.Config)
	if err != nil {
		return errors.Join(queryErr, flannelErr, err)
	}
	proxy, err := describeProxy(a.Config, ca, sourceVIP, dsr)
	if err != nil {
		return err
	}
	var proxyErr error
	a.status.Proxy, proxyErr = a.proxy.reconcile(proxy)
	return errors.Join(queryErr, storageErr, flannelErr, strayErr, proxyErr)
}

// recordFrozen records an event for each restart of a program that did not respond.
func (a *Agent) recordFrozen(ctx context.Context) error {
	for _, r := range []*reconciler{a.kubelet, a.proxy} {
		if r.frozen == nil || r.recorded {
			continue
		}
		a.Log.Warn("program restarted", logkey.Reason, r.frozen.Message)
		if err := a.api.Warn(ctx, r.frozen.At, nodeapi.ReasonFrozen, r.frozen.Message); err != nil {
			return err
		}
		r.recorded = true
	}
	return nil
}

// runFlannel keeps flanneld running in the modes that have it.
func (a *Agent) runFlannel(ca []byte) error {
	if !a.Config.Network.Mode.Flannel() {
		return nil
	}
	flannel, err := describeFlannel(a.Config, ca, a.node)
	if err != nil {
		return err
	}
	st, err := a.flannel.reconcile(flannel)
	a.status.Flannel = &st
	return err
}

// makeNetwork makes the pods' network, or waits until flanneld has made it. In an overlay it reserves the
// source VIP before the first pod can get an address, and returns it.
func (a *Agent) makeNetwork(ctx context.Context) (podCIDRs []netip.Prefix, sourceVIP netip.Addr, err error) {
	h, podCIDR := hnsClient{a.HNS}, a.node.PodCIDR
	if podCIDRs, err = a.podRanges(ctx); err != nil {
		return nil, sourceVIP, err
	}
	if a.Config.Network.Mode.Flannel() {
		// The network stays as it is while flanneld is away.
		err := flannelReady(ctx, h, a.Config, a.Disk, podCIDR)
		if err == nil && a.Config.Network.Mode == VXLAN {
			sourceVIP, err = reserveSourceVIP(ctx, a.Plugins, a.Config, a.Disk, podCIDR)
			a.status.SourceVIP = sourceVIP.String()
		}
		return podCIDRs, sourceVIP, err
	}
	did, err := ensureNetwork(ctx, h, a.Config, podCIDRs)
	if did != "" {
		a.Log.Info("pod network is as wanted", logkey.Reason, did, logkey.Network, a.Config.Network.Name,
			logkey.Address, joinAll(podCIDRs))
	}
	return podCIDRs, sourceVIP, err
}

// queryNode queries the cluster if the interval has passed.
func (a *Agent) queryNode(ctx context.Context) error {
	every := clusterEvery
	if !a.node.PodCIDR.IsValid() || !a.node.Ready {
		every = 0
	}
	if a.Now().Sub(a.queried) < every {
		return nil
	}
	a.queried = a.Now()
	n, err := a.api.Get(ctx)
	if err != nil {
		return err
	}
	a.status.Ready = n.Ready
	a.watch(ctx, n.Version)
	if !n.PodCIDR.IsValid() { // the node is away for a moment; its pods are still there
		n.UID, n.PodCIDR, n.IPv6PodCIDR = a.node.UID, a.node.PodCIDR, a.node.IPv6PodCIDR
	}
	a.node = n
	return nil
}

// deleteStrays deletes pods of former ranges of the node, as often as the node is queried: the kubelet reports the
// address of a pod that started before the CNI configuration had the new range only after a while.
func (a *Agent) deleteStrays(ctx context.Context) error {
	if a.Now().Sub(a.strayed) < clusterEvery {
		return nil
	}
	a.strayed = a.Now()
	deleted, err := a.api.DeleteStrays(ctx, a.node.PodCIDRs())
	for _, pod := range deleted {
		a.Log.Info("pod deleted: its address is of a former range of the node", logkey.Pod, pod)
	}
	return err
}

// watch lets the node be queried again as soon as it changes. A node that is deleted and
// joins again may have another range, and a pod that starts before the CNI configuration
// has it gets an address that leads to another node.
func (a *Agent) watch(ctx context.Context, version string) {
	if a.watching || version == "" {
		return
	}
	a.watching = true
	go func() {
		if err := a.api.Await(ctx, version); err != nil {
			// The node is queried at intervals meanwhile.
			select {
			case <-time.After(clusterEvery):
			case <-ctx.Done():
				return
			}
		}
		a.changed <- struct{}{}
	}()
}

// enforcePolicies starts the enforcement of NetworkPolicies once, or removes the remains
// of an agent that enforced them.
func (a *Agent) enforcePolicies(ctx context.Context, ca []byte, podCIDRs []netip.Prefix) error {
	if !a.Config.Network.EnforcePolicies {
		if a.lifted {
			return nil
		}
		err := liftPolicies(ctx, hnsClient{a.HNS})
		a.lifted = err == nil
		return err
	}
	if a.policies == nil {
		k, err := newPolicyKeeper(a.Config, ca, a.Disk.Path(KubeletKeyPair), hnsClient{a.HNS}, a.Log, a.wake.Ring)
		if err != nil {
			return err
		}
		a.policies = k
		defer a.background.Go(func() { k.run(ctx) })
	}
	a.policies.reachedFrom(nodeAddresses(a.Config, podCIDRs))
	a.status.NetworkPolicies = "enforced"
	if err := a.policies.failure(); err != nil {
		a.status.NetworkPolicies = err.Error()
	}
	return nil
}

func (a *Agent) writeCNI(podCIDRs []netip.Prefix) error {
	var acls []schema.ACLSetting
	if a.policies != nil {
		isolate, known := a.policies.state()
		if !known && a.exists(cniConf) {
			return nil // the existing file has the last known state
		}
		if !known {
			return fmt.Errorf("waiting to read the cluster's NetworkPolicies: %s", a.status.NetworkPolicies)
		}
		if isolate {
			acls = isolated(nodeAddresses(a.Config, podCIDRs))
		}
	}
	f, err := cniFile(a.Config, podCIDRs, acls)
	if err != nil {
		return err
	}
	return writeFiles(a.Disk, []file{f})
}

// Joined reports whether the kubelet has its own identity, so that the node needs
// no token. A kubelet whose certificate has expired has lost it.
func Joined(d Disk, now time.Time) bool {
	path := d.Path(KubeletKeyPair)
	pair, err := tls.LoadX509KeyPair(path, path)
	if err != nil || !now.Before(pair.Leaf.NotAfter) {
		return false
	}
	_, err = os.Stat(d.Path(kubeletKubeconfig))
	return err == nil
}

func (a *Agent) exists(windows string) bool {
	_, err := os.Stat(a.Disk.Path(windows))
	return err == nil
}

// token returns the bootstrap token, or "" once the node has joined.
func (a *Agent) token() (string, error) {
	if a.status.Joined {
		return "", nil
	}
	if a.Config.Cluster.TokenFile == "" {
		return "", errors.New("the node has not joined, and agent.json names no tokenFile")
	}
	content, err := os.ReadFile(a.Disk.Path(a.Config.Cluster.TokenFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the node has not joined, and there is no bootstrap token: put a new one into %s",
			a.Config.Cluster.TokenFile)
	}
	if err != nil {
		return "", fmt.Errorf("read bootstrap token: %w", err)
	}
	return strings.TrimSpace(string(content)), nil
}

// forgetToken deletes the bootstrap token and the bootstrap kubeconfig.
func (a *Agent) forgetToken() error {
	for _, f := range []string{bootstrapKubeconfig, a.Config.Cluster.TokenFile} {
		if f == "" || !a.exists(f) {
			continue
		}
		if err := os.Remove(a.Disk.Path(f)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("delete bootstrap token: %w", err)
		}
		a.Log.Info("bootstrap token deleted", logkey.Path, f)
	}
	return nil
}

// publish writes a changed status to the file and to Statuses. It only logs a failure: the node works without them.
func (a *Agent) publish() {
	content, err := durable.EncodeDocument(a.status)
	path := a.Disk.Path(StatusFile)
	now := time.Now() // the file system's clock, not the agent's
	switch info, statErr := os.Stat(path); {
	case err != nil:
	case !same(path, content):
		err = durable.WriteFile(path, content, 0o600)
		if err == nil && a.Statuses != nil {
			err = json.NewEncoder(a.Statuses).Encode(a.status)
		}
	case statErr == nil && now.Sub(info.ModTime()).Abs() >= heartbeat:
		err = os.Chtimes(path, now, now)
	}
	if err != nil {
		a.Log.Warn("status not written", logkey.Error, err)
	}
}
