// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Command mullion-bridge is a CNI plugin for Windows nodes. It has the configuration of
// upstream's win-bridge, and gives a pod every address that the IPAM plugin has for it.
package main

import (
	"os"

	"github.com/containernetworking/cni/pkg/skel"
	cni "github.com/containernetworking/cni/pkg/version"

	"github.com/mullion-k8s/mullion/internal/agent/bridge"
	"github.com/mullion-k8s/mullion/internal/hns/native"
	"github.com/mullion-k8s/mullion/internal/version"
)

func main() {
	p := bridge.Plugin{HNS: native.New(), Out: os.Stdout}
	skel.PluginMainFuncs(skel.CNIFuncs{Add: p.Add, Del: p.Del, Check: p.Check, GC: p.GC, Status: p.Status}, cni.All,
		"CNI plugin mullion-bridge "+version.String())
}
