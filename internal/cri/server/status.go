// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"encoding/json"
	"fmt"
	goruntime "runtime"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/cni"
)

// Status returns the conditions of the runtime and of the network. Reasons and messages are containerd's
// (internal/cri/server/status.go); the node's Ready condition shows them.
func (s *Server) Status(_ context.Context, req *runtime.StatusRequest) (*runtime.StatusResponse, error) {
	network := &runtime.RuntimeCondition{Type: runtime.NetworkReady, Status: true}
	lastCNI := "OK"
	if err := s.network.Ready(); err != nil {
		network.Status, network.Reason = false, "NetworkPluginNotReady"
		network.Message = fmt.Sprintf("Network plugin returns error: %v", err)
		lastCNI = err.Error()
	}
	resp := &runtime.StatusResponse{
		Status: &runtime.RuntimeStatus{Conditions: []*runtime.RuntimeCondition{{Type: runtime.RuntimeReady,
			Status: true}, network}},
		Features: &runtime.RuntimeFeatures{SupplementalGroupsPolicy: false},
	}
	for _, h := range s.handlers() {
		resp.RuntimeHandlers = append(resp.RuntimeHandlers,
			&runtime.RuntimeHandler{Name: h, Features: &runtime.RuntimeHandlerFeatures{}})
	}
	if req.GetVerbose() {
		info, err := json.Marshal(map[string]any{
			"emulated": true, "build": s.cfg.Build.OSVersion(), "stateDir": s.cfg.StateDir, "cgroup": s.cfg.Cgroup,
			"cni": map[string]string{"confDir": cni.DefaultConfDir, "binDir": cni.DefaultBinDir,
				"network": s.network.Name()},
		})
		if err != nil {
			return nil, fmt.Errorf("describe runtime: %w", err)
		}
		resp.Info = map[string]string{"config": string(info), "golang": goruntime.Version(),
			"lastCNILoadStatus": lastCNI}
	}
	return resp, nil
}
