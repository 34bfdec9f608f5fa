// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

// level is where the paths of a row begin.
type level string

const (
	onPod       level = ""
	onContainer level = "containers[*]."
	onVolume    level = "volumes[*]."
	onMount     level = "containers[*].volumeMounts[*]."
	onPort      level = "containers[*].ports[*]."
)

// trigger reports whether a field is to be reported.
type trigger func(tree.Value) bool

func isSet(v tree.Value) bool { return v.Set() }

func isTrue(v tree.Value) bool { return v.True() }

func notEmpty(v tree.Value) bool { return v.Len() > 0 }

func oneOf(values ...string) trigger {
	return func(v tree.Value) bool { return slices.Contains(values, v.Str()) }
}

// field is a row of the table: a rule that only checks one field of a pod for
// Windows.
type field struct {
	code       string
	level      level
	path       string // alternatives are separated by |
	when       trigger
	set, unset policy.Severity // with spec.os.name: windows, and without; Error and Warning if forbidden
	since      policy.Version
	why        string
	fix        string
	source     string
	proof      string // as in Rule; of the fields that the API server refuses provenByValidation
	bad        any    // a value that the rule reports, for tests
	drop       bool   // removing the field has no effect on Windows
	inferred   bool
	ordinary   bool // of ports: HostProcess containers are skipped
}

// Sources of the rows. The functions are in k8s.io/kubernetes v1.36.3.
const (
	srcValidateWindows = "k8s.io/kubernetes pkg/apis/core/validation: validateWindows"
	srcSandbox         = "k8s.io/kubernetes pkg/kubelet/kuberuntime: " +
		"generatePodSandboxWindowsConfig, generateWindowsContainerConfig"
	srcLimits  = "https://kubernetes.io/docs/concepts/windows/intro/"
	srcStorage = "https://kubernetes.io/docs/concepts/storage/windows-storage/"
)

// fields is the table.
func fields() []field {
	rows := append(linuxOnlyFields(), otherFields()...)
	for i := range rows {
		if f := &rows[i]; f.forbids() && f.unset == policy.None {
			f.set, f.unset = policy.Error, policy.Warning
		}
	}
	return rows
}

// linuxOnlyFields are the rows about fields that the API server refuses on a pod
// for Windows. WIN001 to WIN025 are the list of validateWindows: it refuses the
// field at any value on a pod that declares itself one for Windows; on any other
// the kubelet of a Windows node silently ignores it.
func linuxOnlyFields() []field {
	return []field{
		{
			code: "WIN001", path: "securityContext.appArmorProfile", when: isSet, since: 30,
			why: "AppArmor does not exist on Windows", bad: map[string]any{"type": "RuntimeDefault"}, drop: true,
		},
		{
			code: "WIN002", path: "securityContext.seLinuxOptions", when: isSet, since: 23,
			why: "SELinux does not exist on Windows", bad: map[string]any{"level": "s0:c1"}, drop: true,
		},
		{
			code: "WIN003", path: "hostUsers", when: isSet, since: 25,
			why: "there are no user namespaces on Windows, so the pod is not isolated by one", bad: false, drop: true,
		},
		{
			code: "WIN004", path: "hostPID", when: isTrue, since: 23,
			why: "there is no PID namespace on Windows; HostProcess containers see the host's processes anyway",
			bad: true,
		},
		{
			code: "WIN005", path: "hostIPC", when: isTrue, since: 23, why: "there is no IPC namespace on Windows",
			bad: true,
		},
		{
			code: "WIN006", path: "securityContext.seccompProfile", when: isSet, since: 23,
			why: "seccomp does not exist on Windows", bad: map[string]any{"type": "RuntimeDefault"}, drop: true,
		},
		{
			code: "WIN007", path: "securityContext.fsGroup", when: isSet, since: 23,
			why: "there are no group ids on Windows, and the ownership of volumes is not changed",
			fix: "remove it; grant NTFS rights in the image or on the share", bad: 2000, drop: true,
		},
		{
			code: "WIN008", path: "securityContext.fsGroupChangePolicy", when: isSet, since: 23,
			why: "the ownership of volumes is not changed on Windows", bad: "OnRootMismatch", drop: true,
		},
		{
			code: "WIN009", path: "securityContext.sysctls", when: notEmpty, since: 23,
			why: "sysctls are settings of the Linux kernel",
			bad: []any{map[string]any{"name": "net.core.somaxconn", "value": "1024"}},
		},
		{
			code: "WIN010", path: "shareProcessNamespace", when: isSet, since: 23,
			why: "Windows containers in a pod share the network only", bad: false, drop: true,
		},
		{
			code: "WIN011", path: "securityContext.runAsUser", when: isSet, since: 23,
			why: "there are no numeric user ids on Windows; the containers run as the image's user",
			fix: "remove it; set securityContext.windowsOptions.runAsUserName", bad: 1000, drop: true,
		},
		{
			code: "WIN012", path: "securityContext.runAsGroup", when: isSet, since: 23,
			why: "there are no group ids on Windows", bad: 3000, drop: true,
		},
		{
			code: "WIN013", path: "securityContext.supplementalGroups", when: isSet, since: 23,
			why: "there are no group ids on Windows", bad: []any{}, drop: true,
		},
		{
			code: "WIN015", path: "securityContext.seLinuxChangePolicy", when: isSet, since: 32,
			why: "SELinux does not exist on Windows", bad: "MountOption", drop: true,
		},
		{
			code: "WIN016", level: onContainer, path: "securityContext.appArmorProfile", when: isSet, since: 30,
			why: "AppArmor does not exist on Windows", bad: map[string]any{"type": "RuntimeDefault"}, drop: true,
		},
		{
			code: "WIN017", level: onContainer, path: "securityContext.seLinuxOptions", when: isSet, since: 23,
			why: "SELinux does not exist on Windows", bad: map[string]any{"level": "s0:c1"}, drop: true,
		},
		{
			code: "WIN018", level: onContainer, path: "securityContext.seccompProfile", when: isSet, since: 23,
			why: "seccomp does not exist on Windows", bad: map[string]any{"type": "RuntimeDefault"}, drop: true,
		},
		{
			code: "WIN019", level: onContainer, path: "securityContext.capabilities", when: isSet, since: 23,
			why: "POSIX capabilities do not exist on Windows", bad: map[string]any{"drop": []any{"ALL"}}, drop: true,
		},
		{
			code: "WIN020", level: onContainer, path: "securityContext.readOnlyRootFilesystem", when: isSet,
			since: 23,
			why: "the root file system of a Windows container is always writable: the registry and the account " +
				"database " +
				"are in it",
			fix: "remove it; mount data that must not change as read-only volumes", bad: false, drop: true,
		},
		{
			code: "WIN022", level: onContainer, path: "securityContext.allowPrivilegeEscalation", when: isSet,
			since: 23, why: "Windows has no no_new_privs", bad: false, drop: true,
		},
		{
			code: "WIN023", level: onContainer, path: "securityContext.procMount", when: isSet, since: 23,
			why: "there is no /proc on Windows", bad: "Default", drop: true,
		},
		{
			code: "WIN024", level: onContainer, path: "securityContext.runAsUser", when: isSet, since: 23,
			why: "there are no numeric user ids on Windows; the container runs as the image's user",
			fix: "remove it; set securityContext.windowsOptions.runAsUserName", bad: 1000, drop: true,
		},
		{
			code: "WIN025", level: onContainer, path: "securityContext.runAsGroup", when: isSet, since: 23,
			why: "there are no group ids on Windows", bad: 3000, drop: true,
		},
		{
			code: "WIN026", path: "resources", when: isSet, set: policy.Error, unset: policy.Error, since: 32,
			why: "pod-level resources are not supported on Windows: the kubelet refuses the pod " +
				"(PodLevelResourcesNotSupported)",
			fix: "put requests and limits on the containers",
			source: "k8s.io/kubernetes pkg/apis/core/validation: validatePodResources; " +
				"pkg/kubelet/lifecycle: features_windows.go",
			bad: map[string]any{"limits": map[string]any{"memory": "1Gi"}},
		},
	}
}

// otherFields are the rows about fields that the API server accepts.
func otherFields() []field {
	return []field{
		{
			code: "WIN208", level: onVolume, path: "nfs", when: isSet, set: policy.Error, unset: policy.Error,
			why:    "Windows nodes cannot mount NFS: the mount fails with \"only cifs mount is supported now\"",
			fix:    "use SMB (csi-driver-smb, Azure Files)",
			source: "k8s.io/mount-utils mount_windows.go; " + srcStorage, proof: provenOnCluster,
			bad: map[string]any{"server": "nfs", "path": "/x"},
		},
		{
			code: "WIN209", level: onVolume, path: "iscsi|fc", when: isSet, set: policy.Error, unset: policy.Error,
			why: "the in-tree plugin has only code for Linux: the kubelet looks for iscsiadm, or for a disk below " +
				"/dev, and the mount fails",
			fix:    "use a CSI driver with a node plugin for Windows",
			source: "k8s.io/kubernetes pkg/volume/iscsi, pkg/volume/fc", proof: provenOnCluster,
			bad: map[string]any{"lun": 0},
		},
		{
			code: "WIN214", level: onMount, path: "recursiveReadOnly", when: oneOf("Enabled"), set: policy.Error,
			unset: policy.Error, since: 30,
			why: "the runtime on Windows does not support it: CreateContainerConfigError",
			fix: "write IfPossible, or remove it", source: "k8s.io/kubernetes pkg/kubelet: resolveRecursiveReadOnly",
			proof: provenOnCluster, bad: "Enabled",
		},
		{
			code: "WIN215", level: onVolume, path: "image", when: isSet, set: policy.Error, unset: policy.Error,
			since: 31, why: "Windows does not support image volumes",
			fix:    "copy the files with an init container into an emptyDir",
			source: "k8s.io/kubernetes test/e2e/common/node: image_volume.go", proof: provenOnCluster,
			bad: map[string]any{"reference": "example.com/data:1"},
		},
		{
			code: "WIN217", path: "resourceClaims", when: notEmpty, set: policy.Warning, unset: policy.Warning,
			since: 26, why: "dynamic resource allocation is not supported on Windows; the pod stays pending",
			fix: "use a device plugin", source: "k8s.io/kubernetes pkg/kubelet/cm: container_manager_windows.go",
			bad: []any{map[string]any{"name": "gpu", "resourceClaimName": "gpu"}},
		},
		{
			code: "WIN229", level: onPort, path: "hostPort", when: isSet, set: policy.Info, unset: policy.Info,
			ordinary: true,
			why: `a host port on Windows needs CNI plugins from 0.8.6 and "capabilities": {"portMappings": true} in ` +
				`the ` +
				"node's CNI configuration",
			fix:    "check the CNI configuration, or use a Service",
			source: "https://learn.microsoft.com/virtualization/windowscontainers/kubernetes/common-problems",
			bad:    80,
		},
		{
			code: "WIN230", path: "ephemeralContainers[*].targetContainerName", when: isSet, set: policy.Warning,
			unset: policy.Warning, since: 23,
			why: "containers of a Windows pod share no processes: the target's cannot be seen",
			fix: "use kubectl exec, or a HostProcess pod", source: srcLimits, bad: "c", inferred: true,
		},
		{
			code: "WIN302", path: "dnsPolicy", when: oneOf("ClusterFirstWithHostNet"), set: policy.Warning,
			unset: policy.Warning, why: "ClusterFirstWithHostNet is not supported on Windows",
			fix:    "write ClusterFirst; HostProcess containers use the node's DNS",
			source: "https://kubernetes.io/docs/concepts/services-networking/windows-networking/",
			bad:    "ClusterFirstWithHostNet",
		},
		{
			code: "WIN303", path: "dnsConfig.options", when: notEmpty, set: policy.Warning, unset: policy.Warning,
			why:    "Windows has no resolv.conf; options such as ndots have no effect",
			fix:    "remove them and use fully qualified names",
			source: "https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#dns-windows",
			bad:    []any{map[string]any{"name": "ndots", "value": "2"}}, drop: true,
		},
		{
			code: "WIN335", level: onPort, path: "protocol", when: oneOf("SCTP"), set: policy.Warning,
			unset: policy.Warning, why: "SCTP is not supported on Windows nodes", fix: "use TCP or UDP",
			source: "k8s.io/kubernetes test/e2e/network: networking.go", bad: "SCTP",
		},
		{
			code: "WIN351", level: onVolume, path: "gitRepo", when: isSet, set: policy.Error, unset: policy.Error,
			why: "gitRepo volumes are switched off", fix: "clone in an init container into an emptyDir",
			source: "https://kubernetes.io/docs/concepts/storage/volumes/#gitrepo", proof: provenOnCluster,
			bad: map[string]any{"repository": "https://example.com/x.git"},
		},
		{
			code: "WIN352", level: onVolume, path: "flexVolume", when: isSet, set: policy.Warning,
			unset: policy.Warning, why: "FlexVolume is deprecated; its PowerShell plugins are no longer kept",
			fix: "use a CSI driver", source: srcStorage, bad: map[string]any{"driver": "microsoft.com/smb.cmd"},
		},
	}
}

// forbids reports whether the row is one of validateWindows' list.
func (f field) forbids() bool { return strings.HasPrefix(f.code, "WIN0") }

// fieldRules turns the table into rules.
func fieldRules() []Rule {
	var out []Rule
	for _, f := range fields() {
		f.fix = cmp.Or(f.fix, "remove it")
		f.source = cmp.Or(f.source, srcValidateWindows+"; "+srcSandbox)
		if f.proof == "" && f.forbids() {
			f.proof = provenByValidation
		}
		alternatives := strings.Split(f.path, "|")
		name := alternatives[0][strings.LastIndexByte(alternatives[0], '.')+1:]
		title := "`" + strings.ReplaceAll(f.path, "|", "` or `") + "` on Windows"
		if f.forbids() {
			title = "`" + name + "` on a Windows pod"
			if f.level == onContainer {
				title = "`" + name + "` on a Windows container"
			}
		}
		out = append(out, Rule{
			Code:     f.code,
			Title:    title,
			Severity: max(f.set, f.unset),
			Field:    string(f.level) + f.path,
			Why:      f.text(true),
			Fix:      f.fix,
			Sources:  strings.Split(f.source, "; "),
			Since:    f.since,
			Inferred: f.inferred,
			Proof:    f.proof,
			pod:      f.check(alternatives),
		})
	}
	return out
}

// check checks the field in every place of the row's level.
func (f field) check(alternatives []string) func(*policy.Pod, reporter) {
	var paths [][]string
	list := "" // the list that the path goes through
	for _, a := range alternatives {
		if before, after, ok := strings.Cut(a, "[*]."); ok {
			list, a = before, after
		}
		paths = append(paths, strings.Split(a, "."))
	}
	return func(p *policy.Pod, r reporter) {
		if !p.Windows() {
			return
		}
		severity := f.unset
		if p.Declared {
			severity = f.set
		}
		for _, root := range f.roots(p, list) {
			for _, path := range paths {
				v := root.Find(path...)
				if !v.Set() || !f.when(v) {
					continue
				}
				found := r.as(severity, v, "%s: %s", path[len(path)-1], f.text(p.Declared))
				if f.drop {
					found.Edit(tree.Remove, v.Path(), nil)
				}
			}
		}
	}
}

func (f field) text(declared bool) string {
	switch {
	case !f.forbids() || f.unset == policy.Error:
		return f.why
	case declared:
		return f.why + "; the API server refuses the field, whatever its value, on a pod with spec.os.name: windows"
	}
	return f.why + "; the node silently ignores the field"
}

// roots are the places where the row's paths begin.
func (f field) roots(p *policy.Pod, list string) []tree.Value {
	if list != "" {
		return p.Spec.Find(list).Items()
	}
	switch f.level {
	case onContainer:
		return policy.ContainerValues(p.Containers)
	case onVolume:
		return p.Spec.Find("volumes").Items()
	case onMount, onPort:
		var out []tree.Value
		name := map[level]string{onMount: "volumeMounts", onPort: "ports"}[f.level]
		for _, c := range p.Containers {
			if f.ordinary && p.IsHostProcess(c) {
				continue // it uses the host's ports
			}
			out = append(out, c.Find(name).Items()...)
		}
		return out
	}
	return []tree.Value{p.Spec}
}
