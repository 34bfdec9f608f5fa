// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/proto"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/store"
)

// ContainerStatus describes a container.
func (s *Server) ContainerStatus(_ context.Context, req *runtime.ContainerStatusRequest) (*runtime.ContainerStatusResponse, error) {
	c, err := s.container(req.GetContainerId())
	if err != nil {
		return nil, err
	}
	resp := &runtime.ContainerStatusResponse{Status: s.containerStatus(c)}
	if req.GetVerbose() {
		info, err := json.Marshal(struct {
			store.Container
			Rootfs string                   `json:"rootfs"`
			Config *runtime.ContainerConfig `json:"config"`
		}{c, s.dir(c.ID, rootDir), c.Config})
		if err != nil {
			return nil, fmt.Errorf("describe container: %w", err)
		}
		resp.Info = map[string]string{"info": string(info)}
	}
	return resp, nil
}

func (s *Server) containerStatus(c store.Container) *runtime.ContainerStatus {
	spec := &runtime.ImageSpec{}
	if given := c.Config.GetImage(); given != nil {
		spec = proto.CloneOf(given)
	}
	st := &runtime.ContainerStatus{
		Id: c.ID, Metadata: c.Config.GetMetadata(), State: c.State(), CreatedAt: c.Created, StartedAt: c.Started, FinishedAt: c.Finished,
		ExitCode: c.ExitCode, Image: spec, ImageRef: c.ImageRef, ImageId: c.ImageID, Reason: c.Reason, Message: c.Message,
		Labels: c.Config.GetLabels(), Annotations: c.Config.GetAnnotations(), Mounts: c.Config.GetMounts(), LogPath: s.logName(c),
	}
	if r := c.Config.GetWindows().GetResources(); r != nil {
		st.Resources = &runtime.ContainerResources{Windows: r}
	}
	// The pod's name of the image may be an ID; people want to read a tag.
	if img, err := s.cfg.Images.Get(c.ImageID); err == nil && len(img.RepoTags) > 0 {
		spec.Image = img.RepoTags[0]
	}
	return st
}

// logName is the log's path as the emulated host spells it.
func (s *Server) logName(c store.Container) string {
	sb, err := s.store.Sandboxes.Get(c.SandboxID)
	if err != nil || c.LogPath == "" {
		return ""
	}
	return joinLog(sb.Config.GetLogDirectory(), c.Config.GetLogPath())
}
