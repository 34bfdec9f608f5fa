// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package csi runs Kubernetes' csi-sanity against the driver of the class mullion-local,
// over its sockets. It is a module of its own: csi-sanity asks for newer libraries than
// Kubernetes is built with.
package csi

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/mullion-k8s/mullion/internal/agent/csidriver"
	"github.com/mullion-k8s/mullion/internal/agent/storage"
)

const uid = "5f1e9f0a-7d5c-4b8e-9c1a-2b3c4d5e6f70"

// cluster has every volume.
type cluster struct{}

func (cluster) UID(context.Context) (string, error)                   { return uid, nil }
func (cluster) Deleted(context.Context) (map[string]time.Time, error) { return nil, nil }
func (cluster) Forget(context.Context, string) error                  { return nil }
func (cluster) ReportFree(context.Context, int64) error               { return nil }

func TestSanity(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("bind mounts need root")
	}
	dir := t.TempDir()
	kubelet := filepath.Join(dir, "kubelet")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	d := csidriver.New(csidriver.Config{Node: "node", Dir: filepath.Join(dir, "data"), KubeletDir: kubelet,
		Cluster: cluster{},
		Log:     slog.New(slog.DiscardHandler)})
	go func() { done <- d.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	socket := filepath.Join(kubelet, "plugins", storage.Driver, "csi.sock")
	for range 200 {
		if _, err := os.Stat(socket); err == nil {
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	both := filepath.Join(dir, "both.sock")
	front(t, both, socket)
	c := sanity.NewTestConfig()
	c.Address = "unix:" + both
	c.DialOptions = []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	c.TargetPath, c.StagingPath = filepath.Join(kubelet, "mount"), filepath.Join(kubelet, "staging")
	sanity.Test(t, c)
}

// front serves the driver's own services and, beside them, the controller's side, which
// in a cluster is the manager's provisioner.
func front(t *testing.T, path, driver string) {
	conn, err := grpc.NewClient("unix:"+driver, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	csi.RegisterIdentityServer(s, identity{driver: csi.NewIdentityClient(conn)})
	csi.RegisterNodeServer(s, node{driver: csi.NewNodeClient(conn)})
	csi.RegisterControllerServer(s, &controller{volumes: map[string]*csi.Volume{}})
	go func() { _ = s.Serve(l) }() // ends with Stop
	t.Cleanup(func() {
		s.Stop()
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
}

// identity adds the controller service to what the driver answers.
type identity struct {
	csi.UnimplementedIdentityServer
	driver csi.IdentityClient
}

func (i identity) GetPluginInfo(ctx context.Context, r *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return i.driver.GetPluginInfo(ctx, r)
}

func (i identity) Probe(ctx context.Context, r *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return i.driver.Probe(ctx, r)
}

func (i identity) GetPluginCapabilities(ctx context.Context, r *csi.GetPluginCapabilitiesRequest) (
	*csi.GetPluginCapabilitiesResponse, error) {
	out, err := i.driver.GetPluginCapabilities(ctx, r)
	if err != nil {
		return nil, err
	}
	out.Capabilities = append(out.Capabilities, &csi.PluginCapability{Type: &csi.PluginCapability_Service_{
		Service: &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE}}})
	return out, nil
}

// node passes everything on.
type node struct {
	csi.UnimplementedNodeServer
	driver csi.NodeClient
}

func (n node) NodeGetInfo(ctx context.Context, r *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return n.driver.NodeGetInfo(ctx, r)
}

func (n node) NodeGetCapabilities(ctx context.Context, r *csi.NodeGetCapabilitiesRequest) (
	*csi.NodeGetCapabilitiesResponse, error) {
	return n.driver.NodeGetCapabilities(ctx, r)
}

func (n node) NodeStageVolume(ctx context.Context, r *csi.NodeStageVolumeRequest) (
	*csi.NodeStageVolumeResponse, error) {
	return n.driver.NodeStageVolume(ctx, r)
}

func (n node) NodeUnstageVolume(ctx context.Context, r *csi.NodeUnstageVolumeRequest) (
	*csi.NodeUnstageVolumeResponse, error) {
	return n.driver.NodeUnstageVolume(ctx, r)
}

func (n node) NodePublishVolume(ctx context.Context, r *csi.NodePublishVolumeRequest) (
	*csi.NodePublishVolumeResponse, error) {
	return n.driver.NodePublishVolume(ctx, r)
}

func (n node) NodeUnpublishVolume(ctx context.Context, r *csi.NodeUnpublishVolumeRequest) (
	*csi.NodeUnpublishVolumeResponse, error) {
	return n.driver.NodeUnpublishVolume(ctx, r)
}

func (n node) NodeGetVolumeStats(ctx context.Context, r *csi.NodeGetVolumeStatsRequest) (
	*csi.NodeGetVolumeStatsResponse, error) {
	return n.driver.NodeGetVolumeStats(ctx, r)
}

// controller makes volumes as the provisioner does: a name, and the cluster's UID.
type controller struct {
	csi.UnimplementedControllerServer
	mu      sync.Mutex
	volumes map[string]*csi.Volume // by ID
}

func (c *controller) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (
	*csi.ControllerGetCapabilitiesResponse, error) {
	var out csi.ControllerGetCapabilitiesResponse
	for _, t := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		out.Capabilities = append(out.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}}})
	}
	return &out, nil
}

func (c *controller) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if r.GetName() == "" || len(r.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "a name and capabilities are needed")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id := fmt.Sprintf("pvc-%x", sha256.Sum256([]byte(r.GetName())))[:40]
	v := c.volumes[id]
	if v == nil {
		v = &csi.Volume{VolumeId: id, CapacityBytes: r.GetCapacityRange().GetRequiredBytes(),
			VolumeContext:      map[string]string{storage.ClusterKey: uid},
			AccessibleTopology: r.GetAccessibilityRequirements().GetRequisite()}
		c.volumes[id] = v
	}
	if v.GetCapacityBytes() != r.GetCapacityRange().GetRequiredBytes() {
		return nil, status.Error(codes.AlreadyExists, "it has another size")
	}
	return &csi.CreateVolumeResponse{Volume: v}, nil
}

func (c *controller) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if r.GetVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "an ID is needed")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.volumes, r.GetVolumeId())
	return &csi.DeleteVolumeResponse{}, nil
}

func (c *controller) ValidateVolumeCapabilities(_ context.Context, r *csi.ValidateVolumeCapabilitiesRequest) (
	*csi.ValidateVolumeCapabilitiesResponse, error) {
	if r.GetVolumeId() == "" || len(r.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "an ID and capabilities are needed")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.volumes[r.GetVolumeId()] == nil {
		return nil, status.Error(codes.NotFound, "there is no such volume")
	}
	return &csi.ValidateVolumeCapabilitiesResponse{
		Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: r.GetVolumeCapabilities()},
	}, nil
}
