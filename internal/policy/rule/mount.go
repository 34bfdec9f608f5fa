// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// mountRules are about where volumes are mounted.
func mountRules() []Rule {
	return []Rule{
		{
			Code:     "WIN216",
			Title:    "a volume mounted at the root of a drive",
			Severity: policy.Error,
			Field:    "containers[*].volumeMounts[*].mountPath",
			Why:      "containerd refuses it: \"destination path can not be C drive\".",
			Fix:      `mount below C:\, as C:\data or /data`,
			Sources:  []string{"github.com/containerd/containerd internal/cri/opts: spec_windows_opts.go"},
			Proof:    provenOnCluster,
			pod:      eachMount(checkMountAtDrive),
		},
		{
			Code:     "WIN231",
			Title:    "`subPath` that leaves its volume",
			Severity: policy.Error,
			Field:    "containers[*].volumeMounts[*].subPath",
			Why: "The API server runs on Linux and does not recognise drives and backslashes. The kubelet on " +
				"Windows refuses an absolute subPath, and one that contains '..'.",
			Fix:     "write a relative path with /",
			Sources: []string{"k8s.io/kubernetes pkg/kubelet: kubelet_pods.go, makeMounts"},
			Proof:   provenOnCluster,
			pod:     eachMount(checkSubPath),
		},
		{
			Code:     "WIN305",
			Title:    "`mountPropagation` on Windows",
			Severity: policy.Warning,
			Field:    "containers[*].volumeMounts[*].mountPropagation",
			Why:      "The kubelet makes it private: later mounts on one side do not appear on the other.",
			Fix:      "remove it; run workloads that mount for others as HostProcess containers",
			Sources:  []string{"k8s.io/kubernetes pkg/kubelet: kubelet_pods.go, translateMountPropagation"},
			pod:      eachMount(checkMountPropagation),
		},
		{
			Code:     "WIN314",
			Title:    "`subPath` of a single file",
			Severity: policy.Info,
			Field:    "containers[*].volumeMounts[*].subPath",
			Why: "Directories work, and so do files of configMap, secret, projected and downwardAPI volumes. " +
				"Upstream tests single files of other volumes only on Linux.",
			Fix:     "mount the directory",
			Sources: []string{"k8s.io/kubernetes test/e2e/storage/testsuites: subpath.go"},
			pod:     eachMount(checkSubPathOfFile),
		},
		{
			Code:     "WIN324",
			Title:    "variables that differ only in case",
			Severity: policy.Warning,
			Field:    "containers[*].env[*].name",
			Why:      "Environment variable names are case-insensitive on Windows: only one of them takes effect.",
			Fix:      "rename one",
			Sources:  []string{"https://learn.microsoft.com/windows/win32/procthread/environment-variables"},
			Inferred: true,
			pod:      eachContainer(checkCaseOfVariables),
		},
		{
			Code:     "WIN325",
			Title:    "a colon in a variable name",
			Severity: policy.Warning,
			Field:    "containers[*].env[*].name",
			Why:      "The API server refuses it before 1.32.",
			Fix:      "write __ for : in the names of .NET settings",
			Sources:  []string{"k8s.io/kubernetes pkg/features: RelaxedEnvironmentVariableValidation"},
			Before:   32,
			pod:      eachEnv(checkColonInVariable),
		},
		{
			Code:     "WIN328",
			Title:    "`PATH` overwritten",
			Severity: policy.Warning,
			Field:    "containers[*].env[*].value",
			Why: "A variable of the pod replaces the image's, and neither %PATH% nor $(PATH) has the old value: " +
				`without C:\Windows\system32 programs are not found.`,
			Fix: `set PATH in the image, or repeat C:\Windows\system32;C:\Windows and the other folders that you need`,
			Sources: []string{
				"https://kubernetes.io/docs/tasks/inject-data-application/define-environment-variable-container/"},
			pod: eachEnv(checkPath),
		},
		{
			Code:     "WIN634",
			Title:    "a partly qualified Service name",
			Severity: policy.Info,
			Field:    "containers[*].env[*].value",
			Why: "Windows does not append search domains to a name that contains a dot: SERVICE.NAMESPACE and " +
				"SERVICE.NAMESPACE.svc do not resolve.",
			Fix:     "write SERVICE.NAMESPACE.svc.cluster.local, or SERVICE within its own namespace",
			Sources: []string{srcDNS, srcClusterDNSTest},
			pod:     checkServiceNames,
		},
	}
}

func checkMountAtDrive(p *policy.Pod, c policy.Container, m tree.Value, r reporter) {
	// The kubelet makes of a path without a drive one of drive C.
	at := m.Get("mountPath")
	if slices.Contains([]string{"c:", `c:\`, "c:/", "/", `\`}, strings.ToLower(at.Str())) {
		r.at(at, "container %s: a volume cannot be mounted at %s itself", c.Name, at.Str())
	}
}

func checkSubPath(p *policy.Pod, c policy.Container, m tree.Value, r reporter) {
	at := m.Find("subPath")
	s := strings.ReplaceAll(at.Str(), `\`, "/")
	if policy.WindowsPath(at.Str()) || strings.HasPrefix(s, "/") || slices.Contains(strings.Split(s, "/"), "..") {
		r.at(at, "container %s: subPath %s is not a path within the volume", c.Name, at.Str())
	}
}

func checkMountPropagation(p *policy.Pod, c policy.Container, m tree.Value, r reporter) {
	switch at := m.Find("mountPropagation"); at.Str() {
	case "Bidirectional":
		r.at(at, "container %s: mountPropagation Bidirectional has no effect on Windows, but the workload relies on it",
			c.Name)
	case "HostToContainer":
		r.as(policy.Warning, at, "container %s: mountPropagation HostToContainer has no effect on Windows", c.Name)
	}
}

func checkSubPathOfFile(p *policy.Pod, c policy.Container, m tree.Value, r reporter) {
	at := m.Find("subPath")
	if at.Str() == "" || path.Ext(at.Str()) == "" {
		return
	}
	for _, v := range p.Spec.Find("volumes").Items() {
		if v.Get("name").Str() == m.Get("name").Str() && (v.Get("emptyDir").Set() || v.Get("hostPath").Set() ||
			v.Get("persistentVolumeClaim").Set()) {
			r.at(at, "container %s: subPath %s looks like a single file", c.Name, at.Str())
		}
	}
}

func checkColonInVariable(c policy.Container, e tree.Value, r reporter) {
	if name := e.Get("name"); strings.Contains(name.Str(), ":") {
		r.at(name, "container %s: the name %s contains a colon", c.Name, name.Str())
	}
}

func checkPath(c policy.Container, e tree.Value, r reporter) {
	v := e.Find("value")
	if strings.EqualFold(e.Get("name").Str(), "PATH") && v.Set() &&
		!strings.Contains(strings.ToLower(v.Str()), "system32") {
		r.at(v, "container %s: the variable replaces the image's PATH, and does not name C:\\Windows\\system32", c.Name)
	}
}

// checkServiceNames reports SERVICE.NAMESPACE.svc, and SERVICE.NAMESPACE in an
// address with a scheme or a port if there is such a namespace: the last label could
// be a domain of the internet as well.
func checkServiceNames(p *policy.Pod, r reporter) {
	eachEnv(func(c policy.Container, e tree.Value, r reporter) {
		v := e.Get("value")
		half := strings.Contains(v.Str(), ".svc") && envPatterns.halfQualified.MatchString(v.Str())
		if m := envPatterns.twoLabels.FindStringSubmatch(v.Str()); m != nil && (m[1] != "" || m[3] != "") {
			half = half || p.KnowsNamespace(m[2])
		}
		if half {
			r.at(v, "container %s: %s does not resolve in a Windows container", c.Name, v.Str())
		}
	})(p, r)
}

var envPatterns = struct{ halfQualified, twoLabels *regexp.Regexp }{
	regexp.MustCompile(`\b[a-z0-9-]+\.[a-z0-9-]+\.svc([:/]|$)`),
	regexp.MustCompile(`^([a-z][a-z0-9+.-]*://)?[a-z0-9][a-z0-9-]*\.([a-z][a-z0-9-]*)(:[0-9]+)?(?:/.*)?$`),
}

func eachMount(f func(*policy.Pod, policy.Container, tree.Value, reporter)) func(*policy.Pod, reporter) {
	return eachContainer(func(p *policy.Pod, c policy.Container, r reporter) {
		for _, m := range c.Find("volumeMounts").Items() {
			f(p, c, m, r)
		}
	})
}

func eachEnv(f func(policy.Container, tree.Value, reporter)) func(*policy.Pod, reporter) {
	return eachContainer(func(_ *policy.Pod, c policy.Container, r reporter) {
		for _, e := range c.Find("env").Items() {
			f(c, e, r)
		}
	})
}

func checkCaseOfVariables(_ *policy.Pod, c policy.Container, r reporter) {
	env := c.Find("env").Items()
	if len(env) < 2 {
		return
	}
	seen := make(map[string]string, len(env))
	for _, e := range env {
		name := e.Get("name")
		upper := strings.ToUpper(name.Str()) // as most are already: no copy
		if other, ok := seen[upper]; ok && other != name.Str() {
			r.at(name, "container %s: %s and %s are the same variable on Windows", c.Name, other, name.Str())
		}
		seen[upper] = name.Str()
	}
}
