// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package csidriver

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

	"github.com/mullion-k8s/mullion/internal/agent/storage"
	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/logkey"
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
	// Bytes is the size of the volume's disk; a volume with 0 has none.
	Bytes int64 `json:"bytes,omitempty"`
	// Targets are the places where it is published.
	Targets []target `json:"targets,omitempty"`
	// Used and Trashed are as in storage.Look.
	Used    time.Time `json:"used,omitzero"`
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
func (d *Driver) data(id string) string   { return d.dir(storage.VolumesDir, id) }
func (d *Driver) trash(id string) string  { return d.dir(storage.TrashDir, id) }
func (d *Driver) records() string         { return d.dir(storage.RecordsDir) }
func (d *Driver) record(id string) string { return filepath.Join(d.records(), id+".json") }

func (d *Driver) makeDirs() error {
	if err := makeVolumes(d.dir(storage.VolumesDir)); err != nil {
		return err
	}
	return errors.Join(makePrivate(d.dir(storage.TrashDir)), makePrivate(d.records()))
}

// read returns the record of a volume; the error is fs.ErrNotExist if there is no record.
// A damaged record is an error: the volume stays as it is until an administrator decides.
func (d *Driver) read(id string) (record, error) {
	r, err := durable.ReadStatus[record](d.record(id))
	if err == nil && r.Cluster == "" {
		err = errors.New("it names no cluster")
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w; if the data is this cluster's, %s", err, d.claim(id))
		}
		return record{}, fmt.Errorf("read the record of volume %s: %w", id, err)
	}
	return r, nil
}

// claim returns instructions for assigning the data of a volume to a cluster.
func (d *Driver) claim(id string) string {
	return fmt.Sprintf(`put it into %s and {"cluster": "UID"} into %s, with the UID of the namespace kube-system`,
		d.data(id), d.record(id))
}

func (d *Driver) write(id string, r record) error {
	if err := durable.WriteDocument(d.record(id), r); err != nil {
		return fmt.Errorf("write the record of volume %s: %w", id, err)
	}
	return nil
}

// publish makes the data of a volume appear at a target. It is idempotent. The record has
// the target before it exists, so that a driver that dies in between never takes a
// published volume for an unused one. A new volume gets the cluster and the size of the
// record in the request.
func (d *Driver) publish(ctx context.Context, id string, request record, at target) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	r, err := d.open(ctx, id, request)
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
	r.Used = d.cfg.Now()
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
func (d *Driver) open(ctx context.Context, id string, request record) (record, error) {
	r, err := d.read(id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if d.cfg.Disks == nil {
			request.Bytes = 0
		}
		return request, d.begin(ctx, id, request.Bytes)
	case err != nil:
		return r, err
	case r.Cluster != request.Cluster:
		return r, fmt.Errorf("volume %s is %w: it belongs to the cluster %s, and the request is of %s", id, errOther,
			r.Cluster, request.Cluster)
	case !r.Trashed.IsZero():
		if err := d.restore(id, &r); err != nil {
			return r, err
		}
	}
	mounted, err := d.openDisk(ctx, id, r)
	if err != nil {
		return r, err
	}
	// Windows shows a mounted disk as an irregular file.
	switch st, err := os.Lstat(d.data(id)); {
	case errors.Is(err, fs.ErrNotExist):
		return r, fmt.Errorf("volume %s: %w: %s was removed, but not by mullion", id, errGone, d.data(id))
	case err != nil:
		return r, err
	case !st.IsDir() && (!mounted || st.Mode()&fs.ModeIrregular == 0):
		return r, fmt.Errorf("volume %s: %w: %s is not a directory", id, errGone, d.data(id))
	}
	return r, nil
}

// openDisk mounts the disk of a volume with a record and reports whether it has one. A record that a person wrote again
// may have no size.
func (d *Driver) openDisk(ctx context.Context, id string, r record) (bool, error) {
	err := fs.ErrNotExist
	if d.cfg.Disks != nil {
		err = d.cfg.Disks.Open(ctx, id, 0)
	} else if r.Bytes > 0 {
		return false, fmt.Errorf("volume %s has a disk of its own, and this node has no volumes.endpoint", id)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && r.Bytes > 0:
		return false, fmt.Errorf("volume %s: %w: its disk was removed, but not by mullion", id, errGone)
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	}
	return err == nil, err
}

// begin makes the directory and the disk of a volume without a record. They may exist: a driver
// died before it wrote the record. But files that lie in it may be of another cluster.
func (d *Driver) begin(ctx context.Context, id string, bytes int64) error {
	if err := d.noFiles(id); err != nil {
		return err
	}
	if err := makeData(d.data(id)); err != nil || bytes == 0 {
		return err
	}
	if err := d.cfg.Disks.Open(ctx, id, bytes); err != nil {
		_ = os.Remove(d.data(id)) // it is empty: nothing is left of a volume for which there is no room
		return fmt.Errorf("make the disk of volume %s: %w", id, err)
	}
	return d.noFiles(id)
}

// noFiles returns an error if there are files of a volume that has no record.
func (d *Driver) noFiles(id string) error {
	for _, dir := range []string{d.data(id), d.trash(id)} {
		if entries, err := os.ReadDir(dir); len(entries) > 0 {
			return fmt.Errorf("volume %s is %w: %s has files, and the record of their cluster is lost; if they are "+
				"this cluster's, %s", id, errOther, dir, d.claim(id))
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("look for the data of volume %s: %w", id, err)
		}
	}
	return nil
}

// restore takes a volume out of the trash.
func (d *Driver) restore(id string, r *record) error {
	err := os.Rename(d.trash(id), d.data(id))
	if _, e := os.Lstat(d.data(id)); err != nil && e != nil {
		return fmt.Errorf("take volume %s out of the trash: %w", id, err)
	}
	r.Trashed = time.Time{}
	return d.write(id, *r)
}

// existing drops targets that no longer exist: a pod's directory may be removed without
// the driver when a node is reset. The target at keep stays.
func existing(all []target, keep string) []target {
	return slices.DeleteFunc(slices.Clone(all), func(t target) bool {
		_, err := os.Lstat(t.Path)
		return t.Path != keep && errors.Is(err, fs.ErrNotExist)
	})
}

// unpublish removes the link or mount that publish made at a target; never the data.
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
	if err != nil { // a pod can end all the same: without a record, the data stays
		d.cfg.Log.Warn("volume was unpublished", logkey.Name, id, logkey.Error, err)
		return nil
	}
	r.Targets = slices.DeleteFunc(r.Targets, func(t target) bool { return t.Path == at })
	return d.write(id, r)
}

// used is the space that a volume takes, and the capacity of its disk.
type used struct{ total, free, used, files int64 }

// usage adds up the content of a volume, as the kubelet does for an emptyDir. Links count
// themselves, and are not followed.
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
	// The separator leads through a disk that is mounted there, on Windows.
	root := d.data(id) + string(filepath.Separator)
	if u.total, u.free, err = space(root); err != nil {
		return u, err
	}
	err = filepath.WalkDir(root, func(_ string, e fs.DirEntry, err error) error {
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
