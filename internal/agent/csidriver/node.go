// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package csidriver

import (
	"context"
	"errors"
	"io/fs"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mullion-k8s/mullion/internal/agent/storage"
)

// nodeService implements the CSI node service for the kubelet.
type nodeService struct {
	csi.UnimplementedNodeServer
	driver *Driver
}

func (n nodeService) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{
		NodeId:             n.driver.cfg.Node,
		AccessibleTopology: &csi.Topology{Segments: map[string]string{storage.TopologyKey: n.driver.cfg.Node}},
	}, nil
}

// NodeGetCapabilities: with SINGLE_NODE_MULTI_WRITER the kubelet distinguishes
// ReadWriteOnce from ReadWriteOncePod.
func (nodeService) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (
	*csi.NodeGetCapabilitiesResponse, error) {
	var out csi.NodeGetCapabilitiesResponse
	for _, t := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		out.Capabilities = append(out.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: t}}})
	}
	return &out, nil
}

func (n nodeService) NodePublishVolume(ctx context.Context, r *csi.NodePublishVolumeRequest) (
	*csi.NodePublishVolumeResponse, error) {
	if err := n.check(r.GetVolumeId(), r.GetTargetPath()); err != nil {
		return nil, err
	}
	single, err := checkCapability(r.GetVolumeCapability())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	cluster, bytes, err := storage.CheckContext(r.GetVolumeContext())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	at := target{Path: r.GetTargetPath(), ReadOnly: r.GetReadonly(), Single: single}
	if err := n.driver.publish(ctx, r.GetVolumeId(), record{Cluster: cluster, Bytes: bytes}, at); err != nil {
		return nil, answer(err)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func (n nodeService) NodeUnpublishVolume(_ context.Context, r *csi.NodeUnpublishVolumeRequest) (
	*csi.NodeUnpublishVolumeResponse, error) {
	if err := n.check(r.GetVolumeId(), r.GetTargetPath()); err != nil {
		return nil, err
	}
	if err := n.driver.unpublish(r.GetVolumeId(), r.GetTargetPath()); err != nil {
		return nil, answer(err)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

func (n nodeService) NodeGetVolumeStats(ctx context.Context, r *csi.NodeGetVolumeStatsRequest) (
	*csi.NodeGetVolumeStatsResponse, error) {
	// The path is only compared with the paths in the record.
	err := storage.CheckID(r.GetVolumeId())
	if err == nil && r.GetVolumePath() == "" {
		err = errors.New("the request has no volume path")
	}
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	u, err := n.driver.usage(ctx, r.GetVolumeId(), r.GetVolumePath())
	if err != nil {
		return nil, answer(err)
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		{Unit: csi.VolumeUsage_BYTES, Total: u.total, Available: u.free, Used: u.used},
		{Unit: csi.VolumeUsage_INODES, Used: u.files},
	}}, nil
}

// check refuses invalid volume IDs and targets.
func (n nodeService) check(id, target string) error {
	err := storage.CheckID(id)
	if err == nil {
		err = storage.CheckTarget(n.driver.cfg.KubeletDir, target)
	}
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return nil
}

// checkCapability reports whether only one pod may have the volume.
func checkCapability(c *csi.VolumeCapability) (single bool, err error) {
	switch {
	case c == nil:
		return false, errors.New("the request has no volume capability")
	case c.GetBlock() != nil:
		return false, errors.New("block devices are not supported: use volumeMode Filesystem")
	case len(c.GetMount().GetMountFlags()) > 0:
		return false, errors.New("mount options are not supported: a volume is a directory of the node")
	}
	switch c.GetAccessMode().GetMode() {
	case csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER:
		return true, nil
	case csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER,
		csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER,
		csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY:
		return false, nil
	}
	return false, errors.New("a volume of one node can only be ReadWriteOnce or ReadWriteOncePod")
}

// answer adds the gRPC code to an error.
func answer(err error) error {
	code := codes.Internal
	switch {
	case errors.Is(err, errOther):
		code = codes.FailedPrecondition
	case errors.Is(err, errGone):
		code = codes.DataLoss
	case errors.Is(err, fs.ErrNotExist):
		code = codes.NotFound
	case errors.Is(err, fs.ErrExist):
		code = codes.AlreadyExists
	}
	return status.Error(code, err.Error())
}
