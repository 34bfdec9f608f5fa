// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"context"
	"fmt"

	"github.com/mullion-k8s/mullion/internal/hns/schema"
)

// hasDSR reports whether load balancers can have direct server return: Windows Server 2019 has it, and everything
// since 1903 (hnslib v0.1.2 hcn/hcnglobals.go, DSRVersion; kube-proxy makes the same check, and exits if its
// configuration requires a missing feature).
func hasDSR(v schema.Version) bool {
	return v.Major == 9 && v.Minor >= 3 || v.Major == 10 && v.Minor >= 2 || v.Major > 10
}

// version returns the version of HNS.
func (c hnsClient) version(ctx context.Context) (v schema.Version, err error) {
	if err := c.do(ctx, "GET", "/globals/version", nil, &v); err != nil {
		return v, fmt.Errorf("ask for the version of HNS: %w", err)
	}
	return v, nil
}

// directServerReturn decides whether kube-proxy uses it. Upstream's default is no. Without it, backends see
// the node instead of the client, externalTrafficPolicy Local counts as Cluster, and each
// connection takes a port of the node.
func directServerReturn(ctx context.Context, h hnsClient, c Config) (bool, error) {
	if c.Network.DSR != nil && !*c.Network.DSR {
		return false, nil
	}
	v, err := h.version(ctx)
	if err != nil {
		return false, err
	}
	if c.Network.DSR != nil && !hasDSR(v) {
		return false, fmt.Errorf("network.dsr: HNS %d.%d does not have it: install the updates of Windows, or leave "+
			"the setting out", v.Major, v.Minor)
	}
	return hasDSR(v), nil
}
