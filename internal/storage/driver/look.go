// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/internal/logkey"
	"github.com/mullion-k8s/mullion/internal/storage"
)

// Cluster answers what the driver asks.
type Cluster interface {
	// UID returns the cluster's UID.
	UID(ctx context.Context) (string, error)
	// HasVolume reports whether a PersistentVolume of the name exists.
	HasVolume(ctx context.Context, name string) (bool, error)
	// ReportFree tells the cluster how many bytes the node has for volumes.
	ReportFree(ctx context.Context, bytes int64) error
}

const (
	// reportEvery is how often the free space is looked at; lookEvery is how often the
	// volumes are, in these intervals.
	reportEvery = time.Minute
	lookEvery   = 5
	// retryReport is the wait after the cluster did not take the first report: no pod
	// with a volume is scheduled here before it has one.
	retryReport = 2 * time.Second
)

// look reports the free space and removes what has no PersistentVolume, until the
// context is cancelled. Failures are logged and repeated.
func (d *Driver) look(ctx context.Context) error {
	var reported int64 = -1
	for n := 0; ; n++ {
		wait := reportEvery
		if free, err := d.report(ctx, reported); err != nil {
			d.failed(ctx, "report free space", err)
			if reported < 0 {
				wait = retryReport
			}
		} else {
			reported = free
		}
		if n%lookEvery == 0 {
			if err := d.sweep(ctx); err != nil {
				d.failed(ctx, "look at volumes", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

func (d *Driver) failed(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		d.cfg.Log.Warn("will try again", logkey.Name, what, logkey.Error, err)
	}
}

// report tells the cluster about the free space if that is not what it knows.
func (d *Driver) report(ctx context.Context, last int64) (int64, error) {
	_, free, err := space(d.dir("volumes"))
	if err != nil {
		return last, err
	}
	free = rounded(free)
	if free == last {
		return last, nil
	}
	return free, d.cfg.Cluster.ReportFree(ctx, free)
}

// rounded returns the free space without the changes of every minute.
func rounded(free int64) int64 {
	const coarse, fine = 1 << 30, 64 << 20
	if free >= 8*coarse {
		return free / coarse * coarse
	}
	return free / fine * fine
}

// sweep looks at every volume once.
func (d *Driver) sweep(ctx context.Context) error {
	ids, err := d.list()
	if err != nil {
		return err
	}
	errs := []error{d.emptied()}
	if len(ids) == 0 {
		return errors.Join(errs...)
	}
	cluster, err := d.cfg.Cluster.UID(ctx)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, id := range ids {
		if err := d.lookAt(ctx, id, cluster); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// lookAt looks at one volume. The cluster is asked without the lock.
func (d *Driver) lookAt(ctx context.Context, id, cluster string) error {
	if err := storage.CheckID(id); err != nil {
		return fmt.Errorf("a record that the driver did not write: %w", err)
	}
	exists, unknown := d.cfg.Cluster.HasVolume(ctx, id)
	d.mu.Lock()
	defer d.mu.Unlock()
	r, err := d.read(id)
	if err != nil {
		return err
	}
	now := d.cfg.Now()
	action := storage.Decide(storage.Look{
		Now: now, Cluster: cluster, Exists: exists, Unknown: unknown != nil, Owner: r.Cluster,
		Published: len(existing(r.Targets, "")) > 0, Missing: r.Missing, Trashed: r.Trashed,
	})
	if action > storage.Unmark {
		d.cfg.Log.Info("volume without a PersistentVolume, or with one again", logkey.Name, id,
			logkey.Reason, action.String())
	}
	switch action {
	case storage.Mark:
		r.Missing = now
	case storage.Unmark:
		r.Missing = time.Time{}
	case storage.Trash:
		return d.throwAway(id, r, now)
	case storage.Restore:
		return d.restore(id, &r)
	case storage.Empty:
		return d.empty(id)
	case storage.Keep:
		return unknown
	}
	return d.write(id, r)
}

// throwAway moves a volume to the trash. The record says so first: restore finds the
// data on either side.
func (d *Driver) throwAway(id string, r record, now time.Time) error {
	r.Targets, r.Trashed = nil, now
	if err := d.write(id, r); err != nil {
		return err
	}
	if err := os.Rename(d.data(id), d.trash(id)); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("move volume %s to the trash: %w", id, err)
	}
	return nil
}

// empty takes a volume out of the trash for good; emptied removes it later, because
// that may take long.
func (d *Driver) empty(id string) error {
	for _, from := range []string{d.trash(id), d.data(id)} { // throwAway may have been interrupted
		if err := os.Rename(from, d.trash(removing+id)); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("remove volume %s: %w", id, err)
		}
	}
	return os.Remove(d.record(id))
}

// emptied removes the data that empty gave up. Links in it are removed, not followed.
func (d *Driver) emptied() error {
	entries, err := os.ReadDir(d.dir("volume-trash"))
	if err != nil {
		return fmt.Errorf("empty the trash: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), removing) {
			errs = append(errs, os.RemoveAll(d.trash(e.Name())))
		}
	}
	return errors.Join(errs...)
}
