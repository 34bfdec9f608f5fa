// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"path"
	"slices"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/tree"
)

const srcHostPath = "k8s.io/kubernetes pkg/volume/hostpath: host_path.go"

// volumeRules are about a pod's volumes.
func volumeRules() []Rule {
	return []Rule{
		{
			Code:     "WIN210",
			Title:    "huge pages on Windows",
			Severity: policy.Error,
			Field:    "volumes[*].emptyDir.medium",
			Why:      "Windows nodes have no huge pages: the pod stays pending, or the mount fails.",
			Fix:      "remove them",
			Sources:  []string{"k8s.io/kubernetes pkg/volume/emptydir: empty_dir.go", srcLimits},
			Proof:    provenOnCluster,
			pod:      checkHugePages,
		},
		{
			Code:     "WIN211",
			Title:    "raw block volumes on Windows",
			Severity: policy.Warning,
			Field:    "containers[*].volumeDevices",
			Why:      "Raw block volumes are not supported on Windows.",
			Fix:      "use volumeMode: Filesystem and volumeMounts",
			Sources:  []string{srcBlockVolumes, srcStorage},
			kinds:    []string{"PersistentVolumeClaim"},
			object:   checkBlockClaim,
			pod:      checkBlock,
		},
		{
			Code:     "WIN212",
			Title:    "`hostPath` of a device",
			Severity: policy.Error,
			Field:    "volumes[*].hostPath.type",
			Why:      "Windows has no device files: the mount fails with \"hostPath type check failed\".",
			Fix:      "remove the type",
			Sources:  []string{srcHostPath},
			Proof:    provenOnCluster,
			pod:      eachVolume(checkHostPathDevice),
		},
		{
			Code:     "WIN213",
			Title:    "`hostPath` of type Socket",
			Severity: policy.Error,
			Field:    "volumes[*].hostPath.type",
			Why:      "A named pipe is not a socket, so the type check fails. (A file of an AF_UNIX socket may pass.)",
			Fix:      `remove the type for \\.\pipe\…`,
			Sources:  []string{srcHostPath},
			Proof:    provenOnCluster,
			pod:      eachVolume(checkHostPathSocket),
		},
		{
			Code:     "WIN228",
			Title:    "a Linux file system on a Windows volume",
			Severity: policy.Warning,
			Field:    "volumes[*].csi.fsType",
			Why:      "Windows nodes cannot format or mount ext4 and xfs.",
			Fix:      "write ntfs",
			Sources:  []string{"https://cloud.google.com/kubernetes-engine/docs/how-to/creating-a-cluster-windows"},
			kinds:    []string{"PersistentVolume", "StorageClass"},
			object:   checkFileSystemOfVolume,
			pod:      checkFileSystem,
		},
		{
			Code:     "WIN241",
			Title:    "a local volume without a node",
			Severity: policy.Warning,
			Field:    "volumeBindingMode",
			Why: "A volume of " + localDriver + " is a directory of one node. With volumeBindingMode Immediate, " +
				"the default, claims are bound before a pod has a node: without allowedTopologies they stay Pending.",
			Fix:     "set volumeBindingMode: WaitForFirstConsumer, or choose nodes by allowedTopologies",
			Sources: []string{"https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode"},
			kinds:   []string{"StorageClass"},
			object:  checkBindingMode,
		},
		{
			Code:     "WIN306",
			Title:    "file modes on Windows volumes",
			Severity: policy.Warning,
			Field:    "volumes[*].*.defaultMode",
			Why:      "defaultMode and mode have no effect on Windows: every user of the container can read the files.",
			Fix:      "remove them; do not rely on file modes",
			Sources:  []string{srcStorage, "https://kubernetes.io/docs/concepts/storage/projected-volumes/#windows"},
			pod:      checkModes,
		},
		{
			Code:     "WIN307",
			Title:    "`emptyDir` in memory",
			Severity: policy.Warning,
			Field:    "volumes[*].emptyDir.medium",
			Why:      "Windows has no RAM disk: the data is written to the node's disk, in clear text.",
			Fix:      "remove medium, and keep secrets out of it",
			Sources:  []string{srcMountUtils, srcEmptyDirMedium},
			pod:      eachVolume(checkMemoryMedium),
		},
		{
			Code:     "WIN308",
			Title:    "secrets on the node's disk",
			Severity: policy.Info,
			Field:    "volumes[*].secret",
			Why:      "There is no tmpfs on Windows: mounted secrets are stored on the node's disk in clear text.",
			Fix:      "encrypt the node's disk (BitLocker)",
			Sources:  []string{"https://kubernetes.io/docs/concepts/security/windows-security/"},
			pod:      eachVolume(checkSecretOnDisk),
		},
		{
			Code:     "WIN326",
			Title:    "file names that NTFS does not allow",
			Severity: policy.Warning,
			Field:    "volumes[*].configMap.items[*].path",
			Why: "NTFS treats names as case-insensitive, reserves CON, PRN, AUX, NUL, COM1… and LPT1…, and forbids " +
				`<>:"|?*.`,
			Fix:      "rename the file with items[].path",
			Sources:  []string{"https://learn.microsoft.com/windows/win32/fileio/naming-a-file"},
			Inferred: true,
			pod:      checkItemPaths,
		},
		{
			Code:     "WIN327",
			Title:    "a path of a Linux host",
			Severity: policy.Error,
			Field:    "volumes[*].hostPath.path",
			Why: `The path is resolved below C:\. If it does not exist and has no type, an empty directory is ` +
				"created; with the type Socket, File or Directory the mount fails. Sockets of runtimes are named " +
				`pipes on Windows, and \\.\pipe\docker_engine exists only with Docker.`,
			Fix:     `use the Windows path, \\.\pipe\containerd-containerd for the runtime's socket`,
			Sources: []string{srcMakeAbsolutePath, srcContainerdSpec},
			Proof:   provenOnCluster,
			pod:     eachVolume(checkLinuxHostPath),
		},
	}
}

func checkHostPathDevice(p *policy.Pod, v tree.Value, r reporter) {
	if t := v.Find("hostPath", "type"); t.Str() == "CharDevice" || t.Str() == "BlockDevice" {
		r.at(t, "hostPath.type %s: there are no device files on Windows", t.Str())
	}
}

func checkHostPathSocket(p *policy.Pod, v tree.Value, r reporter) {
	t := v.Find("hostPath", "type")
	switch {
	case t.Str() != "Socket":
	case pipe(v.Get("hostPath", "path").Str()):
		r.at(t, "hostPath.type Socket: the named pipe %s does not pass the check",
			v.Get("hostPath", "path").Str()).Edit(tree.Remove, t.Path(), nil)
	case strings.HasPrefix(v.Get("hostPath", "path").Str(), "/") &&
		strings.HasSuffix(v.Get("hostPath", "path").Str(), ".sock"): // WIN327 reports it
	default:
		r.as(policy.Info, t, "hostPath.type Socket: whether AF_UNIX sockets pass the check on Windows is not confirmed")
	}
}

func checkMemoryMedium(p *policy.Pod, v tree.Value, r reporter) {
	if m := v.Find("emptyDir", "medium"); m.Str() == "Memory" {
		r.at(m, "emptyDir.medium Memory: on Windows the data is on the node's disk, in clear text")
	}
}

func checkSecretOnDisk(p *policy.Pod, v tree.Value, r reporter) {
	if s := v.Find("secret"); s.Set() {
		r.at(s, "the secret is written to the node's disk in clear text")
	}
}

func checkLinuxHostPath(p *policy.Pod, v tree.Value, r reporter) {
	at := v.Find("hostPath", "path")
	if strings.HasSuffix(at.Str(), ".sock") && strings.HasPrefix(at.Str(), "/") {
		severity, what := policy.Warning, "it becomes an empty directory"
		switch v.Get("hostPath", "type").Str() {
		case "FileOrCreate":
			what = "it becomes an empty file"
		case "Socket", "File", "Directory":
			severity, what = policy.Error, "the volume cannot be mounted"
		}
		r.as(severity, at, "hostPath %s: there is no such socket on a Windows node; %s", at.Str(), what)
		return
	}
	if pipe(at.Str()) && strings.HasSuffix(strings.ToLower(at.Str()), "docker_engine") {
		r.as(policy.Warning, at, "hostPath %s: nodes with containerd do not have Docker's pipe", at.Str())
		return
	}
	for _, dir := range []string{"/proc", "/sys", "/dev", "/etc", "/lib/modules", "/run", "/var/run", "/usr"} {
		if at.Str() == dir || strings.HasPrefix(at.Str(), dir+"/") {
			r.as(policy.Warning, at, "hostPath %s becomes C:%s, an empty directory, on a Windows node",
				at.Str(), strings.ReplaceAll(at.Str(), "/", `\`))
			return
		}
	}
}

// eachVolume calls f with every volume of a pod for Windows.
func eachVolume(f func(*policy.Pod, tree.Value, reporter)) func(*policy.Pod, reporter) {
	return func(p *policy.Pod, r reporter) {
		if p.Windows() {
			for _, v := range p.Spec.Find("volumes").Items() {
				f(p, v, r)
			}
		}
	}
}

func checkHugePages(p *policy.Pod, r reporter) {
	if !p.Windows() {
		return
	}
	for _, v := range p.Spec.Find("volumes").Items() {
		if m := v.Find("emptyDir", "medium"); strings.HasPrefix(m.Str(), "HugePages") {
			r.at(m, "emptyDir.medium %s: Windows nodes have no huge pages", m.Str())
		}
	}
	for _, c := range p.Containers {
		for _, kind := range []string{"limits", "requests"} {
			list := c.Find("resources", kind)
			for _, k := range list.Keys() {
				if strings.HasPrefix(k, "hugepages-") {
					r.at(list.Get(k), "container %s: %s: Windows nodes have no huge pages", c.Name, k)
				}
			}
		}
	}
}

func checkBlock(p *policy.Pod, r reporter) {
	if !p.Windows() {
		return
	}
	for _, c := range p.Containers {
		if v := c.Find("volumeDevices"); v.Len() > 0 {
			r.at(v, "container %s: volumeDevices: raw block volumes are not supported on Windows", c.Name)
		}
	}
	claims := p.Object.Find("spec", "volumeClaimTemplates").Items()
	for _, v := range p.Spec.Find("volumes").Items() {
		if t := v.Find("ephemeral", "volumeClaimTemplate"); t.Set() {
			claims = append(claims, t)
		}
	}
	for _, c := range claims {
		if m := c.Find("spec", "volumeMode"); m.Str() == "Block" {
			r.at(m, "volumeMode Block: raw block volumes are not supported on Windows")
		}
	}
}

// checkBlockClaim checks a claim that a Windows pod in the same input mounts.
func checkBlockClaim(o *policy.Object, r reporter) {
	w, ok := o.Facts.Mounts(policy.Claim{Namespace: o.Namespace, Name: o.Name})
	if m := o.Get("spec", "volumeMode"); ok && m.Str() == "Block" {
		r.at(m, "volumeMode Block: %s is for Windows, which does not support raw block volumes", w)
	}
}

// linuxFileSystem reports whether only Linux formats and mounts a file system.
func linuxFileSystem(name string) bool {
	return slices.Contains([]string{"ext2", "ext3", "ext4", "xfs", "btrfs"}, strings.ToLower(name))
}

// checkFileSystemOfVolume checks the volumes and classes of Windows pods in the
// same input.
func checkFileSystemOfVolume(o *policy.Object, r reporter) {
	user, ok := o.Facts.UserOf(o)
	if !ok {
		return
	}
	var types []tree.Value
	if o.Kind == "StorageClass" {
		for _, k := range o.Find("parameters").Keys() {
			if strings.EqualFold(k, "fsType") || k == "csi.storage.k8s.io/fstype" {
				types = append(types, o.Find("parameters", k))
			}
		}
	} else {
		for _, source := range o.Find("spec").Keys() {
			types = append(types, o.Find("spec", source, "fsType"))
		}
	}
	for _, t := range types {
		if linuxFileSystem(t.Str()) {
			r.at(t, "file system %s: %s is for Windows, and Windows nodes mount ntfs", t.Str(), user)
		}
	}
}

// localDriver is the provisioner of mullion's volumes (storage.Driver).
const localDriver = "local.mullion.dev"

func checkBindingMode(o *policy.Object, r reporter) {
	mode := o.Find("volumeBindingMode")
	if o.Find("provisioner").Str() == localDriver && (mode.Str() == "" || mode.Str() == "Immediate") &&
		len(o.Find("allowedTopologies").Items()) == 0 {
		r.at(mode, "%s cannot choose the node of a volume that is bound before a pod uses it", localDriver)
	}
}

func checkFileSystem(p *policy.Pod, r reporter) {
	if !p.Windows() {
		return
	}
	for _, v := range p.Spec.Find("volumes").Items() {
		for _, source := range v.Keys() {
			if t := v.Find(source, "fsType"); linuxFileSystem(t.Str()) {
				r.at(t, "fsType %s: Windows nodes mount ntfs", t.Str())
			}
		}
	}
}

// modeDefault is 0644, the API server's default for defaultMode, so it does not
// show the user's intention.
const modeDefault = 0o644

func checkModes(p *policy.Pod, r reporter) {
	if !p.Windows() {
		return
	}
	report := func(v tree.Value) {
		if n, ok := v.Int(); ok && n != modeDefault && n&^modeDefault == 0 {
			r.at(v, "mode %#o has no effect on Windows: all users of the container can read the file",
				n).Edit(tree.Remove, v.Path(), nil)
		}
	}
	for _, v := range p.Spec.Find("volumes").Items() {
		for _, source := range []string{"configMap", "secret", "projected", "downwardAPI"} {
			at := v.Find(source)
			report(at.Find("defaultMode"))
			for _, i := range at.Find("items").Items() {
				report(i.Find("mode"))
			}
		}
	}
}

func checkItemPaths(p *policy.Pod, r reporter) {
	if !p.Windows() {
		return
	}
	for _, v := range p.Spec.Find("volumes").Items() {
		for _, source := range []string{"configMap", "secret", "downwardAPI"} {
			seen := map[string]string{}
			for _, i := range v.Find(source, "items").Items() {
				at := i.Get("path")
				name := at.Str()
				if other, ok := seen[strings.ToLower(name)]; ok && other != name {
					r.at(at, "%s and %s are the same file on Windows", other, name)
				}
				seen[strings.ToLower(name)] = name
				if reservedName(name) {
					r.at(at, "%s is not a valid file name on Windows", name)
				}
			}
		}
	}
}

// reservedName reports whether an element of the path is not a valid file name.
func reservedName(name string) bool {
	for e := range strings.SplitSeq(name, "/") {
		stem, _, _ := strings.Cut(strings.ToUpper(path.Base(e)), ".")
		if slices.Contains([]string{"CON", "PRN", "AUX", "NUL"}, stem) || strings.ContainsAny(e, `<>:"|?*\`) ||
			len(stem) == 4 && (stem[:3] == "COM" || stem[:3] == "LPT") && stem[3] >= '1' && stem[3] <= '9' {
			return true
		}
	}
	return false
}
