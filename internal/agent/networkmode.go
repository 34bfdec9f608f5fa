// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"fmt"
	"strings"
)

// NetworkMode is the kind of network between pods of different nodes.
type NetworkMode string

// The modes. The unmodified flanneld.exe runs flannel's modes.
const (
	// L2Bridge: the network between the nodes routes each pod range to its node.
	L2Bridge NetworkMode = "l2bridge"
	// HostGateway: flanneld makes a route to each other node's pods.
	HostGateway NetworkMode = "host-gw"
	// VXLAN: flanneld makes an overlay, the nodes' network sees tunnels only.
	VXLAN NetworkMode = "vxlan"
)

// networkModes lists the modes, the default first.
func networkModes() []NetworkMode { return []NetworkMode{L2Bridge, HostGateway, VXLAN} }

// ParseNetworkMode reads a mode; "" is the default.
func ParseNetworkMode(s string) (NetworkMode, error) {
	if s == "" {
		return networkModes()[0], nil
	}
	var names []string
	for _, m := range networkModes() {
		if string(m) == s {
			return m, nil
		}
		names = append(names, string(m))
	}
	return "", fmt.Errorf("network %q: want %s", s, strings.Join(names, ", "))
}

// Explain returns a short explanation of a mode.
func (m NetworkMode) Explain() string {
	return map[NetworkMode]string{
		L2Bridge:    "l2bridge: the network between the nodes routes each pod range to its node",
		HostGateway: "host-gw: flanneld makes a route to each other node",
		VXLAN: fmt.Sprintf("vxlan: flanneld makes an overlay, VNI %d, UDP port %d", FlannelVNI,
			FlannelPort),
	}[m]
}

// Flannel reports whether flanneld makes the pods' network.
func (m NetworkMode) Flannel() bool { return m == HostGateway || m == VXLAN }

// networkName returns the usual name of a mode's HNS network.
func (m NetworkMode) networkName() string {
	if m == VXLAN {
		return fmt.Sprintf("flannel.%d", FlannelVNI)
	}
	return "cbr0" // of kube-proxy's and flannel's documentation
}
