// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package csidriver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mullion-k8s/mullion/internal/agent/storage"
)

// NodeStageVolume only checks the request: there is no device. The driver declares
// STAGE_UNSTAGE_VOLUME all the same, because the kubelet of 1.36 removes its directory
// for staging only then: for other drivers it writes no vol_data.json, and UnmountDevice
// has no effect without that file (pkg/volume/csi/csi_attacher.go).
func (n nodeService) NodeStageVolume(_ context.Context, r *csi.NodeStageVolumeRequest) (
	*csi.NodeStageVolumeResponse, error) {
	if err := n.check(r.GetVolumeId(), r.GetStagingTargetPath()); err != nil {
		return nil, err
	}
	if _, err := checkCapability(r.GetVolumeCapability()); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if _, _, err := storage.CheckContext(r.GetVolumeContext()); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return &csi.NodeStageVolumeResponse{}, nil
}

// NodeUnstageVolume only checks the request, as NodeStageVolume.
func (n nodeService) NodeUnstageVolume(_ context.Context, r *csi.NodeUnstageVolumeRequest) (
	*csi.NodeUnstageVolumeResponse, error) {
	if err := n.check(r.GetVolumeId(), r.GetStagingTargetPath()); err != nil {
		return nil, err
	}
	return &csi.NodeUnstageVolumeResponse{}, nil
}
