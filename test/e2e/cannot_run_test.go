// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mistake is a pod that cannot run, the rule that reports it, and what the
// cluster says of it.
type mistake struct {
	name string
	code string
	spec string // below "spec:"
	want string // in the refusal of the API server, an event, or the pod's status
}

const (
	nano2019 = "mcr.microsoft.com/windows/nanoserver:1809"
	nano2022 = "mcr.microsoft.com/windows/nanoserver:ltsc2022"
)

// on is a pod on the first node, with more in its spec and in its container.
func on(spec, container string) string {
	return placedPod("nodeName: win-1", nano2019, spec, container)
}

func placedPod(place, image, spec, container string) string {
	return "{os: {name: windows}, " + place + ", terminationGracePeriodSeconds: 1" + spec +
		", containers: [{name: main, image: '" + image + "'" + container + "}]}"
}

// mounting is a pod on the first node with a volume.
func mounting(volume, path, mount string) string {
	return on(", volumes: [{name: v, "+volume+"}]", ", volumeMounts: [{name: v, mountPath: '"+path+"'"+mount+"}]")
}

func asHost(spec string) string {
	return ", hostNetwork: true, securityContext: {windowsOptions: {hostProcess: true" + spec + "}}"
}

// mistakes lists them.
//
// Length: a table.
func mistakes() []mistake {
	const (
		system  = `, runAsUserName: 'NT AUTHORITY\SYSTEM'`
		missing = "The system cannot find the file specified."
		noMatch = "no match for platform in manifest"
		logOn   = "failed to create user process token"
		pending = "didn't match Pod's node affinity/selector"
	)
	windows := func(more, image string) string {
		return placedPod("nodeSelector: {kubernetes.io/os: windows"+more+"}", image, "", "")
	}
	return []mistake{
		{"other-os", "WIN201", `{os: {name: linux}, nodeName: win-1, nodeSelector: {kubernetes.io/os: windows}, ` +
			`containers: [{name: main, image: ` + nano2019 + `}]}`, "OS field doesn't match node OS"},
		{"node-name", "WIN203", `{os: {name: linux}, nodeName: win-1, containers: [{name: main, image: nginx}]}`,
			"OS field doesn't match node OS"},
		{"nfs", "WIN208", mounting("nfs: {server: 127.0.0.1, path: /x}", `C:\v`, ""), "MountVolume.SetUp failed"},
		{"hugepages", "WIN210", on("", ", resources: {limits: {hugepages-2Mi: 4Mi, memory: 100Mi}}"),
			"Node didn't have enough resource: hugepages-2Mi"},
		{"hugepages-medium", "WIN210", mounting("emptyDir: {medium: HugePages}", `C:\v`, ""),
			"MountVolume.SetUp failed"},
		{"device", "WIN212", mounting(`hostPath: {path: 'C:\Windows', type: CharDevice}`, `C:\v`, ""),
			"is not a character device"},
		{"pipe-socket", "WIN213",
			mounting(`hostPath: {path: '\\.\pipe\containerd-containerd', type: Socket}`, `\\.\pipe\x`, ""),
			"is not a socket file"},
		{"recursive", "WIN214", mounting("emptyDir: {}", `C:\v`,
			", readOnly: true, mountPropagation: None, recursiveReadOnly: Enabled"), "recursive read-only"},
		{"image-volume", "WIN215", mounting("image: {reference: '"+nano2019+"'}", `C:\v`, ""),
			"image volumes are not supported on Windows"},
		{"drive", "WIN216", mounting("emptyDir: {}", "C:", ""), "destination path can not be C drive"},
		{"root", "WIN216", mounting("emptyDir: {}", "/", ""), "destination path can not be C drive"},
		{"job-pipe", "WIN218", placedPod("nodeName: win-1", nano2019, asHost(system)+
			`, volumes: [{name: v, hostPath: {path: '\\.\pipe\x'}}]`,
			`, volumeMounts: [{name: v, mountPath: '\\.\pipe\x'}]`),
			"named pipe mounts not supported for job containers"},
		{"no-account", "WIN219", on(asHost(""), ""), logOn},
		{"container-user", "WIN219", on(asHost(", runAsUserName: ContainerUser"), ""), logOn},
		{"container-admin", "WIN219", on(asHost(", runAsUserName: ContainerAdministrator"), ""), logOn},
		{"no-class", "WIN224", on(", runtimeClassName: none", ""), `RuntimeClass "none" not found`},
		{"class-selector", "WIN225", placedPod("nodeSelector: {node.kubernetes.io/windows-build: 10.0.19042}", nano2019,
			", runtimeClassName: windows-2019", ""), "conflict: runtimeClass.scheduling.nodeSelector"},
		{"shell", "WIN227", on("", ", command: [/bin/sh, -c, ls]"), missing},
		{"shell-in-args", "WIN227", on("", ", args: [/bin/sh, -c, ls]"), missing},
		{"tool", "WIN227", on("", ", command: [sleep, infinity]"), missing},
		{"local-bin", "WIN227", on("", ", command: [/usr/local/bin/agent]"), missing},
		{"powershell", "WIN227", on("", ", command: [powershell, -Command, Get-Date]"), missing},
		{"pwsh", "WIN227", placedPod("nodeName: win-1", "mcr.microsoft.com/windows/servercore:ltsc2019", "",
			", command: [pwsh, -Command, Get-Date]"), missing},
		{"framework", "WIN227", on("", `, command: ['C:\Windows\Microsoft.NET\Framework64\v4.0.30319\csc.exe']`),
			missing},
		{"sub-path", "WIN231", mounting("emptyDir: {}", `C:\v`, `, subPath: 'C:\x'`), "must not be an absolute path"},
		{"sub-path-up", "WIN231", mounting("emptyDir: {}", `C:\v`, `, subPath: '..\x'`), "must not contain '..'"},
		{"socket", "WIN327", mounting("hostPath: {path: /var/run/docker.sock, type: Socket}", `C:\v`, ""),
			"is not a socket file"},
		{"socket-file", "WIN327", mounting("hostPath: {path: /var/run/docker.sock, type: File}", `C:\v`, ""),
			"is not a file"},
		{"git", "WIN351", mounting("gitRepo: {repository: 'https://example.test/x.git'}", `C:\v`, ""),
			"git-repo volume plugin has been disabled"},
		{"no-such-build", "WIN411", windows(", node.kubernetes.io/windows-build: 10.0.19042", semiAnnual), pending},
		{"other-build", "WIN412", placedPod("nodeName: win-1", semiAnnual, "", ""), noMatch},
		{"host-process-build", "WIN412", placedPod("nodeName: win-1", nano2022, asHost(system), ""), noMatch},
		{"upper-case", "WIN424", "{nodeSelector: {kubernetes.io/os: Windows}, containers: [{name: main, image: '" +
			nano2019 + "'}]}", pending},
		{"two-builds", "WIN701", `{os: {name: windows}, nodeName: win-1, containers: [{name: a, image: '` + nano2019 +
			`', command: [cmd, /c, ping -t localhost]}, {name: b, image: '` + nano2022 + `'}]}`, noMatch},
		{"selected-build", "WIN702", windows(", node.kubernetes.io/windows-build: 10.0.17763", nano2022), noMatch},
	}
}

// TestCannotRun makes every mistake of the list: the cluster has to refuse the
// pod or fail to run it, in the words that are known of Windows, and lint has to
// report it as an error before. The rules name this test as the proof that they
// may refuse.
func TestCannotRun(t *testing.T) {
	c := up(t)
	ns := c.namespace(t)
	// The webhooks would refuse most of them before a kubelet sees them.
	c.kubectl(t, "label", "namespace", ns, "admission.mullion.dev/disabled=true")
	config := filepath.Join(c.dir, "clusters", name, "admin.kubeconfig")
	refused := map[string]string{}
	for _, m := range mistakes() {
		manifest := "apiVersion: v1\nkind: Pod\nmetadata: {name: " + m.name + ", namespace: " + ns + "}\nspec: " +
			m.spec + "\n"
		out, err := c.try(t.Context(), manifest, "lint", "--cluster", "--kubeconfig", config, "-")
		if err == nil || !strings.Contains(out, " error "+m.code+":") {
			t.Errorf("%s: lint does not report %s as an error: %v: %s", m.name, m.code, err, out)
		}
		out, err = c.try(t.Context(), manifest, "kubectl", "--name", name, "--data-dir", c.dir, "apply", "-f", "-")
		if err != nil {
			refused[m.name] = out
		}
	}
	left := mistakes()
	eventually(t, startLimit, "what the cluster says of the pods", func() error {
		said, err := c.said(t, ns)
		if err != nil {
			return err
		}
		left = slices.DeleteFunc(left, func(m mistake) bool {
			return strings.Contains(refused[m.name]+said[m.name], m.want)
		})
		for _, m := range left {
			return fmt.Errorf("%d pods are left; of %s it says %q, want %q", len(left), m.name,
				refused[m.name]+said[m.name], m.want)
		}
		return nil
	})
}

// said returns what is written about each pod of a namespace: its events, and the
// messages of its status.
func (c *shared) said(t *testing.T, ns string) (map[string]string, error) {
	out := map[string]string{}
	for _, args := range [][]string{
		{"events", `{range .items[*]}{.involvedObject.name}{"\t"}{.message}{"\n"}{end}`},
		{"pods",
			`{range .items[*]}{.metadata.name}{"\t"}{.status.message} {.status.containerStatuses[*].state.*.message}` +
				`{"\n"}{end}`},
	} {
		text, err := c.kubectlErr(t.Context(), "get", args[0], "-n", ns, "-o", "jsonpath="+args[1])
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			pod, message, _ := strings.Cut(line, "\t")
			out[pod] += message
		}
	}
	return out, nil
}
