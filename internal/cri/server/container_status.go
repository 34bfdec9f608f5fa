// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/cri/store"
	"github.com/mullion-k8s/mullion/internal/winsys/winpath"
)

// ContainerStatus describes a container.
func (s *Server) ContainerStatus(_ context.Context,
	req *runtime.ContainerStatusRequest) (*runtime.ContainerStatusResponse, error) {
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
		Id:          c.ID,
		Metadata:    c.Config.GetMetadata(),
		State:       c.State(),
		CreatedAt:   c.Created,
		StartedAt:   c.Started,
		FinishedAt:  c.Finished,
		ExitCode:    c.ExitCode,
		Image:       spec,
		ImageRef:    c.ImageRef,
		ImageId:     c.ImageID,
		Reason:      c.Reason,
		Message:     c.Message,
		Labels:      c.Config.GetLabels(),
		Annotations: c.Config.GetAnnotations(),
		Mounts:      c.Config.GetMounts(),
		LogPath:     s.logName(c),
	}
	if r := c.Config.GetWindows().GetResources(); r != nil {
		st.Resources = &runtime.ContainerResources{Windows: r}
	}
	// The kubelet's requests have an ID; people want to read a name.
	if img, err := s.cfg.Images.Get(c.ImageID); err == nil && len(img.RepoTags) > 0 {
		spec.Image = nameOf(c.Config.GetImage(), img.RepoTags)
	}
	return st
}

// nameOf returns the tag that the pod was written with, if the image still has it.
// containerd shows the first tag; a stand-in has dozens, of every spelling that
// Microsoft ever published.
func nameOf(spec *runtime.ImageSpec, tags []string) string {
	for _, name := range []string{spec.GetUserSpecifiedImage(), spec.GetImage()} {
		if ref, err := image.ParseReference(name); err == nil && slices.Contains(tags, ref.String()) {
			return ref.String()
		}
	}
	return tags[0]
}

// digestOf returns a digest of the same repository as the pod's name of the image.
func digestOf(spec *runtime.ImageSpec, img *image.Image) string {
	if len(img.RepoDigests) == 0 {
		return img.ID
	}
	for _, name := range []string{spec.GetUserSpecifiedImage(), spec.GetImage()} {
		ref, err := image.ParseReference(name)
		if err != nil {
			continue
		}
		repository, _, _ := strings.Cut(ref.String(), "@")
		if i := strings.LastIndexByte(repository, ':'); i > strings.LastIndexByte(repository, '/') {
			repository = repository[:i]
		}
		for _, d := range img.RepoDigests {
			if strings.HasPrefix(d, repository+"@") {
				return d
			}
		}
	}
	return img.RepoDigests[0]
}

// logName returns the log's path as the emulated host spells it.
func (s *Server) logName(c store.Container) string {
	sb, err := s.store.Sandboxes.Get(c.SandboxID)
	if err != nil || c.LogPath == "" {
		return ""
	}
	return winpath.Join(sb.Config.GetLogDirectory(), c.Config.GetLogPath())
}
