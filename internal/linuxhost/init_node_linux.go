// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/nodeapi"
	"github.com/mullion-k8s/mullion/internal/supervise"
)

// How long the follower waits: while the node starts, and when the API server is away.
const (
	followBusy = 200 * time.Millisecond
	followAway = 2 * time.Second
)

// follower updates the parts that depend on the host's Node: flanneld, the CNI
// configuration, the way to the host's pods. A node that is deleted and joins again is
// another object, mostly with another range.
type follower struct {
	boot boot
	// announce reports to the fabric, or the machine, the pod ranges of the host, and the
	// ranges that it shares with other hosts.
	announce func(own, shared []netip.Prefix)
	root     string // of the host's files

	changed supervise.Bell // rings when node has become another
	settled supervise.Bell // rings when waiting has changed

	mu      sync.Mutex
	node    nodeapi.Node // guarded by mu; as last known with a range
	waiting error        // guarded by mu; nil when everything matches the node
}

func newFollower(b boot, announce func(own, shared []netip.Prefix)) *follower {
	return &follower{
		boot:     b,
		announce: announce,
		root:     "/",
		waiting:  errors.New("waiting for the cluster to give this node a pod range"),
	}
}

// run follows the node until the context ends.
func (f *follower) run(ctx context.Context) error {
	api, err := nodeapi.New(f.boot.Config.Server, f.boot.Config.Name, f.boot.CA, kubeletCertificate)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	for {
		wait := followAway
		n, err := api.Get(ctx)
		if err == nil {
			if err = f.follow(n); err != nil {
				wait = followBusy
			}
		}
		if err == nil {
			err = deleteStrays(ctx, api, n, log)
		}
		f.mu.Lock()
		f.waiting = err
		f.mu.Unlock()
		f.settled.Ring()
		if err == nil && api.Await(ctx, n.Version) == nil {
			wait = 0
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// deleteStrays deletes pods that have addresses of former ranges of the node.
func deleteStrays(ctx context.Context, api *nodeapi.Client, n nodeapi.Node, log *slog.Logger) error {
	deleted, err := api.DeleteStrays(ctx, n.PodCIDRs())
	for _, pod := range deleted {
		log.Info("pod deleted: its address is of a former range of the node", logkey.Pod, pod)
	}
	return err
}

// ready returns an error until the host has the routes and rules that its Node object requires.
func (f *follower) ready(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.waiting
}

// current returns the node, without a range if it has not had one yet, and a channel
// that is closed when it becomes another.
func (f *follower) current() (nodeapi.Node, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.node, f.changed.Next()
}

// follow brings the host to where its node is. A node that is away for a moment still
// has its pods.
func (f *follower) follow(n nodeapi.Node) error {
	if !n.PodCIDR.IsValid() {
		return errors.New("waiting for the cluster to give this node a pod range")
	}
	f.mu.Lock()
	if n.UID != f.node.UID || n.PodCIDR != f.node.PodCIDR || n.IPv6PodCIDR != f.node.IPv6PodCIDR {
		f.node = n
		f.changed.Ring()
	}
	f.mu.Unlock()
	c := f.boot.Config
	if c.Network.Flannel() {
		if err := f.flannelReady(n.PodCIDR); err != nil {
			return err
		}
	}
	conf, err := json.MarshalIndent(describeCNI(c, n.PodCIDRs()), "", "  ")
	if err != nil {
		return fmt.Errorf("make CNI configuration: %w", err)
	}
	// An error of reading is one of writing, too.
	name := filepath.Join(f.root, cniConfFile)
	if old, _ := os.ReadFile(name); !bytes.Equal(old, conf) {
		if err := durable.WriteFile(name, conf, 0o600); err != nil {
			return err
		}
	}
	f.announce(n.PodCIDRs(), gatewayRanges(c))
	return nil
}

// flannelReady returns nil once flanneld has written its CNI plugin's input for the
// node's range.
func (f *follower) flannelReady(podCIDR netip.Prefix) error {
	content, err := os.ReadFile(filepath.Join(f.root, flannelSubnetFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read what flanneld wrote: %w", err)
	}
	if agent.FlannelSubnet(content) != podCIDR.Masked() {
		return fmt.Errorf("waiting for flanneld to write %s for %s", flannelSubnetFile, podCIDR)
	}
	return nil
}

// keepFlannel runs flanneld while the node is the same: flanneld takes its lease only
// when it starts.
func (f *follower) keepFlannel(flanneld func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for {
			n, changed := f.current()
			if !n.PodCIDR.IsValid() {
				select {
				case <-changed:
					continue
				case <-ctx.Done():
					return nil
				}
			}
			same, another := context.WithCancel(ctx)
			go func() {
				defer another()
				select {
				case <-changed:
				case <-same.Done():
				}
			}()
			err := flanneld(same)
			restart := same.Err() != nil && ctx.Err() == nil
			another()
			if !restart {
				return err
			}
		}
	}
}
