// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package csidriver

import (
	"context"
	"errors"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mullion-k8s/mullion/internal/agent/storage"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// fakeDisks has directories for disks, which it mounts.
type fakeDisks struct {
	images, volumes string
	full            error
	sizes           []int64
}

func (f *fakeDisks) Open(_ context.Context, id string, bytes int64) error {
	_, err := os.Lstat(filepath.Join(f.images, id))
	if err != nil && (bytes == 0 || f.full != nil) {
		if bytes > 0 {
			return f.full
		}
		return fs.ErrNotExist
	}
	if err != nil {
		f.sizes = append(f.sizes, bytes)
		if err := os.MkdirAll(filepath.Join(f.images, id), 0o777); err != nil {
			return err
		}
	}
	var st unix.Statx_t
	place := filepath.Join(f.volumes, id)
	if err := unix.Statx(unix.AT_FDCWD, place, unix.AT_SYMLINK_NOFOLLOW, 0, &st); err != nil ||
		st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return err
	}
	return unix.Mount(filepath.Join(f.images, id), place, "", unix.MS_BIND, "")
}

func (f *fakeDisks) Close(_ context.Context, id string, remove bool) error {
	err := unix.Unmount(filepath.Join(f.volumes, id), 0)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return err
	}
	if remove {
		return os.RemoveAll(filepath.Join(f.images, id))
	}
	return nil
}

// withDisks gives a node's volumes disks.
func (n *node) withDisks() *fakeDisks {
	n.t.Helper()
	f := &fakeDisks{images: n.t.TempDir(), volumes: n.dir(storage.VolumesDir)}
	n.cfg.Disks = f
	n.t.Cleanup(func() {
		ids, _ := os.ReadDir(f.images)
		for _, id := range ids {
			if err := f.Close(context.Background(), id.Name(), true); err != nil {
				n.t.Error(err)
			}
		}
	})
	return f
}

// put publishes a volume of a size for a pod and returns its place there.
func (n *node) put(id, pod, bytes string) (string, error) {
	n.t.Helper()
	r := n.publishRequest(id, n.target(pod))
	if bytes != "" {
		r.VolumeContext[storage.BytesKey] = bytes
	}
	return r.GetTargetPath(), n.publish(r)
}

// TestDisks: a volume with a size has a disk from its first pod to the end of the trash, also after a restart of the
// host. A volume of an earlier version has none.
func TestDisks(t *testing.T) {
	n := newNode(t)
	old, err := n.put("old", "p0", "4096") // the node had no service for disks
	must(t, err, os.WriteFile(filepath.Join(old, "a"), []byte("old"), 0o600))
	f := n.withDisks()
	if _, err = n.put("old", "p1", "4096"); err != nil || len(f.sizes) > 0 {
		t.Errorf("a volume of an earlier version: %v, disks of %v", err, f.sizes)
	}
	at, err := n.put("v", "p2", "4096")
	must(t, err, os.WriteFile(filepath.Join(at, "a"), []byte("kept"), 0o600))
	if got, err := os.ReadFile(filepath.Join(f.images, "v", "a")); string(got) != "kept" || f.sizes[0] != 4096 {
		t.Errorf("on the disk: %q, %v, sizes %v", got, err, f.sizes)
	}
	must(t, n.unpublish("v", at), f.Close(t.Context(), "v", false)) // a restart of the host
	if at, err = n.put("v", "p3", ""); err != nil || len(f.sizes) != 1 {
		t.Errorf("after a restart: %v, %v", err, f.sizes)
	}
	if got, err := os.ReadFile(filepath.Join(at, "a")); string(got) != "kept" {
		t.Errorf("after a restart: %q, %v", got, err)
	}
	must(t, n.unpublish("v", at))
	n.cluster.deleted["v"] = n.now.Add(time.Minute)
	n.look(time.Hour)
	if !exists(n.trash("v")) || exists(n.data("v")) || !exists(filepath.Join(f.images, "v", "a")) {
		t.Error("the volume is not in the trash, or its data is lost")
	}
	delete(n.cluster.deleted, "v")
	n.look(time.Hour)
	at, err = n.put("v", "p4", "4096")
	if got, _ := os.ReadFile(filepath.Join(at, "a")); string(got) != "kept" || err != nil {
		t.Errorf("out of the trash: %q, %v", got, err)
	}
	must(t, n.unpublish("v", at))
	n.cluster.deleted["v"] = n.now.Add(time.Minute)
	n.look(time.Hour)
	n.look(25 * time.Hour)
	n.look(time.Hour)
	if exists(filepath.Join(f.images, "v")) || exists(n.trash("v")) || exists(n.record("v")) ||
		len(n.cluster.deleted) > 0 {
		t.Error("something stayed")
	}
	if got, err := os.ReadFile(filepath.Join(n.data("old"), "a")); string(got) != "old" {
		t.Errorf("the other volume: %q, %v", got, err)
	}
}

// TestNoRoomForADisk: nothing of a volume is left for which there is no room, and its pod starts when there is room.
func TestNoRoomForADisk(t *testing.T) {
	n := newNode(t)
	f := n.withDisks()
	f.full = errors.New("delete claims of this node")
	if _, err := n.put("v", "p", "4096"); err == nil || !strings.Contains(err.Error(), "make the disk of volume v") ||
		!strings.Contains(err.Error(), "delete claims of this node") {
		t.Errorf("full: %v", err)
	}
	if exists(n.data("v")) || exists(n.record("v")) {
		t.Error("something of the volume is left")
	}
	f.full = nil
	if _, err := n.put("v", "p", "4096"); err != nil {
		t.Errorf("with room: %v", err)
	}
}

// TestLostDisk: a volume whose disk or record is lost does not become an empty one, or another cluster's.
func TestLostDisk(t *testing.T) {
	n := newNode(t)
	f := n.withDisks()
	at, err := n.put("v", "p", "4096")
	must(t, err, os.WriteFile(filepath.Join(at, "a"), []byte("kept"), 0o600), n.unpublish("v", at))
	record, err := os.ReadFile(n.record("v"))
	must(t, err, os.Remove(n.record("v")), f.Close(t.Context(), "v", false))
	if _, err := n.put("v", "p", "4096"); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("without a record: %v", err)
	}
	// A person writes what the message says.
	must(t, os.WriteFile(n.record("v"), []byte(`{"cluster": "`+uid+`"}`), 0o600), f.Close(t.Context(), "v", false))
	at, err = n.put("v", "p", "4096")
	if got, _ := os.ReadFile(filepath.Join(at, "a")); string(got) != "kept" || err != nil {
		t.Errorf("with the record again: %q, %v", got, err)
	}
	must(t, n.unpublish("v", at), os.WriteFile(n.record("v"), record, 0o600))
	n.cfg.Disks = nil
	if _, err := n.put("v", "p", "4096"); err == nil || !strings.Contains(err.Error(), "volumes.endpoint") {
		t.Errorf("without a service for disks: %v", err)
	}
	n.cfg.Disks = f
	must(t, f.Close(t.Context(), "v", true))
	if _, err := n.put("v", "p", "4096"); status.Code(err) != codes.DataLoss {
		t.Errorf("without the disk: %v", err)
	}
}

// TestRemote: a request through HTTP has the same effect and the same errors.
func TestRemote(t *testing.T) {
	testenv.Need(t, testenv.Root)
	f := &fakeDisks{images: t.TempDir(), volumes: t.TempDir()}
	server := httptest.NewServer(DisksHandler(f))
	t.Cleanup(server.Close)
	r, ctx := Remote{Address: server.Listener.Addr().String()}, t.Context()
	must(t, os.Mkdir(filepath.Join(f.volumes, "v"), 0o700))
	if err := r.Open(ctx, "v", 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no disk: %v", err)
	}
	must(t, r.Open(ctx, "v", 4096), r.Open(ctx, "v", 0), r.Close(ctx, "v", false))
	if !exists(filepath.Join(f.images, "v")) || f.sizes[0] != 4096 {
		t.Errorf("disks of %v", f.sizes)
	}
	must(t, r.Close(ctx, "v", true))
	if exists(filepath.Join(f.images, "v")) {
		t.Error("the disk is there")
	}
	f.full = errors.New("no room\nfor it")
	if err := r.Open(ctx, "v", 4096); err == nil || !strings.Contains(err.Error(), "no room\nfor it") {
		t.Errorf("full: %v", err)
	}
	for _, id := range []string{"A", "a%2f..", "nul"} {
		if r.Open(ctx, id, 4096) == nil || r.Close(ctx, id, true) == nil {
			t.Errorf("%q was accepted", id)
		}
	}
	if err := r.Open(ctx, "v", -1); err == nil || !strings.Contains(err.Error(), "size") {
		t.Errorf("a negative size: %v", err)
	}
}
