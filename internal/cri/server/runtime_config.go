// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RuntimeConfig reports the cgroup driver; Windows has no driver.
func (s *Server) RuntimeConfig(context.Context, *runtime.RuntimeConfigRequest) (*runtime.RuntimeConfigResponse, error) {
	return &runtime.RuntimeConfigResponse{}, nil
}

// UpdateRuntimeConfig passes the node's pod network. containerd fills a
// template of a CNI configuration with it if it is given one; here the node's
// agent writes the configuration.
func (s *Server) UpdateRuntimeConfig(context.Context,
	*runtime.UpdateRuntimeConfigRequest) (*runtime.UpdateRuntimeConfigResponse, error) {
	return &runtime.UpdateRuntimeConfigResponse{}, nil
}
