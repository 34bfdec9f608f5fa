// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package driver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/internal/durable"
)

var (
	// errOther is returned for a volume that this request may not have.
	errOther = errors.New("not available")
	// errGone is returned if a record exists, but not its data.
	errGone = errors.New("the data is gone")
)

// record keeps a volume's state on the node: RECORDS/ID.json.
type record struct {
	// Cluster is the UID of the cluster that the volume was made in.
	Cluster string `json:"cluster"`
	// Targets are the places where it is published.
	Targets []target `json:"targets,omitempty"`
	// Missing and Trashed are as in storage.Look.
	Missing time.Time `json:"missing,omitzero"`
	Trashed time.Time `json:"trashed,omitzero"`
}

type target struct {
	Path     string `json:"path"`
	ReadOnly bool   `json:"readOnly,omitempty"`
	// Single means that no other pod may have the volume at the same time.
	Single bool `json:"single,omitempty"`
}

// removing begins the names of directories in the trash that are being removed; no
// volume has such a name.
const removing = ".removing-"

func (d *Driver) dir(name ...string) string {
	return filepath.Join(append([]string{d.cfg.Dir}, name...)...)
}
func (d *Driver) data(id string) string   { return d.dir("volumes", id) }
func (d *Driver) trash(id string) string  { return d.dir("volume-trash", id) }
func (d *Driver) records() string         { return d.dir("volume-records") }
func (d *Driver) record(id string) string { return filepath.Join(d.records(), id+".json") }

func (d *Driver) makeDirs() error {
	if err := makeVolumes(d.dir("volumes")); err != nil {
		return err
	}
	return errors.Join(makePrivate(d.dir("volume-trash")), makePrivate(d.records()))
}

func (d *Driver) read(id string) (record, error) {
	r, err := durable.ReadStatus[record](d.record(id))
	if err != nil {
		return record{}, fmt.Errorf("read the record of volume %s: %w", id, err)
	}
	return r, nil
}

func (d *Driver) write(id string, r record) error {
	if err := durable.WriteDocument(d.record(id), r); err != nil {
		return fmt.Errorf("write the record of volume %s: %w", id, err)
	}
	return nil
}

// publish makes the data of a volume appear at a target. The same call again changes
// nothing. The record has the target before it exists, so that a driver that dies in
// between never takes a published volume for an unused one.
func (d *Driver) publish(id, cluster string, at target) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	r, err := d.open(id, cluster)
	if err != nil {
		return err
	}
	r.Targets = existing(r.Targets, at.Path)
	for _, t := range r.Targets {
		switch {
		case t.Path == at.Path && t != at:
			return fmt.Errorf("volume %s is published at %s in another way: %w", id, t.Path, fs.ErrExist)
		case t.Path != at.Path && (t.Single || at.Single):
			return fmt.Errorf("volume %s is %w: another pod has it, and its access mode is ReadWriteOncePod", id,
				errOther)
		}
	}
	if !slices.Contains(r.Targets, at) {
		r.Targets = append(r.Targets, at)
	}
	if err := d.write(id, r); err != nil {
		return err
	}
	if err := attach(d.data(id), at); err != nil {
		return fmt.Errorf("publish volume %s: %w", id, err)
	}
	return nil
}

// open returns the record of a volume whose data is in its place: made now, found, or
// taken out of the trash.
func (d *Driver) open(id, cluster string) (record, error) {
	r, err := d.read(id)
	if errors.Is(err, fs.ErrNotExist) {
		// The directory may exist: a driver died before it wrote the record.
		return record{Cluster: cluster}, makeData(d.data(id))
	}
	switch {
	case err != nil:
		return r, err
	case r.Cluster != cluster:
		return r, fmt.Errorf("volume %s is %w: it belongs to the cluster %s, and the request is of %s", id, errOther,
			r.Cluster, cluster)
	case !r.Trashed.IsZero():
		if err := d.restore(id, &r); err != nil {
			return r, err
		}
	}
	r.Missing = time.Time{}
	switch st, err := os.Lstat(d.data(id)); {
	case errors.Is(err, fs.ErrNotExist):
		return r, fmt.Errorf("volume %s: %w: %s was removed, but not by mullion", id, errGone, d.data(id))
	case err != nil:
		return r, err
	case !st.IsDir():
		return r, fmt.Errorf("volume %s: %w: %s is not a directory", id, errGone, d.data(id))
	}
	return r, nil
}

// restore takes a volume out of the trash.
func (d *Driver) restore(id string, r *record) error {
	err := os.Rename(d.trash(id), d.data(id))
	if _, e := os.Lstat(d.data(id)); err != nil && e != nil {
		return fmt.Errorf("take volume %s out of the trash: %w", id, err)
	}
	r.Missing, r.Trashed = time.Time{}, time.Time{}
	return d.write(id, *r)
}

// existing drops targets that are gone: a pod's directory may be removed without the
// driver when a node is reset. The target at keep stays.
func existing(all []target, keep string) []target {
	return slices.DeleteFunc(slices.Clone(all), func(t target) bool {
		_, err := os.Lstat(t.Path)
		return t.Path != keep && errors.Is(err, fs.ErrNotExist)
	})
}

// unpublish removes what publish made at a target; never the data.
func (d *Driver) unpublish(id, at string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := detach(at); err != nil {
		return fmt.Errorf("unpublish volume %s: %w", id, err)
	}
	r, err := d.read(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	r.Targets = slices.DeleteFunc(r.Targets, func(t target) bool { return t.Path == at })
	return d.write(id, r)
}

// used is how much a volume takes, and what its disk has.
type used struct{ total, free, used, files int64 }

// usage counts what is in a volume, as the kubelet counts an emptyDir. Links count
// themselves; nothing behind them is looked at.
func (d *Driver) usage(ctx context.Context, id, at string) (u used, err error) {
	d.mu.Lock()
	r, err := d.read(id)
	d.mu.Unlock()
	if err != nil {
		return u, err
	}
	if !slices.ContainsFunc(r.Targets, func(t target) bool { return t.Path == at }) {
		return u, fmt.Errorf("volume %s is not published at %s: %w", id, at, fs.ErrNotExist)
	}
	if u.total, u.free, err = space(d.dir("volumes")); err != nil {
		return u, err
	}
	err = filepath.WalkDir(d.data(id), func(_ string, e fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the pod was quicker
		}
		if err != nil {
			return err
		}
		u.files++
		if st, err := e.Info(); err == nil && st.Mode().IsRegular() {
			u.used += st.Size()
		}
		return nil
	})
	return u, err
}

// list returns the volumes that have a record.
func (d *Driver) list() ([]string, error) {
	entries, err := os.ReadDir(d.records())
	if err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	var out []string
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), ".json"); ok {
			out = append(out, id)
		}
	}
	return out, nil
}
