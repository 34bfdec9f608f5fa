// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"cmp"
	"context"
	"strings"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	runtimeName = "mullion"
	// kubeAPIVersion is the version of the first message of CRI, always 0.1.0.
	kubeAPIVersion = "0.1.0"
	criVersion     = "v1"
)

// Version names the runtime: nodes show "mullion://<version>".
func (s *Server) Version(context.Context, *runtime.VersionRequest) (*runtime.VersionResponse, error) {
	version := cmp.Or(strings.TrimPrefix(s.cfg.Version, "v"), "0.0.0") // as containerd's
	return &runtime.VersionResponse{
		Version:           kubeAPIVersion,
		RuntimeName:       runtimeName,
		RuntimeVersion:    version,
		RuntimeApiVersion: criVersion,
	}, nil
}
