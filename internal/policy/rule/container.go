// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
)

// containerRules are about the commands of containers and their network settings.
func containerRules() []Rule {
	return []Rule{
		{
			Code:     "WIN227",
			Title:    "a program that the image does not have",
			Severity: policy.Error,
			Field:    "containers[*].command",
			Why: "Windows images have no /bin/sh and no coreutils, Nano Server has neither PowerShell nor the .NET " +
				"Framework, and no base image has pwsh: \"The system cannot find the file specified.\" (Images on " +
				"top of a base image may add missing programs.)",
			Fix:     "use cmd /c, powershell -Command if the image has it, or another image",
			Sources: []string{"https://kubernetes.io/docs/tasks/debug/debug-cluster/windows/", srcBaseImages},
			Proof:   provenOnCluster,
			pod:     eachContainer(checkPrograms),
		},
		{
			Code:     "WIN301",
			Title:    "`hostNetwork` with an ordinary container",
			Severity: policy.Warning,
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
			Severity: policy.Warning,
			Field:    "dnsConfig.searches",
			Why:      "Windows uses only one suffix, and does not append it to names that contain a dot.",
			Fix:      "use fully qualified names",
			Sources:  []string{srcDNS, srcDNSTest},
			pod:      checkSearchDomains,
		},
		{
			Code:     "WIN322",
			Title:    "a long `hostname`",
			Severity: policy.Info,
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
			Severity: policy.Info,
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
			Severity: policy.Error,
			Field:    "metadata.labels[sidecar.istio.io/inject]",
			Why: "The injected container is for Linux, and its securityContext has fields that are forbidden on a " +
				"Windows pod. Only Linkerd has a proxy for Windows, since 2.18.",
			Fix: `opt out: the label sidecar.istio.io/inject: "false"`,
			Sources: []string{"https://github.com/istio/istio/issues/27893",
				"https://linkerd.io/2.18/features/windows/"},
			Proof: "test/conformance/validation.TestInjectedSidecars",
			pod:   checkInjection,
		},
	}
}

func checkHostNetwork(p *policy.Pod, r reporter) {
	if v := p.Spec.Find("hostNetwork"); v.True() && p.Windows() && !p.HostProcess {
		r.at(v, "hostNetwork works only for HostProcess containers")
	}
}

func checkSearchDomains(p *policy.Pod, r reporter) {
	v := p.Spec.Find("dnsConfig", "searches")
	switch {
	case !p.Windows() || v.Len() == 0:
	case v.Len() > 1:
		r.at(v, "Windows uses only one of the %d search domains", v.Len())
	default:
		r.as(policy.Info, v, "Windows does not append search domains to names that contain a dot")
	}
}

func checkHostnameLength(p *policy.Pod, r reporter) {
	// netBIOSMax: 16 bytes, the last of which is the type of the name.
	const netBIOSMax = 15
	if v := p.Spec.Find("hostname"); p.Windows() && len(v.Str()) > netBIOSMax {
		r.at(v, "hostname %s is truncated to %s as a NetBIOS name", v.Str(), v.Str()[:netBIOSMax])
	}
}

func checkPowerShellProbe(p *policy.Pod, c policy.Container, r reporter) {
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

func checkInjection(p *policy.Pod, r reporter) {
	if !p.Windows() {
		return
	}
	checkIstio(p, r)
	annotations := p.Meta.Get("annotations")
	if v := annotations.Find("dapr.io/enabled"); v.Str() == "true" {
		r.at(v, "dapr.io/enabled: true adds Dapr's sidecar, which is for Linux").Fix = "remove the annotation"
	}
	checkLinkerd(p, r)
}

func checkLinkerd(p *policy.Pod, r reporter) {
	v, of := p.Meta.Get("annotations", policy.LinkerdInject), ""
	asks := v.Str()
	if !v.Set() {
		namespace := p.Facts().Namespaces[p.Object.Namespace].Annotations
		asks, of = namespace[policy.LinkerdInject], "of the namespace "
		if linkerdOnWindows(namespace) {
			return
		}
	}
	if asks != "enabled" && asks != "ingress" || linkerdOnWindows(p.Meta.Get("annotations").Strings()) {
		return
	}
	r.as(policy.Warning, v,
		"%s: %s %sadds Linkerd's proxy, which is for Linux unless an annotation names the one for Windows",
		policy.LinkerdInject, asks, of).
		Fix = "set " + policy.LinkerdProxy + " to the proxy for Windows (Linkerd 2.18), " +
		"or linkerd.io/inject: disabled"
}

func linkerdOnWindows(annotations map[string]string) bool {
	return strings.Contains(annotations[policy.LinkerdProxy], "proxy-win")
}

// checkIstio reads the labels and annotations as Istio does: a pod's label counts
// more than its annotation, and both more than the namespace's.
func checkIstio(p *policy.Pod, r reporter) {
	const inject = "sidecar.istio.io/inject"
	ns := p.Facts().Namespaces[p.Object.Namespace].Labels
	own := p.Meta.Get("labels", inject)
	if !own.Set() {
		own = p.Meta.Get("annotations", inject)
	}
	switch {
	case own.Str() == "false":
	case own.Str() == "true":
		r.at(own, "%s: true adds Istio's sidecar, which is for Linux", inject)
	case ns["istio-injection"] == "enabled", ns["istio-injection"] == "" && ns["istio.io/rev"] != "":
		r.at(p.Meta.Get("labels", inject), "namespace %s has Istio inject its sidecar, which is for Linux",
			p.Object.Namespace)
	}
}
