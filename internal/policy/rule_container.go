// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package policy

import (
	"slices"
	"strings"
)

// containerRules are about what containers run, and their network settings.
func containerRules() []Rule {
	return []Rule{
		{
			Code:     "WIN227",
			Title:    "a Linux shell as the command",
			Severity: Warning,
			Field:    "containers[*].command",
			Why: "Windows images have no /bin/sh: \"The system cannot find the file specified.\" (Some images " +
				"ship one.)",
			Fix:      "use cmd /c or powershell -Command",
			Sources:  []string{"https://kubernetes.io/docs/tasks/debug/debug-cluster/windows/"},
			Inferred: true,
			pod:      eachContainer(checkShell),
		},
		{
			Code:     "WIN301",
			Title:    "`hostNetwork` with an ordinary container",
			Severity: Error,
			Field:    "hostNetwork",
			Why: "Only HostProcess containers can use the host's network. Other containers get an address of the " +
				"pod network while status.podIP is the node's, so Services and probes reach the wrong address.",
			Fix:     "remove it, or make it a HostProcess pod",
			Sources: []string{srcHostNetworkGate, srcHostNetworkKEP},
			pod:     checkHostNetwork,
		},
		{
			Code:     "WIN304",
			Title:    "several DNS search domains",
			Severity: Warning,
			Field:    "dnsConfig.searches",
			Why:      "Windows uses only one suffix, and does not append it to names that contain a dot.",
			Fix:      "use fully qualified names",
			Sources:  []string{srcDNS, srcDNSTest},
			pod:      checkSearchDomains,
		},
		{
			Code:     "WIN322",
			Title:    "a long `hostname`",
			Severity: Info,
			Field:    "hostname",
			Why:      "NetBIOS names have at most 15 characters; longer names are truncated.",
			Fix:      "use at most 15 characters",
			Sources:  []string{srcComputerNames},
			Inferred: true,
			pod:      checkHostnameLength,
		},
		{
			Code:     "WIN334",
			Title:    "a probe that starts PowerShell",
			Severity: Info,
			Field:    "containers[*].livenessProbe.exec",
			Why: "Every probe starts a PowerShell process, which is slow and needs much memory; under load, probes " +
				"time out.",
			Fix:      "use httpGet or tcpSocket, or raise timeoutSeconds",
			Sources:  []string{"https://kubernetes.io/docs/concepts/windows/intro/"},
			Inferred: true,
			pod:      eachContainer(checkPowerShellProbe),
		},
		{
			Code:     "WIN339",
			Title:    "a Linux sidecar will be injected",
			Severity: Error,
			Field:    "metadata.annotations[sidecar.istio.io/inject]",
			Why: "The injected container is for Linux, and its securityContext has fields that are forbidden on a " +
				"Windows pod.",
			Fix:     `opt out: sidecar.istio.io/inject: "false"`,
			Sources: []string{"https://github.com/istio/istio/issues/27893"},
			pod:     checkInjection,
		},
	}
}

func checkHostNetwork(p *pod, r reporter) {
	if v := p.Spec.Find("hostNetwork"); v.True() && p.windows() && !p.HostProcess {
		r.at(v, "hostNetwork works only for HostProcess containers")
	}
}

func checkSearchDomains(p *pod, r reporter) {
	v := p.Spec.Find("dnsConfig", "searches")
	switch {
	case !p.windows() || v.Len() == 0:
	case v.Len() > 1:
		r.at(v, "Windows uses only one of the %d search domains", v.Len())
	default:
		r.as(Info, v, "Windows does not append search domains to names that contain a dot")
	}
}

func checkHostnameLength(p *pod, r reporter) {
	// netBIOSMax: 16 bytes, the last of which says what the name is for.
	const netBIOSMax = 15
	if v := p.Spec.Find("hostname"); p.windows() && len(v.Str()) > netBIOSMax {
		r.at(v, "hostname %s is truncated to %s as a NetBIOS name", v.Str(), v.Str()[:netBIOSMax])
	}
}

func checkPowerShellProbe(p *pod, c container, r reporter) {
	for _, probe := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
		argv := c.Find(probe, "exec", "command").Items()
		if len(argv) == 0 {
			continue
		}
		if s := strings.ToLower(argv[0].Str()); strings.HasPrefix(s, "powershell") || strings.HasPrefix(s, "pwsh") {
			r.at(argv[0], "container %s: the %s starts PowerShell on every run", c.Name, probe)
		}
	}
}

var linuxShells = []string{"/bin/sh", "/bin/bash", "sh", "bash", "/bin/ash", "/usr/bin/env"}

func checkShell(p *pod, c container, r reporter) {
	lists := [][]string{
		{"command"},
		{"lifecycle", "preStop", "exec", "command"},
		{"lifecycle", "postStart", "exec", "command"},
		{"livenessProbe", "exec", "command"},
		{"readinessProbe", "exec", "command"},
		{"startupProbe", "exec", "command"},
	}
	for _, path := range lists {
		if items := c.Find(path...).Items(); len(items) > 0 && slices.Contains(linuxShells, items[0].Str()) {
			r.at(items[0], "container %s: %s is not part of Windows images", c.Name, items[0].Str())
		}
	}
}

func checkInjection(p *pod, r reporter) {
	if !p.windows() {
		return
	}
	ns := p.facts().Namespaces[p.Object.Namespace]
	annotations := p.Meta.Get("annotations")
	label := p.Meta.Get("labels", "sidecar.istio.io/inject").Str()
	istio := ns["istio-injection"] == "enabled" || ns["istio.io/rev"] != ""
	if istio && annotations.Get("sidecar.istio.io/inject").Str() != "false" && label != "false" {
		r.at(annotations.Get("sidecar.istio.io/inject"), "namespace %s has Istio inject its Linux sidecar",
			p.Object.Namespace)
	}
	for _, k := range []string{"linkerd.io/inject", "dapr.io/enabled"} {
		if v := annotations.Find(k); v.Str() == "enabled" || v.Str() == "true" {
			r.at(v, "%s: %s asks for a Linux sidecar", k, v.Str())
		}
	}
}
