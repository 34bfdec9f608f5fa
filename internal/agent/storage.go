// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/internal/agent/csidriver"
	"github.com/mullion-k8s/mullion/internal/agent/storage"
	"github.com/mullion-k8s/mullion/internal/logkey"
)

// volumes runs the CSI driver in clusters that use it.
type volumes struct {
	next time.Time  // time of the next check or restart
	done chan error // of the running driver, or nil
}

// runStorage starts the CSI driver once the cluster has its CSIDriver object, and again
// if it ended.
func (a *Agent) runStorage(ctx context.Context) error {
	v := &a.volumes
	select {
	case err := <-v.done:
		v.done = nil
		return fmt.Errorf("the storage driver ended: %w", err)
	default:
	}
	if v.done != nil || a.Now().Before(v.next) {
		return nil
	}
	v.next = a.Now().Add(clusterEvery)
	api := csidriver.API{Client: a.api}
	wanted, err := api.Wants(ctx)
	if err != nil || !wanted {
		return err
	}
	var disks csidriver.Disks
	if e := a.Config.Volumes.Endpoint; e != "" {
		disks = csidriver.Remote{Address: strings.TrimPrefix(e, "tcp://")}
	}
	d := csidriver.New(csidriver.Config{
		Node: a.Config.Node.Name, Dir: a.Disk.Path(StateDir), KubeletDir: a.Disk.Path(KubeletDir), Cluster: api,
		Disks: disks, Log: a.Log.With(logkey.Component, storage.Driver), Now: a.Now,
	})
	v.done = make(chan error, 1)
	go func() {
		err := d.Run(ctx)
		if err == nil {
			err = errors.New("without an error")
		}
		v.done <- err
	}()
	return nil
}

// waitForStorage waits until the driver has ended after its context.
func (a *Agent) waitForStorage() {
	if a.volumes.done != nil {
		a.Log.Debug("storage driver ended", logkey.Error, <-a.volumes.done)
	}
}
