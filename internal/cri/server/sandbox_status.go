// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"encoding/json"
	"fmt"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/store"
)

// PodSandboxStatus describes a sandbox and its containers.
func (s *Server) PodSandboxStatus(ctx context.Context,
	req *runtime.PodSandboxStatusRequest) (*runtime.PodSandboxStatusResponse, error) {
	sb, err := s.sandbox(req.GetPodSandboxId())
	if err != nil {
		return nil, err
	}
	resp := &runtime.PodSandboxStatusResponse{Status: sandboxStatus(sb), Timestamp: now()}
	for _, c := range s.containersOf(sb.ID) {
		if c.Made != 0 {
			resp.ContainersStatuses = append(resp.ContainersStatuses, s.containerStatus(c))
		}
	}
	if req.GetVerbose() {
		info, err := json.Marshal(struct {
			store.Sandbox
			NetworkNamespace string                    `json:"networkNamespace,omitempty"`
			Config           *runtime.PodSandboxConfig `json:"config"`
		}{sb, s.networkPath(sb), sb.Config})
		if err != nil {
			return nil, fmt.Errorf("describe sandbox: %w", err)
		}
		resp.Info = map[string]string{"info": string(info)}
	}
	return resp, nil
}

func (s *Server) networkPath(sb store.Sandbox) string {
	if sb.NamespaceID == "" {
		return ""
	}
	return s.cfg.Namespaces.NamespacePath(sb.NamespaceID)
}

func sandboxStatus(sb store.Sandbox) *runtime.PodSandboxStatus {
	network := &runtime.PodSandboxNetworkStatus{}
	// The kubelet wants no addresses of a sandbox that has given them up.
	if sb.Ready() && len(sb.IPs) > 0 {
		network.Ip = sb.IPs[0]
		for _, ip := range sb.IPs[1:] {
			network.AdditionalIps = append(network.AdditionalIps, &runtime.PodIP{Ip: ip})
		}
	}
	return &runtime.PodSandboxStatus{
		Id: sb.ID, Metadata: sb.Config.GetMetadata(), State: sb.State(), CreatedAt: sb.Created, Network: network,
		Labels: sb.Config.GetLabels(), Annotations: sb.Config.GetAnnotations(), RuntimeHandler: sb.Handler,
		// containerd fills this on every operating system, from the kubelet's request
		// (toCRISandboxStatus); the kubelet makes a new sandbox if the network is
		// another than the pod's.
		Linux: &runtime.LinuxPodSandboxStatus{Namespaces: &runtime.Namespace{Options: namespaceOptions(sb.Config)}},
	}
}

func namespaceOptions(c *runtime.PodSandboxConfig) *runtime.NamespaceOption {
	if o := c.GetLinux().GetSecurityContext().GetNamespaceOptions(); o != nil {
		return o
	}
	return &runtime.NamespaceOption{}
}
