// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package csidriver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/internal/agent/storage"
	"github.com/mullion-k8s/mullion/internal/logkey"
)

// Cluster is the driver's connection to the cluster.
type Cluster interface {
	// UID returns the cluster's UID.
	UID(ctx context.Context) (string, error)
	// Deleted returns when volumes of this node were deleted, by the keys of
	// storage.DeletedAnnotation.
	Deleted(ctx context.Context) (map[string]time.Time, error)
	// Forget takes an entry out of Deleted: the volume is gone from this node.
	Forget(ctx context.Context, key string) error
	// ReportFree reports the node's free space for volumes to the cluster, in bytes.
	ReportFree(ctx context.Context, bytes int64) error
}

const (
	// reportEvery is the interval between checks of the free space; lookEvery is the
	// number of these intervals between checks of the volumes.
	reportEvery = time.Minute
	lookEvery   = 5
	// retryReport is the wait after the cluster did not take the first report: no pod
	// with a volume is scheduled here before it has one.
	retryReport = 2 * time.Second
)

// look reports the free space and removes the data of deleted volumes, until the
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

// report reports the free space to the cluster if it differs from last.
func (d *Driver) report(ctx context.Context, last int64) (int64, error) {
	total, free, err := space(d.dir(storage.VolumesDir))
	if err != nil {
		return last, err
	}
	if d.cfg.Disks != nil { // which reserves space
		free = storage.Room(total, free)
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

// sweep examines every volume once.
func (d *Driver) sweep(ctx context.Context) error {
	errs := []error{d.emptied()}
	// Deletions are read before the volumes: one without a volume is of no use.
	deleted, err := d.cfg.Cluster.Deleted(ctx)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	ids, err := d.list()
	if err != nil || len(ids)+len(deleted) == 0 {
		return errors.Join(append(errs, err)...)
	}
	cluster, err := d.cfg.Cluster.UID(ctx)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	done := maps.Clone(deleted)
	for _, id := range ids {
		key := storage.DeletedAnnotation(id)
		gone, err := d.lookAt(ctx, id, cluster, deleted[key])
		if !gone {
			delete(done, key)
		}
		errs = append(errs, err)
	}
	for key := range done {
		errs = append(errs, d.cfg.Cluster.Forget(ctx, key))
	}
	return errors.Join(errs...)
}

// lookAt examines one volume; deleted is the time of its deletion in the cluster, or
// zero. It reports whether the volume is completely gone.
func (d *Driver) lookAt(ctx context.Context, id, cluster string, deleted time.Time) (gone bool, err error) {
	if err := storage.CheckID(id); err != nil {
		return false, fmt.Errorf("a record that the driver did not write: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r, err := d.read(id)
	if err != nil {
		return false, err
	}
	now := d.cfg.Now()
	action := storage.Decide(storage.Look{
		Now: now, Cluster: cluster, Deleted: deleted, Owner: r.Cluster,
		Published: len(existing(r.Targets, "")) > 0, Used: r.Used, Trashed: r.Trashed,
	})
	if action != storage.Keep {
		d.cfg.Log.Info("volume that was deleted, or is wanted again", logkey.Name, id,
			logkey.Reason, action.String())
	}
	switch action {
	case storage.Trash:
		return false, d.throwAway(ctx, id, r, now)
	case storage.Restore:
		return false, d.restore(id, &r)
	case storage.Empty:
		err := d.empty(ctx, id)
		return err == nil, err
	case storage.Keep:
	}
	return false, nil
}

// throwAway moves a volume to the trash. The record is updated first: restore finds the
// data on either side. A disk stays where it is, unmounted.
func (d *Driver) throwAway(ctx context.Context, id string, r record, now time.Time) error {
	r.Targets, r.Trashed = nil, now
	if err := d.write(id, r); err != nil {
		return err
	}
	if err := d.closeDisk(ctx, id, false); err != nil {
		return err
	}
	if err := os.Rename(d.data(id), d.trash(id)); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("move volume %s to the trash: %w", id, err)
	}
	return nil
}

// empty takes a volume out of the trash for good; emptied removes it later, because
// that may take long.
func (d *Driver) empty(ctx context.Context, id string) error {
	if err := d.closeDisk(ctx, id, true); err != nil {
		return err
	}
	for _, from := range []string{d.trash(id), d.data(id)} { // throwAway may have been interrupted
		if err := os.Rename(from, d.trash(removing+id)); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("remove volume %s: %w", id, err)
		}
	}
	return os.Remove(d.record(id))
}

func (d *Driver) closeDisk(ctx context.Context, id string, remove bool) error {
	if d.cfg.Disks == nil {
		return nil
	}
	return d.cfg.Disks.Close(ctx, id, remove)
}

// emptied removes the data that empty gave up. Links in it are removed, not followed.
func (d *Driver) emptied() error {
	entries, err := os.ReadDir(d.dir(storage.TrashDir))
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
