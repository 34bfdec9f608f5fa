// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
)

// The values that the VXLAN implementation of Windows requires.
// github.com/flannel-io/flannel Documentation/backends.md and
// pkg/backend/vxlan: vxlan_windows.go.
const (
	vxlanMinVNI = 4096
	vxlanPort   = 4789
)

// configRules are about ConfigMaps that configure a cluster's network.
func configRules() []Rule {
	return []Rule{
		{
			Code:     "WIN636",
			Title:    "flannel's VXLAN for Linux only",
			Severity: policy.Warning,
			Field:    "data[net-conf.json]",
			Why: "VXLAN on Windows needs a VNI of 4096 or higher and port 4789; flannel's defaults on Linux are 1 " +
				"and 8472. One ConfigMap serves both systems, so it must set both values.",
			Fix:     `write "VNI": 4096, "Port": 4789`,
			Sources: []string{srcFlannelBackends, srcFlannelVXLAN},
			kinds:   []string{"ConfigMap"},
			object:  checkFlannel,
		},
		{
			Code:     "WIN642",
			Title:    "kube-proxy's mode",
			Severity: policy.Warning,
			Field:    "data[config.conf].mode",
			Why: "kube-proxy on Windows supports only the mode kernelspace, which is also its default; userspace " +
				"was removed in 1.26.",
			Fix:     "write mode: kernelspace, or leave it empty, in the configuration of Windows nodes",
			Sources: []string{"k8s.io/kubernetes pkg/proxy/apis/config/validation"},
			Since:   26,
			kinds:   []string{"ConfigMap"},
			object:  checkProxyMode,
		},
	}
}

func checkFlannel(o *policy.Object, r reporter) {
	// Without Windows nodes flannel's defaults are right.
	if !strings.HasPrefix(o.Name, "kube-flannel") || !o.Facts.AnyWindows() {
		return
	}
	at := o.Get("data", "net-conf.json")
	var conf struct {
		Backend struct {
			Type string
			VNI  int
			Port int
		}
	}
	if !at.Set() || json.Unmarshal([]byte(at.Str()), &conf) != nil || conf.Backend.Type != "vxlan" {
		return
	}
	if b := conf.Backend; b.VNI < vxlanMinVNI || b.Port != vxlanPort {
		r.at(at, "vxlan with VNI %s and port %s cannot include Windows nodes", orDefault(b.VNI),
			orDefault(b.Port))
	}
}

func orDefault(n int) string {
	if n == 0 {
		return "(default)"
	}
	return fmt.Sprint(n)
}

var proxyPatterns = struct{ mode *regexp.Regexp }{regexp.MustCompile(`(?m)^mode:\s*"?([A-Za-z]*)"?\s*(?:#.*)?$`)}

// checkProxyMode finds ConfigMaps for kube-proxy on Windows by their name: the
// ConfigMap of Linux nodes may well use iptables.
func checkProxyMode(o *policy.Object, r reporter) {
	if !strings.Contains(o.Name, "kube-proxy") || !strings.Contains(strings.ToLower(o.Name), "win") {
		return
	}
	data := o.Get("data")
	for _, k := range data.Keys() {
		m := proxyPatterns.mode.FindStringSubmatch(data.Get(k).Str())
		if m != nil && m[1] != "" && m[1] != "kernelspace" {
			r.at(data.Get(k), "mode %s does not exist on Windows", m[1])
		}
	}
}
