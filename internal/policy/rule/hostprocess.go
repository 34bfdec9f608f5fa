// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

const (
	srcHostProcess = "https://kubernetes.io/docs/tasks/configure-pod-container/create-hostprocess-pod/"
	srcValidateHPC = "k8s.io/kubernetes pkg/apis/core/validation: validateWindowsHostProcessPod"
	srcJobs        = "github.com/microsoft/hcsshim internal/jobcontainers"
)

// hostProcessRules are about HostProcess containers.
func hostProcessRules() []Rule {
	return []Rule{
		{
			Code:     "WIN104",
			Title:    "`hostProcess` of pod and container differ",
			Severity: policy.Error,
			Field:    "containers[*].securityContext.windowsOptions.hostProcess",
			Why:      "If both are set, they must be equal.",
			Fix:      "set it on the pod only",
			Sources:  []string{srcValidateHPC},
			Proof:    "test/conformance/validation.TestHostProcess",
			pod:      checkSameHostProcess,
		},
		{
			Code:     "WIN105",
			Title:    "HostProcess and ordinary containers in one pod",
			Severity: policy.Error,
			Field:    "containers",
			Why: "If one container of a pod is a HostProcess container, all must be, including init and ephemeral " +
				"containers.",
			Fix:     "set hostProcess: true in the pod's windowsOptions, or split the pod",
			Sources: []string{srcValidateHPC},
			Proof:   "test/conformance/validation.TestHostProcess",
			pod:     checkMixedHostProcess,
		},
		{
			Code:     "WIN106",
			Title:    "HostProcess without `hostNetwork`",
			Severity: policy.Error,
			Field:    "hostNetwork",
			Why:      "A pod with HostProcess containers must have hostNetwork: true.",
			Fix:      "set hostNetwork: true",
			Sources:  []string{srcValidateHPC},
			Proof:    "test/conformance/validation.TestHostProcess",
			pod:      checkHostProcessNetwork,
		},
		{
			Code:     "WIN107",
			Title:    "HostProcess in a cluster that forbids privileged containers",
			Severity: policy.Error,
			Field:    "securityContext.windowsOptions.hostProcess",
			Why:      "kube-apiserver with --allow-privileged=false refuses HostProcess containers.",
			Fix:      "use another cluster, or change the flag",
			Sources:  []string{srcValidateHPC},
			Proof:    "test/conformance/validation.TestHostProcess",
			pod:      checkPrivilegedAllowed,
		},
		{
			Code:     "WIN218",
			Title:    "named pipe mounted into a HostProcess container",
			Severity: policy.Error,
			Field:    "volumes[*].hostPath.path",
			Why:      "The runtime refuses it: \"named pipe mounts not supported for job containers\".",
			Fix:      `remove the mount; a HostProcess container opens \\.\pipe\… directly`,
			Sources:  []string{srcJobs + " mounts.go", srcHostProcess},
			Proof:    provenOnCluster,
			pod:      checkHostProcessPipes,
		},
		{
			Code:     "WIN219",
			Title:    "HostProcess without an account of the host",
			Severity: policy.Error,
			Field:    "securityContext.windowsOptions.runAsUserName",
			Why: `The runtime needs an account of the host: without one the process token is not made ("empty ` +
				`username ` +
				`or group name passed"), and ContainerUser and ContainerAdministrator fail to log on.`,
			Fix:     `set runAsUserName: NT AUTHORITY\Local service, or NT AUTHORITY\SYSTEM if it is required`,
			Sources: []string{srcJobs + " logon.go", srcHostProcess},
			Proof:   provenOnCluster,
			pod:     eachHPC(checkHostProcessUser),
		},
		{
			Code:     "WIN220",
			Title:    "domain of a service account not in upper case",
			Severity: policy.Warning,
			Field:    "securityContext.windowsOptions.runAsUserName",
			Why: "hcsshim uses a service logon only if the domain is exactly NT AUTHORITY. With any other spelling " +
				"it tries an interactive logon, for which there is no password.",
			Fix:      `write NT AUTHORITY\…, the domain in upper case`,
			Sources:  []string{srcJobs + " logon.go"},
			Inferred: true,
			pod:      eachHPC(checkAccountDomain),
		},
		{
			Code:     "WIN232",
			Title:    "HostProcess on an old containerd",
			Severity: policy.Warning,
			Field:    "securityContext.windowsOptions.hostProcess",
			Why: "HostProcess containers need containerd 1.6, and 1.7 for real paths and in-cluster " +
				"configuration.",
			Fix:     "update containerd on the node",
			Sources: []string{srcHostProcess, srcHostProcessKEP},
			pod:     checkHostProcessContainerd,
		},
		{
			Code:     "WIN317",
			Title:    "`hostAliases` of a HostProcess pod",
			Severity: policy.Warning,
			Field:    "hostAliases",
			Why:      "HostProcess containers see the hosts file of the node, not the kubelet's.",
			Fix:      "remove them",
			Sources:  []string{"k8s.io/kubernetes pkg/kubelet: kubelet_pods.go, shouldMountHostsFile"},
			pod:      checkHostAliases,
		},
		{
			Code:     "WIN513",
			Title:    "GMSA in a HostProcess pod",
			Severity: policy.Info,
			Field:    "securityContext.windowsOptions.gmsaCredentialSpecName",
			Why: "HostProcess containers run as accounts of the host. Their enhancement proposal does not cover " +
				"group managed service accounts.",
			Fix:     "use the node's identity, or an ordinary container",
			Sources: []string{srcHostProcessKEP},
			pod:     eachHPC(checkHostProcessGMSA),
		},
		{
			Code:     "WIN524",
			Title:    "HostProcess as SYSTEM",
			Severity: policy.Info,
			Field:    "securityContext.windowsOptions.runAsUserName",
			Why:      "NT AUTHORITY\\SYSTEM has all rights on the node. Many agents need fewer.",
			Fix:      `try NT AUTHORITY\Local service, or a local group of the node`,
			Sources:  []string{srcHostProcess},
			pod:      checkSystemUser,
		},
		{
			Code:     "WIN533",
			Title:    "`hostProcess` only on containers, with Kubernetes 1.23 or 1.24",
			Severity: policy.Warning,
			Field:    "containers[*].securityContext.windowsOptions.hostProcess",
			Why:      "Some patch releases of 1.23 and 1.24 ran such containers as ordinary ones.",
			Fix:      "set it in the pod's windowsOptions too",
			Sources:  []string{"https://github.com/kubernetes/kubernetes/issues/110140"},
			Since:    23,
			Before:   25,
			pod:      checkHostProcessLevel,
		},
	}
}

// eachHPC calls f with every HostProcess container of a pod.
func eachHPC(f func(*policy.Pod, policy.Container, reporter)) func(*policy.Pod, reporter) {
	return func(p *policy.Pod, r reporter) {
		for _, c := range p.Containers {
			if p.IsHostProcess(c) {
				f(p, c, r)
			}
		}
	}
}

func checkSameHostProcess(p *policy.Pod, r reporter) {
	pod := p.Spec.Find("securityContext", "windowsOptions", "hostProcess")
	for _, c := range p.Containers {
		if v := c.Find("securityContext", "windowsOptions", "hostProcess"); pod.Set() && v.Set() &&
			pod.True() != v.True() {
			r.at(v, "container %s: hostProcess is %v, and %v on the pod", c.Name, v.True(), pod.True())
		}
	}
}

func checkMixedHostProcess(p *policy.Pod, r reporter) {
	for _, c := range p.Containers {
		if p.HostProcess && !p.IsHostProcess(c) {
			r.at(c.Value, "container %s is not a HostProcess container, but others in the pod are", c.Name)
		}
	}
}

func checkHostProcessNetwork(p *policy.Pod, r reporter) {
	if v := p.Spec.Get("hostNetwork"); p.HostProcess && !v.True() {
		r.at(v, "hostNetwork must be true for HostProcess containers")
	}
}

func checkPrivilegedAllowed(p *policy.Pod, r reporter) {
	if p.HostProcess && p.Facts().NoPrivileged {
		r.at(p.Spec, "the cluster's policy forbids HostProcess containers (--allow-privileged=false)")
	}
}

func checkHostProcessPipes(p *policy.Pod, r reporter) {
	for _, v := range p.Spec.Find("volumes").Items() {
		if at := v.Get("hostPath", "path"); p.HostProcess && pipe(at.Str()) {
			r.at(at, "the named pipe %s cannot be mounted into a HostProcess container", at.Str())
		}
	}
}

func checkHostProcessUser(p *policy.Pod, c policy.Container, r reporter) {
	inherit := p.Meta.Get("annotations", "microsoft.com/hostprocess-inherit-user").Str() == "true"
	user := p.Option(c, "runAsUserName")
	switch {
	case inherit:
	case strings.EqualFold(user.Str(), "ContainerUser"), strings.EqualFold(user.Str(), "ContainerAdministrator"):
		r.at(user, "container %s: the host has no account %s, which exists only inside of ordinary containers", c.Name,
			user.Str())
	case !user.Set():
		r.at(c.Get("securityContext", "windowsOptions", "runAsUserName"),
			"container %s: a HostProcess container needs runAsUserName", c.Name)
	}
}

func checkAccountDomain(p *policy.Pod, c policy.Container, r reporter) {
	u := p.Option(c, "runAsUserName")
	domain, user, ok := strings.Cut(u.Str(), `\`)
	if ok && strings.EqualFold(domain, "NT AUTHORITY") && domain != "NT AUTHORITY" {
		r.at(u, "container %s: %s: the comparison with NT AUTHORITY is case-sensitive",
			c.Name, u.Str()).Edit(tree.Replace, u.Path(), `NT AUTHORITY\`+user)
	}
}

func checkHostProcessContainerd(p *policy.Pod, r reporter) {
	for _, n := range p.Facts().WindowsNodes() {
		if p.HostProcess && n.Containerd != "" && policy.Older(n.Containerd, 6, 0) {
			r.at(p.Spec, "node %s runs containerd %s, which does not support HostProcess containers",
				n.Name, n.Containerd)
		}
	}
}

func checkHostAliases(p *policy.Pod, r reporter) {
	if v := p.Spec.Find("hostAliases"); p.HostProcess && v.Len() > 0 {
		r.at(v, "hostAliases have no effect on HostProcess containers").Edit(tree.Remove, v.Path(), nil)
	}
}

func checkHostProcessGMSA(p *policy.Pod, c policy.Container, r reporter) {
	if v := p.Option(c, "gmsaCredentialSpecName"); v.Set() {
		r.at(v, "container %s is a HostProcess container with a GMSA", c.Name)
	}
}

// checkSystemUser reports a pod once, at the first such account.
func checkSystemUser(p *policy.Pod, r reporter) {
	var first tree.Value
	var names []string
	for _, c := range p.Containers {
		u := p.Option(c, "runAsUserName")
		if !p.IsHostProcess(c) || !strings.EqualFold(u.Str(), `NT AUTHORITY\SYSTEM`) {
			continue
		}
		if len(names) == 0 {
			first = u
		}
		names = append(names, c.Name)
	}
	if len(names) > 0 {
		r.at(first, "containers run as %s on the host: %s", first.Str(), strings.Join(names, ", "))
	}
}

func checkHostProcessLevel(p *policy.Pod, r reporter) {
	if p.HostProcess && !p.Spec.Find("securityContext", "windowsOptions", "hostProcess").Set() {
		r.at(p.Spec.Get("securityContext", "windowsOptions", "hostProcess"), "hostProcess is set only on containers")
	}
}

// pipe reports whether a path names a named pipe, with either slash.
func pipe(path string) bool {
	return strings.HasPrefix(strings.ToLower(strings.ReplaceAll(path, "/", `\`)), `\\.\pipe\`)
}
