// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ImageFsInfo returns the space that images and writable layers use. Both are in one file
// system; the kubelet gets its free space from the host.
func (s *Server) ImageFsInfo(context.Context, *runtime.ImageFsInfoRequest) (*runtime.ImageFsInfoResponse, error) {
	info, err := s.cfg.Images.FsInfo()
	if err != nil {
		return nil, err
	}
	bytes, inodes := info.UsedBytes, info.InodesUsed
	for _, c := range s.store.Containers.List() {
		if m, ok := s.samples.get(c.ID); ok {
			bytes, inodes = bytes+m.disk, inodes+m.inodes
		}
	}
	fs := []*runtime.FilesystemUsage{{
		Timestamp: now(), FsId: &runtime.FilesystemIdentifier{Mountpoint: imageFS}, UsedBytes: number(bytes),
		InodesUsed: number(inodes),
	}}
	return &runtime.ImageFsInfoResponse{ImageFilesystems: fs, ContainerFilesystems: fs}, nil
}
