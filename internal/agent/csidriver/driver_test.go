// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package csidriver

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/mullion-k8s/mullion/internal/agent/storage"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

const uid = "5f1e9f0a-7d5c-4b8e-9c1a-2b3c4d5e6f70"

// fakeCluster has the marks that a test gives it.
type fakeCluster struct {
	mu      sync.Mutex
	uid     string
	deleted map[string]time.Time // by volume
	free    []int64
	err     error
}

func (f *fakeCluster) UID(context.Context) (string, error) { return f.uid, nil }

func (f *fakeCluster) Deleted(context.Context) (map[string]time.Time, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]time.Time{}
	for id, at := range f.deleted {
		out[storage.DeletedAnnotation(id)] = at
	}
	return out, f.err
}

func (f *fakeCluster) Forget(_ context.Context, key string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.deleted, func(id string, _ time.Time) bool { return storage.DeletedAnnotation(id) == key })
	return nil
}

func (f *fakeCluster) ReportFree(_ context.Context, bytes int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.free = append(f.free, bytes)
	return nil
}

// node is a driver with its directories, a clock and a cluster.
type node struct {
	*Driver
	t       *testing.T
	now     time.Time
	cluster *fakeCluster
}

func newNode(t *testing.T) *node {
	t.Helper()
	testenv.Need(t, testenv.Root) // bind mounts
	return over(t, t.TempDir(), uid)
}

// over returns a node of a cluster with its data below a directory.
func over(t *testing.T, dir, cluster string) *node {
	t.Helper()
	n := &node{t: t, now: time.Now(), cluster: &fakeCluster{uid: cluster, deleted: map[string]time.Time{}}}
	n.Driver = New(Config{Node: "n", Dir: filepath.Join(dir, "data"), KubeletDir: filepath.Join(dir, "kubelet"),
		Cluster: n.cluster, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return n.now }})
	if err := n.makeDirs(); err != nil {
		t.Fatal(err)
	}
	return n
}

// target makes the parent of a pod's mount, as the kubelet does.
func (n *node) target(pod string) string {
	n.t.Helper()
	parent := filepath.Join(n.cfg.KubeletDir, "pods", pod, "volumes", "kubernetes.io~csi", "v")
	if err := os.MkdirAll(parent, 0o750); err != nil {
		n.t.Fatal(err)
	}
	at := filepath.Join(parent, "mount")
	n.t.Cleanup(func() { _ = detach(at) }) // most tests did it
	return at
}

func (n *node) publishRequest(id, at string) *csi.NodePublishVolumeRequest {
	return &csi.NodePublishVolumeRequest{
		VolumeId: id, TargetPath: at, VolumeContext: map[string]string{storage.ClusterKey: n.cluster.uid},
		VolumeCapability: capability(csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER),
	}
}

func capability(mode csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
	}
}

func (n *node) publish(r *csi.NodePublishVolumeRequest) error {
	_, err := nodeService{driver: n.Driver}.NodePublishVolume(n.t.Context(), r)
	return err
}

func (n *node) unpublish(id, at string) error {
	_, err := nodeService{driver: n.Driver}.NodeUnpublishVolume(n.t.Context(),
		&csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: at})
	return err
}

func (n *node) look(after time.Duration) {
	n.t.Helper()
	n.now = n.now.Add(after)
	if err := n.sweep(n.t.Context()); err != nil {
		n.t.Error(err)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestPublish(t *testing.T) {
	n := newNode(t)
	first, second := n.target("p1"), n.target("p2")
	for range 3 { // each call may come again
		must(t, n.publish(n.publishRequest("v", first)))
	}
	must(t, os.WriteFile(filepath.Join(first, "a"), []byte("kept"), 0o600))
	readOnly := n.publishRequest("v", second)
	readOnly.Readonly = true
	must(t, n.publish(readOnly))
	if err := os.WriteFile(filepath.Join(second, "b"), nil, 0o600); err == nil {
		t.Error("wrote into a read-only mount")
	}
	if err := n.publish(n.publishRequest("v", second)); status.Code(err) != codes.AlreadyExists {
		t.Errorf("read-only, then writable: %v", err)
	}
	r, err := nodeService{driver: n.Driver}.NodeGetVolumeStats(t.Context(),
		&csi.NodeGetVolumeStatsRequest{VolumeId: "v", VolumePath: first})
	if err != nil || r.GetUsage()[0].GetUsed() != 4 || r.GetUsage()[0].GetTotal() == 0 ||
		r.GetUsage()[1].GetUsed() != 2 {
		t.Errorf("%v, %v", r, err)
	}
	for range 2 {
		must(t, n.unpublish("v", first), n.unpublish("v", second))
	}
	if exists(first) || exists(second) {
		t.Error("a target stayed")
	}
	if got, err := os.ReadFile(filepath.Join(n.data("v"), "a")); string(got) != "kept" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestStage(t *testing.T) {
	n := newNode(t)
	s := nodeService{driver: n.Driver}
	at := filepath.Join(n.cfg.KubeletDir, "plugins", "kubernetes.io", "csi", storage.Driver, "0a1b", "globalmount")
	for _, c := range []struct {
		id, at string
		want   codes.Code
	}{{"v", at, codes.OK}, {"../v", at, codes.InvalidArgument}, {"v", "/etc", codes.InvalidArgument},
		{"", at, codes.InvalidArgument}, {"v", "", codes.InvalidArgument}} {
		r := &csi.NodeStageVolumeRequest{VolumeId: c.id, StagingTargetPath: c.at,
			VolumeCapability: capability(csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER),
			VolumeContext:    map[string]string{storage.ClusterKey: uid}}
		_, stage := s.NodeStageVolume(t.Context(), r)
		_, unstage := s.NodeUnstageVolume(t.Context(),
			&csi.NodeUnstageVolumeRequest{VolumeId: c.id, StagingTargetPath: c.at})
		if status.Code(stage) != c.want || status.Code(unstage) != c.want {
			t.Errorf("%q at %q: %v, %v", c.id, c.at, stage, unstage)
		}
		r.VolumeContext = nil
		if _, err := s.NodeStageVolume(t.Context(), r); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%q at %q without a cluster: %v", c.id, c.at, err)
		}
	}
	if exists(n.data("v")) || exists(at) {
		t.Error("staging made something")
	}
}

func TestReadWriteOncePod(t *testing.T) {
	n := newNode(t)
	r := n.publishRequest("v", n.target("p1"))
	r.VolumeCapability = capability(csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER)
	must(t, n.publish(r))
	r.TargetPath = n.target("p2")
	if err := n.publish(r); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a second pod: %v", err)
	}
	// A target that is gone without the driver's help does not count.
	must(t, detach(n.target("p1")), n.publish(r))
}

func TestRefused(t *testing.T) {
	n := newNode(t)
	for name, change := range map[string]func(*csi.NodePublishVolumeRequest){
		"name":       func(r *csi.NodePublishVolumeRequest) { r.VolumeId = "../v" },
		"device":     func(r *csi.NodePublishVolumeRequest) { r.VolumeId = "nul" },
		"target":     func(r *csi.NodePublishVolumeRequest) { r.TargetPath = "/etc" },
		"target up":  func(r *csi.NodePublishVolumeRequest) { r.TargetPath += "/../../../../../../../x" },
		"no cluster": func(r *csi.NodePublishVolumeRequest) { r.VolumeContext = nil },
		"attribute":  func(r *csi.NodePublishVolumeRequest) { r.VolumeContext["path"] = "/etc" },
		"many nodes": func(r *csi.NodePublishVolumeRequest) {
			r.VolumeCapability.AccessMode.Mode = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
		},
		"options": func(r *csi.NodePublishVolumeRequest) {
			r.VolumeCapability.GetMount().MountFlags = []string{"suid"}
		},
		"a block": func(r *csi.NodePublishVolumeRequest) {
			r.VolumeCapability.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
		},
		"nothing set": func(r *csi.NodePublishVolumeRequest) { r.VolumeCapability = nil },
	} {
		r := n.publishRequest("v", n.target("p"))
		change(r)
		if err := n.publish(r); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	if exists(n.data("v")) || exists(n.target("p")) {
		t.Error("a refused request left something")
	}
	// Of another cluster, and lost.
	must(t, n.publish(n.publishRequest("v", n.target("p"))), n.unpublish("v", n.target("p")))
	other := n.publishRequest("v", n.target("p"))
	other.VolumeContext[storage.ClusterKey] = "00000000-0000-0000-0000-000000000000"
	if err := n.publish(other); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("another cluster: %v", err)
	}
	must(t, os.Remove(n.data("v")))
	if err := n.publish(n.publishRequest("v", n.target("p"))); status.Code(err) != codes.DataLoss {
		t.Errorf("lost data: %v", err)
	}
}

// TestLinks: whatever links a pod leaves in its volume, or someone puts in a target's
// place, nothing behind them changes.
func TestLinks(t *testing.T) {
	n := newNode(t)
	outside := filepath.Join(t.TempDir(), "outside")
	must(t, os.MkdirAll(filepath.Join(outside, "dir"), 0o700),
		os.WriteFile(filepath.Join(outside, "file"), []byte("untouched"), 0o600))
	at := n.target("p")
	must(t, n.publish(n.publishRequest("v", at)))
	for name, to := range map[string]string{"dir": outside, "file": filepath.Join(outside, "file"), "up": "../../..",
		"self": ".", "loop": "loop", "root": "/"} {
		must(t, os.Symlink(to, filepath.Join(at, name)))
	}
	r, err := nodeService{driver: n.Driver}.NodeGetVolumeStats(t.Context(),
		&csi.NodeGetVolumeStatsRequest{VolumeId: "v", VolumePath: at})
	if err != nil || r.GetUsage()[0].GetUsed() != 0 {
		t.Errorf("usage through links: %v, %v", r, err)
	}
	must(t, n.unpublish("v", at))
	// A link in the target's place.
	must(t, os.Symlink(outside, at))
	if err := n.publish(n.publishRequest("v", at)); err == nil {
		t.Error("published through a link")
	}
	if err := n.unpublish("v", at); err == nil {
		t.Error("unpublished a link")
	}
	must(t, os.Remove(at))
	// Deleted, links and all.
	n.cluster.deleted["v"] = n.now
	n.look(0)
	n.look(storage.KeepTrash)
	n.look(0)
	if exists(n.data("v")) || exists(n.trash("v")) || exists(n.trash(removing+"v")) || exists(n.record("v")) {
		t.Error("something stayed")
	}
	st, err := os.Stat(outside)
	if err != nil || st.Mode().Perm() != 0o755&st.Mode().Perm() || !exists(filepath.Join(outside, "dir")) {
		t.Errorf("outside: %v, %v", st, err)
	}
	if got, err := os.ReadFile(filepath.Join(outside, "file")); string(got) != "untouched" {
		t.Errorf("outside: %q, %v", got, err)
	}
	// A volume that is a link is none.
	must(t, n.publish(n.publishRequest("w", n.target("q"))), n.unpublish("w", n.target("q")), os.Remove(n.data("w")),
		os.Symlink(outside, n.data("w")))
	if err := n.publish(n.publishRequest("w", n.target("q"))); status.Code(err) != codes.DataLoss {
		t.Errorf("a link in a volume's place: %v", err)
	}
}

func TestTrash(t *testing.T) {
	n := newNode(t)
	at := n.target("p")
	must(t, n.publish(n.publishRequest("v", at)), os.WriteFile(filepath.Join(at, "a"), nil, 0o600))
	n.look(time.Hour)
	// The volume is deleted while a pod has it still: it was deleted by force.
	n.cluster.deleted["v"] = n.now
	n.look(time.Hour)
	n.look(time.Hour)
	if !exists(filepath.Join(at, "a")) {
		t.Fatal("the data of a pod is gone")
	}
	must(t, n.unpublish("v", at))
	n.cluster.err = errors.New("away")
	n.now = n.now.Add(time.Hour)
	if err := n.sweep(t.Context()); err == nil || !exists(n.data("v")) {
		t.Fatalf("without an API server: %v", err)
	}
	n.cluster.err = nil
	n.look(0)
	if exists(n.data("v")) || !exists(filepath.Join(n.trash("v"), "a")) {
		t.Fatal("not in the trash")
	}
	// etcd is restored, or someone made a PersistentVolume: it is not deleted any more.
	delete(n.cluster.deleted, "v")
	n.look(time.Hour)
	if !exists(filepath.Join(n.data("v"), "a")) || exists(n.trash("v")) {
		t.Fatal("not restored")
	}
	// The same, noticed by a pod first. The manager is away, and does not take the mark back for a month.
	n.cluster.deleted["v"] = n.now
	n.look(0)
	n.now = n.now.Add(time.Minute)
	must(t, n.publish(n.publishRequest("v", at)))
	if !exists(filepath.Join(at, "a")) {
		t.Fatal("not restored for a pod")
	}
	must(t, n.unpublish("v", at))
	n.look(month)
	n.look(month)
	if !exists(filepath.Join(n.data("v"), "a")) {
		t.Fatal("the data of a PersistentVolume that a pod had is gone")
	}
	// Deleted again, to the end: the mark goes when nothing is left.
	n.cluster.deleted["v"] = n.now
	n.look(0)
	n.look(storage.KeepTrash - time.Second)
	if !exists(n.trash("v")) || len(n.cluster.deleted) == 0 {
		t.Fatal("removed too early")
	}
	n.look(time.Second)
	n.look(0)
	if exists(n.data("v")) || exists(n.trash("v")) || exists(n.record("v")) || len(n.cluster.deleted) != 0 {
		t.Error("something stayed")
	}
	// A mark of a volume that no pod ever had.
	n.cluster.deleted["never"] = n.now
	n.look(0)
	if len(n.cluster.deleted) != 0 {
		t.Error("a mark without a volume stayed")
	}
}

const month = 30 * 24 * time.Hour

// kept writes a file into a volume of a pod that ends.
func (n *node) kept(id string) {
	n.t.Helper()
	at := n.target("of-" + id)
	must(n.t, n.publish(n.publishRequest(id, at)),
		os.WriteFile(filepath.Join(at, "a"), []byte("precious"), 0o600), n.unpublish(id, at))
}

// wants checks that a pod gets a volume with its file.
func (n *node) wants(id, when string) {
	n.t.Helper()
	at := n.target("of-" + id)
	must(n.t, n.publish(n.publishRequest(id, at)))
	if got, err := os.ReadFile(filepath.Join(at, "a")); string(got) != "precious" {
		n.t.Errorf("%s: %q, %v", when, got, err)
	}
	must(n.t, n.unpublish(id, at))
}

// TestNotMarked: the data of a volume that is not marked as deleted stays, whatever the clock does. It is retained, or
// its PersistentVolume has another name, which the node does not see.
func TestNotMarked(t *testing.T) {
	n := newNode(t)
	n.kept("v")
	for name, after := range map[string]time.Duration{
		"a month": month, "a day ahead": 24 * time.Hour, "a day behind": -24 * time.Hour, "a year behind": -12 * month,
		"a week away": 7 * 24 * time.Hour,
	} {
		for range 3 {
			n.look(after)
		}
		n.wants("v", name)
	}
	// A trash of an earlier version, which had no marks.
	r, err := n.read("v")
	must(t, err, n.throwAway(t.Context(), "v", r, n.now))
	n.look(month)
	n.wants("v", "in the trash of an earlier version")
}

// TestClockOfTrash: a clock that is set back keeps the trash, and no data skips the trash, however long the node was
// away.
func TestClockOfTrash(t *testing.T) {
	n := newNode(t)
	n.kept("v")
	n.cluster.deleted["v"] = n.now
	n.look(7 * 24 * time.Hour)
	if !exists(n.trash("v")) {
		t.Error("a node that was away for a week has removed the data at once")
	}
	n.look(-24 * time.Hour)
	n.look(47 * time.Hour)
	if !exists(n.trash("v")) {
		t.Error("the trash was emptied early")
	}
	n.look(time.Hour)
	if exists(n.trash("v")) {
		t.Error("the trash was never emptied")
	}
}

// TestTwoClusters: two clusters over one directory. Each has its own volumes, and neither ends those of the other.
func TestTwoClusters(t *testing.T) {
	testenv.Need(t, testenv.Root) // bind mounts
	dir := t.TempDir()
	one, two := over(t, dir, uid), over(t, dir, "00000000-0000-0000-0000-000000000000")
	one.kept("ones")
	two.kept("twos")
	for n, others := range map[*node]string{one: "twos", two: "ones"} {
		if err := n.publish(n.publishRequest(others, n.target("thief"))); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("%s was given away: %v", others, err)
		}
		n.cluster.deleted[others] = n.now
		n.look(0)
		n.look(month)
	}
	one.wants("ones", "marked by the other cluster")
	two.wants("twos", "marked by the other cluster")
	// The trash of a cluster is its own, too.
	one.cluster.deleted["ones"] = one.now
	one.look(0)
	two.look(month)
	if !exists(one.trash("ones")) {
		t.Error("the other cluster has emptied the trash")
	}
	delete(one.cluster.deleted, "ones")
	one.wants("ones", "in the trash")
}

// TestLostRecord: data without a record, or with one that is damaged, is given to no pod and stays, until a person has
// written whose it is. A pod that has it can end.
func TestLostRecord(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"gone":          os.Remove,
		"half-written":  func(path string) error { return os.Truncate(path, 20) },
		"empty":         func(path string) error { return os.Truncate(path, 0) },
		"of no cluster": func(path string) error { return os.WriteFile(path, []byte(`{"targets": []}`), 0o600) },
		"foreign":       func(path string) error { return os.WriteFile(path, []byte("<html>"), 0o600) },
		"large":         func(path string) error { return os.Truncate(path, 2<<20) },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.kept("v")
			at := n.target("q")
			must(t, n.publish(n.publishRequest("v", at)), damage(n.record("v")), n.unpublish("v", at))
			n.cluster.deleted["v"] = n.now.Add(time.Hour)
			for range 2 { // with an error, unless there is no record at all
				if err := n.sweep(t.Context()); (err == nil) != (name == "gone") {
					t.Error(err)
				}
				n.now = n.now.Add(month)
			}
			err := n.publish(n.publishRequest("v", at))
			if err == nil || !strings.Contains(err.Error(), "with the UID of the namespace kube-system") {
				t.Errorf("adopted, or not explained: %v", err)
			}
			n.cluster.deleted = map[string]time.Time{}
			must(t, os.WriteFile(n.record("v"), []byte(`{"cluster": "`+uid+`"}`), 0o600))
			n.wants("v", "with a new record")
		})
	}
	// In the trash, too.
	n := newNode(t)
	n.kept("v")
	must(t, os.Rename(n.data("v"), n.trash("v")), os.Remove(n.record("v")))
	if err := n.publish(n.publishRequest("v", n.target("q"))); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("begun again beside the trash: %v", err)
	}
}

// TestDied: a driver that was killed at any step finds the volume in order.
func TestDied(t *testing.T) {
	n := newNode(t)
	at := n.target("p")
	// Killed before the record was written.
	must(t, makeData(n.data("v")), n.publish(n.publishRequest("v", at)), n.unpublish("v", at))
	// Killed between record and mount.
	r, err := n.read("v")
	must(t, err)
	r.Targets = []target{{Path: at}}
	must(t, n.write("v", r), n.publish(n.publishRequest("v", at)), n.unpublish("v", at))
	// Killed between unmount and record.
	must(t, n.publish(n.publishRequest("v", at)), detach(at), n.unpublish("v", at))
	// Killed between record and trash; then the volume is wanted again, or not.
	r, err = n.read("v")
	must(t, err)
	n.cluster.deleted["v"] = n.now
	r.Trashed, r.Used = n.now, time.Time{}
	must(t, n.write("v", r), n.publish(n.publishRequest("v", at)), n.unpublish("v", at), n.write("v", r))
	n.look(storage.KeepTrash)
	n.look(0)
	if exists(n.data("v")) || exists(n.record("v")) {
		t.Error("something stayed")
	}
}

// TestRun speaks to the driver as the kubelet does.
func TestRun(t *testing.T) {
	n := newNode(t)
	endpoint, registration := n.sockets()
	// What an earlier driver left behind, and another program that listens in its place.
	must(t, os.MkdirAll(filepath.Dir(endpoint), 0o700), os.MkdirAll(filepath.Dir(registration), 0o700),
		os.WriteFile(registration, []byte("x"), 0o600))
	other, err := net.Listen("unix", endpoint)
	must(t, err)
	defer func() { _ = other.Close() }() // its file is another's now
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	dial := func(path string) *grpc.ClientConn {
		c, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	var info *registerapi.PluginInfo
	testenv.Eventually(t, "the registration socket", func() (err error) {
		info, err = registerapi.NewRegistrationClient(dial(registration)).GetInfo(t.Context(),
			&registerapi.InfoRequest{})
		return err
	})
	if info.GetName() != storage.Driver || info.GetEndpoint() != endpoint || info.GetType() != registerapi.CSIPlugin {
		t.Errorf("%v", info)
	}
	_, err = registerapi.NewRegistrationClient(dial(registration)).NotifyRegistrationStatus(t.Context(),
		&registerapi.RegistrationStatus{PluginRegistered: true})
	must(t, err)
	got, err := csi.NewNodeClient(dial(info.GetEndpoint())).NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{})
	must(t, err)
	if got.GetNodeId() != "n" || got.GetAccessibleTopology().GetSegments()[storage.TopologyKey] != "n" {
		t.Errorf("%v", got)
	}
	testenv.Until(t, "the free space", func() bool {
		n.cluster.mu.Lock()
		defer n.cluster.mu.Unlock()
		return len(n.cluster.free) == 1 && n.cluster.free[0] > 0
	})
	if st, err := os.Stat(endpoint); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", st, err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if exists(registration) {
		t.Error("the kubelet would still see the driver")
	}
}
