// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"maps"
	"strings"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// fixture is an object that a rule reports and one that it does not, both as
// tweaks of the minimal pod. An empty pass is the minimal pod itself.
type fixture struct {
	code, fail, pass string
	facts            policy.Facts
}

// cluster is a cluster of Windows nodes of the given builds.
func cluster(builds ...int) policy.Facts {
	var f policy.Facts
	for _, n := range builds {
		b, _ := winver.Find(n)
		f.Nodes = append(f.Nodes, policy.Node{Name: "w" + b.Version, OS: "windows", Build: b})
	}
	return f
}

func tainted(f policy.Facts, t policy.Taint) policy.Facts {
	for i := range f.Nodes {
		f.Nodes[i].Taints = []policy.Taint{t}
	}
	return f
}

func image(ref string, i policy.Image, f policy.Facts) policy.Facts {
	f.Images = map[string]policy.Image{ref: i}
	return f
}

func namespace(labels map[string]string) policy.Facts {
	return policy.Facts{Namespaces: map[string]policy.Namespace{"ns": {Labels: labels}}}
}

// linkerd is a namespace that asks for Linkerd's proxy.
func linkerd(more map[string]string) policy.Facts {
	annotations := map[string]string{policy.LinkerdInject: "enabled"}
	maps.Copy(annotations, more)
	return policy.Facts{Namespaces: map[string]policy.Namespace{"ns": policy.NewNamespace(nil, annotations)}}
}

func namespaces(name string) policy.Facts {
	return policy.Facts{Namespaces: map[string]policy.Namespace{name: {}}}
}

func containerd(version string, f policy.Facts) policy.Facts {
	for i := range f.Nodes {
		f.Nodes[i].Containerd = version
	}
	return f
}

const sc2022 = "mcr.microsoft.com/windows/servercore:ltsc2022"

func linuxOnly() policy.Image { return policy.Image{Platforms: []policy.Platform{{OS: "linux"}}} }

func hpc(rest string) string {
	return `spec: {hostNetwork: true, securityContext: {windowsOptions: {hostProcess: true, runAsUserName: "NT ` +
		`AUTHORITY\\Local service"}}` + rest + `}`
}

// service selects the pods of the workload of backend.
func service(spec, annotations string) string {
	return `obj: {apiVersion: v1, kind: Service, metadata: {name: s, annotations: {` + annotations +
		`}}, spec: {selector: {app: w}, ` + spec + `}}`
}

// backend adds a workload for Windows.
func backend(f policy.Facts) policy.Facts {
	f.Related = policy.Related{}.With([]policy.Workload{{
		Kind:    "StatefulSet",
		Name:    "w",
		Labels:  []policy.Label{{Name: "app", Value: "w"}, {Name: "tier", Value: "web"}},
		Claims:  []string{"data"},
		Classes: []string{"fast"},
		Ports:   []string{"http"},
	}}, nil)
	return f
}

func storageClass(settings string) string {
	return "obj: {apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: local}, " + settings + "}"
}

// scaler is an autoscaler of a kind, and scales a target of another.
func scaler(version, kind, targetVersion, targetKind string) string {
	return `obj: {apiVersion: ` + version + `, kind: ` + kind + `, metadata: {name: h}, spec: {maxReplicas: 3, ` +
		`scaleTargetRef: {apiVersion: "` + targetVersion + `", kind: ` + targetKind + `, name: w}}}`
}

// sources has a ConfigMap and a Secret of the input, and one that a program fills.
func sources() policy.Facts {
	return policy.Facts{Related: policy.Related{}.With(nil, nil, policy.Source{Kind: "ConfigMap", Name: "s",
		Keys: []string{"known"}},
		policy.Source{Kind: "Secret", Name: "s", Keys: []string{"other"}}, policy.Source{Kind: "Secret",
			Name: "filled"})}
}

func volume(v string) string { return `spec: {volumes: [{name: v, ` + v + `}]}` }

func mount(m string) string {
	return `c: {volumeMounts: [{name: v, mountPath: 'C:\v', ` + m + `}]}` +
		"\nspec: {volumes: [{name: v, emptyDir: {}}]}"
}

// option gives the pod a Windows option.
func option(o string) string { return `spec: {securityContext: {windowsOptions: {` + o + `}}}` }

// fixtures has one entry at least for every rule with logic. The rows of the table of
// fields have theirs made in TestFieldTable.
//
// Length: a table.
func fixtures() []fixture {
	taint := policy.Taint{Key: "os", Value: "windows", Effect: "NoSchedule"}
	out := []fixture{
		{code: "WIN014", fail: `spec: {securityContext: {supplementalGroupsPolicy: Merge}}`},
		{code: "WIN014", fail: `spec: {os: null, securityContext: {supplementalGroupsPolicy: Strict}}`,
			facts: policy.Facts{Kubernetes: 33}},
		{code: "WIN021", fail: `c: {securityContext: {privileged: false}}`,
			pass: `{spec: {os: {name: linux}, nodeSelector: null}, c: {image: nginx, securityContext: {privileged: ` +
				`true}}}`},
		{code: "WIN027", fail: `c: {lifecycle: {stopSignal: SIGUSR1}}`, pass: `c: {lifecycle: {stopSignal: SIGTERM}}`},
		{code: "WIN027", fail: `{spec: {os: null}, c: {lifecycle: {stopSignal: SIGTERM}}}`},
		{code: "WIN028", fail: `c: {name: c}`,
			pass:  `{spec: {os: {name: linux}, nodeSelector: null}, c: {image: nginx}}`,
			facts: policy.Facts{Subresource: "resize"}},
		{code: "WIN028", fail: `obj: {apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, spec: ` +
			`{targetRef: ` +
			`{kind: StatefulSet, name: w}, updatePolicy: {updateMode: InPlaceOrRecreate}}}`,
			pass: `obj: {apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, spec: {targetRef: ` +
				`{kind: StatefulSet, name: w}, updatePolicy: {updateMode: Recreate}}}`, facts: backend(policy.Facts{})},
		{code: "WIN030", fail: `spec: {os: {name: Windows}}`},
		{code: "WIN030", fail: `spec: {os: {name: ""}}`},
		{code: "WIN031", fail: `{spec: {os: {name: linux}, nodeSelector: null, securityContext: {windowsOptions: ` +
			`{runAsUserName: x}}}, c: {image: nginx}}`, pass: option("runAsUserName: ContainerUser")},
		{code: "WIN101", fail: option("gmsaCredentialSpecName: gmsa-WebApp1"),
			pass: option("gmsaCredentialSpecName: gmsa-webapp1")},
		{code: "WIN102", fail: option(`gmsaCredentialSpecName: g, gmsaCredentialSpec: ""`),
			pass: option(`gmsaCredentialSpecName: g, gmsaCredentialSpec: "{}"`)},
		{code: "WIN102",
			fail: option(`gmsaCredentialSpecName: g, gmsaCredentialSpec: ` + strings.Repeat("x", 64<<10+1))},
		{code: "WIN103", fail: option(`runAsUserName: "NT AUTHORITY\network service"`),
			pass: option(`runAsUserName: "NT AUTHORITY\\network service"`)},
		{code: "WIN103", fail: option(`runAsUserName: user@domain`)},
		{code: "WIN104",
			fail: hpc(`, containers: [{name: c, image: x, securityContext: {windowsOptions: {hostProcess: false}}}]`),
			pass: hpc("")},
		{code: "WIN105", fail: `spec: {hostNetwork: true, initContainers: [{name: i, image: x}], containers: [{name: ` +
			`c, image: x, securityContext: {windowsOptions: {hostProcess: true}}}]}`, pass: hpc("")},
		{code: "WIN106", fail: option("hostProcess: true"), pass: hpc("")},
		{code: "WIN107", fail: hpc(""), facts: policy.Facts{NoPrivileged: true}},
		{code: "WIN201", fail: `spec: {nodeSelector: {kubernetes.io/os: linux}}`},
		{code: "WIN201", fail: `spec: {runtimeClassName: l}`, pass: `spec: {runtimeClassName: w}`,
			facts: policy.Facts{
				RuntimeClasses: map[string]policy.RuntimeClass{
					"l": {NodeSelector: map[string]string{"kubernetes.io/os": "linux"}},
					"w": {Handler: "runhcs-wcow-process"}}}},
		{code: "WIN202", fail: `meta: {labels: {kubernetes.io/os: windows}}`},
		{code: "WIN203", fail: `spec: {nodeName: l}`, pass: `spec: {nodeName: w}`,
			facts: policy.Facts{Nodes: []policy.Node{{Name: "l", OS: "linux"},
				{Name: "w", OS: "windows", Build: winver.Build{Number: 20348}}}}},
		{code: "WIN203", fail: `spec: {nodeName: l}`, pass: `spec: {nodeName: unlabelled}`,
			facts: policy.Facts{Nodes: []policy.Node{{Name: "l", OS: "linux"}, {Name: "unlabelled"}}}},
		{code: "WIN204", fail: `spec: {securityContext: {runAsNonRoot: true, windowsOptions: {runAsUserName: ` +
			`containeradministrator}}}`, pass: `spec: {securityContext: {runAsNonRoot: true, windowsOptions: ` +
			`{runAsUserName: ContainerUser}}}`},
		{code: "WIN205", fail: `spec: {securityContext: {runAsNonRoot: true}}`,
			pass:  `spec: {securityContext: {runAsNonRoot: false}}`,
			facts: image(sc2022, policy.Image{User: "ContainerAdministrator"}, policy.Facts{})},
		{code: "WIN206", fail: `spec: {securityContext: {runAsNonRoot: true}}`,
			pass: `spec: {securityContext: {runAsNonRoot: true, windowsOptions: {runAsUserName: ContainerUser}}}`},
		{code: "WIN206", fail: `spec: {securityContext: {runAsNonRoot: true, windowsOptions: {runAsUserName: 'nt ` +
			`authority\system'}}}`},
		{code: "WIN207", fail: option("runAsUserName: bob"), pass: option("runAsUserName: ContainerUser")},
		{code: "WIN210", fail: volume("emptyDir: {medium: HugePages}")},
		{code: "WIN210", fail: `c: {resources: {limits: {hugepages-2Mi: 4Mi}}}`},
		{code: "WIN211", fail: `c: {volumeDevices: [{name: v, devicePath: x}]}`},
		{code: "WIN211", fail: `obj: {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: ` +
			`{volumeMode: Block}}`,
			pass: `obj: {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: other}, ` +
				`spec: {volumeMode: Block}}`, facts: backend(policy.Facts{})},
		{code: "WIN212", fail: volume("hostPath: {path: x, type: CharDevice}"),
			pass: volume("hostPath: {path: x, type: Directory}")},
		{code: "WIN213", fail: volume(`hostPath: {path: '\\.\pipe\x', type: Socket}`),
			pass: volume(`hostPath: {path: '\\.\pipe\x'}`)},
		{code: "WIN216", fail: `c: {volumeMounts: [{name: v, mountPath: 'C:'}]}`,
			pass: `c: {volumeMounts: [{name: v, mountPath: 'C:\x'}]}`},
		{code: "WIN216", fail: `c: {volumeMounts: [{name: v, mountPath: /}]}`,
			pass: `c: {volumeMounts: [{name: v, mountPath: /data}]}`},
		{code: "WIN218", fail: hpc(`, volumes: [{name: v, hostPath: {path: '\\.\pipe\x'}}]`),
			pass: volume(`hostPath: {path: '\\.\pipe\x'}`)},
		{code: "WIN219", fail: `spec: {hostNetwork: true, securityContext: {windowsOptions: {hostProcess: true}}}`,
			pass: hpc("")},
		{code: "WIN219", fail: `spec: {hostNetwork: true, securityContext: {windowsOptions: {hostProcess: true, ` +
			`runAsUserName: containeruser}}}`, pass: hpc("")},
		{code: "WIN220", fail: `spec: {hostNetwork: true, securityContext: {windowsOptions: {hostProcess: true, ` +
			`runAsUserName: 'NT Authority\SYSTEM'}}}`, pass: hpc("")},
		{code: "WIN221", fail: `c: {image: nginx}`, facts: image("nginx", linuxOnly(), policy.Facts{})},
		{code: "WIN221", fail: `c: {image: 'docker.io/library/nginx:1.29'}`,
			pass: `c: {image: 'docker.io/library/golang:1.25-windowsservercore-ltsc2022'}`},
		{code: "WIN221", fail: `c: {image: 'mcr.microsoft.com/dotnet/aspnet:8.0-alpine3.20'}`,
			pass: `c: {image: 'mcr.microsoft.com/dotnet/aspnet:8.0'}`},
		{code: "WIN222", fail: `c: {image: x}`,
			facts: image("x",
				policy.Image{Index: true, Platforms: []policy.Platform{{OS: "windows", Arch: "amd64",
					OSVersion: "10.0.17763.1"}, {OS: "linux", Arch: "amd64", OSVersion: ""}}},
				cluster(20348))},
		{code: "WIN223", fail: `c: {image: x}`,
			facts: image("x",
				policy.Image{Platforms: []policy.Platform{{OS: "windows", Arch: "amd64", OSVersion: "10.0.17763.1"}}},
				cluster(20348, 26100))},
		{code: "WIN224", fail: `spec: {runtimeClassName: x}`,
			facts: policy.Facts{RuntimeClasses: map[string]policy.RuntimeClass{}}},
		{code: "WIN225", fail: `spec: {runtimeClassName: x, nodeSelector: {a: "1"}}`,
			pass: `spec: {runtimeClassName: x, nodeSelector: {a: "2"}}`,
			facts: policy.Facts{RuntimeClasses: map[string]policy.RuntimeClass{
				"x": {NodeSelector: map[string]string{"a": "2"}}}}},
		{code: "WIN226", fail: `obj: {apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: r}, handler: ` +
			`mine, scheduling: {nodeSelector: {kubernetes.io/os: windows}}}`,
			pass: `obj: {apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: r}, handler: ` +
				`runhcs-wcow-process}`},
		{code: "WIN227", fail: `c: {command: [/bin/sh, -c, ls]}`, pass: `c: {command: [cmd, /c, dir]}`},
		{code: "WIN227", fail: `c: {args: [/usr/local/bin/x]}`, pass: `c: {image: x, args: [/usr/local/bin/x]}`},
		{code: "WIN227", fail: `c: {command: [sleep, infinity]}`, pass: `c: {image: x, command: [sleep, infinity]}`},
		{code: "WIN227", fail: `c: {image: 'mcr.microsoft.com/windows/nanoserver:ltsc2022', command: [powershell.exe]}`,
			pass: `c: {command: [powershell.exe]}`},
		{code: "WIN227", fail: `c: {command: [cmd, /s, /C, 'sleep 5 & exit 0']}`,
			pass: `c: {command: [cmd, /c, 'ping -n 5 localhost']}`},
		{code: "WIN227", fail: `c: {command: [cmd], args: [/c, sleep 5]}`,
			pass: `c: {image: x, args: [/bin/sh, -c, ls]}`},
		{code: "WIN227", fail: `c: {command: ['powershell.exe -Command Start-Sleep 5']}`,
			pass: `c: {command: [powershell, -Command, sleep 5]}`},
		{code: "WIN227",
			fail: `c: {image: 'mcr.microsoft.com/windows/nanoserver:ltsc2022', command: [msiexec, /i, a.msi]}`,
			pass: `c: {command: [msiexec, /i, a.msi]}`},
		{code: "WIN227", fail: `c: {image: x, readinessProbe: {exec: {command: [/bin/sh]}}}`},
		{code: "WIN228", fail: `obj: {apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast}, ` +
			`parameters: {csi.storage.k8s.io/fstype: ext4}}`,
			pass: `obj: {apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: slow}, ` +
				`parameters: {csi.storage.k8s.io/fstype: ext4}}`, facts: backend(policy.Facts{})},
		{code: "WIN228", fail: `obj: {apiVersion: v1, kind: PersistentVolume, metadata: {name: v}, spec: ` +
			`{claimRef: {name: data}, csi: {driver: d, fsType: xfs}}}`,
			pass: `obj: {apiVersion: v1, kind: PersistentVolume, metadata: {name: v}, spec: ` +
				`{claimRef: {name: other}, csi: {driver: d, fsType: xfs}}}`, facts: backend(policy.Facts{})},
		{code: "WIN228", fail: volume("csi: {driver: d, fsType: ext4}"),
			pass: volume("csi: {driver: d, fsType: ntfs}")},
		{code: "WIN231", fail: mount(`subPath: 'C:\x'`), pass: mount("subPath: x/y")},
		{code: "WIN231", fail: mount(`subPath: '..\x'`)},
		{code: "WIN232", fail: hpc(""), facts: containerd("1.5.9", cluster(20348))},
		{code: "WIN233", fail: `{c: {volumeMounts: [{name: v, mountPath: 'C:\a:b'}]}, ` +
			`spec: {volumes: [{name: v, emptyDir: {}}]}}`},
		{code: "WIN233", fail: `c: {command: ["C:\temp\run.exe"]}`, pass: `c: {command: ['C:\temp\run.exe']}`},
		{code: "WIN233", fail: `c: {args: ["C:\temp\run.exe"]}`, pass: `c: {args: ["a\tb"]}`},
		{code: "WIN341", fail: `c: {resources: {limits: {memory: 512m}}}`,
			pass: `c: {resources: {limits: {memory: 512Mi}}}`},
		{code: "WIN341", fail: `c: {resources: {limits: {memory: 512}}}`,
			pass: `c: {resources: {limits: {memory: 1e9}}}`},
		{code: "WIN238", fail: `c: {lifecycle: {preStop: {exec: {command: [timeout, /t, "5"]}}}}`,
			pass: `c: {command: [timeout, /t, "5"], tty: true}`},
		{code: "WIN238", fail: `c: {command: [cmd, /c, timeout 5]}`,
			pass: `c: {command: [cmd, /c, ping -n 6 127.0.0.1]}`},
		{code: "WIN238", fail: `c: {command: [cmd.exe, -c, echo hello]}`, pass: `c: {command: [cmd.exe, /c, echo -c]}`},
		{code: "WIN238", fail: `c: {command: [cmd.exe], args: [/c, timeout 5]}`,
			pass: `c: {image: x, args: [timeout, /t, "5"]}`},
		{code: "WIN238", fail: `c: {image: x, args: [cmd, /c, timeout 5]}`},
		{code: "WIN239", fail: `c: {image: 'mcr.microsoft.com/windows/servercore:2022'}`,
			pass: `c: {image: 'mcr.microsoft.com/windows/servercore:ltsc2022-amd64'}`},
		{code: "WIN239", fail: `c: {image: 'mcr.microsoft.com/windows/nanoserver/iis'}`,
			pass: `c: {image: 'mcr.microsoft.com/windows/servercore/iis'}`},
		{code: "WIN239", fail: `c: {image: 'mcr.microsoft.com/dotnet/aspnet:8.0-ltsc2023'}`,
			pass: `c: {image: 'mcr.microsoft.com/dotnet/aspnet:8.0'}`},
		{code: "WIN239", fail: `c: {image: 'mcr.microsoft.com/windows/servercore:ltsc2023'}`,
			pass: `c: {image: 'mcr.microsoft.com/windows/servercore:ltsc2031'}`,
			facts: image("mcr.microsoft.com/windows/servercore:ltsc2031",
				policy.Image{Platforms: []policy.Platform{{OS: "windows"}}}, policy.Facts{})},
		{code: "WIN240", fail: scaler("autoscaling/v2", "HorizontalPodAutoscaler", "extensions/v1beta1", "Deployment"),
			pass: scaler("autoscaling/v2", "HorizontalPodAutoscaler", "apps/v1beta1", "Deployment")},
		{code: "WIN240", fail: scaler("autoscaling/v2", "HorizontalPodAutoscaler", "", "Deployment"),
			pass: scaler("keda.sh/v1alpha1", "ScaledObject", "", "Deployment"), facts: policy.Facts{Kubernetes: 30}},
		{code: "WIN240", fail: scaler("keda.sh/v1alpha1", "ScaledObject", "extensions/v1beta1", "Deployment"),
			pass: scaler("autoscaling/v2", "HorizontalPodAutoscaler", "apps.kruise.io/v1beta1", "StatefulSet")},
		{code: "WIN240", fail: scaler("autoscaling/v2", "HorizontalPodAutoscaler", "apps/v1", "DaemonSet"),
			pass: scaler("autoscaling/v2", "HorizontalPodAutoscaler", "v1", "ReplicationController")},
		{code: "WIN240", fail: scaler("autoscaling/v1", "HorizontalPodAutoscaler", "batch/v1", "CronJob"),
			pass: scaler("autoscaling/v1", "HorizontalPodAutoscaler", "apps/v1", "deployment")},
		{code: "WIN240",
			fail: scaler("autoscaling/v1", "HorizontalPodAutoscaler", "apps/v1beta1", "ReplicationController"),
			pass: scaler("autoscaling/v1", "HorizontalPodAutoscaler", "argoproj.io/v1alpha1", "Rollout")},
		{code: "WIN241", fail: storageClass("provisioner: local.mullion.dev"),
			pass: storageClass("provisioner: local.mullion.dev, volumeBindingMode: WaitForFirstConsumer")},
		{code: "WIN241", fail: storageClass("provisioner: local.mullion.dev, volumeBindingMode: Immediate"),
			pass: storageClass("provisioner: local.mullion.dev, allowedTopologies: [{matchLabelExpressions: " +
				"[{key: kubernetes.io/os, values: [windows]}]}]")},
		{code: "WIN241", fail: storageClass("provisioner: local.mullion.dev, allowedTopologies: []"),
			pass: storageClass("provisioner: smb.csi.k8s.io")},
		{code: "WIN342", fail: `c: {command: [cmd, /c, 'cd $HOME && dir']}`,
			pass: `c: {command: [cmd, /c, 'cd %HOME% && dir $(NAME) C$']}`},
		{code: "WIN342", fail: `c: {command: [cmd], args: [/c, 'app --port=${port}'], env: [{name: PORT, value: "1"}]}`,
			pass: `c: {command: [cmd], args: [/c, 'app --cluster=${CLUSTER}']}`},
		{code: "WIN342", fail: `c: {command: [cmd, /c, 'echo $env:PORT']}`,
			pass: `c: {command: [cmd, /c, 'powershell -Command $env:PORT; $HOME']}`},
		{code: "WIN342", fail: `c: {livenessProbe: {exec: {command: [cmd, /c, 'type ${NAME}.log']}}, ` +
			`envFrom: [{configMapRef: {name: m}}]}`, pass: `c: {command: [powershell, -Command, 'echo $HOME']}`},
		{code: "WIN301", fail: `spec: {hostNetwork: true}`, pass: hpc("")},
		{code: "WIN304", fail: `spec: {dnsConfig: {searches: [a.b, c.d]}}`},
		{code: "WIN305", fail: mount("mountPropagation: Bidirectional"), pass: mount("mountPropagation: None")},
		{code: "WIN306", fail: volume("secret: {secretName: s, defaultMode: 256}"),
			pass: volume("secret: {secretName: s, defaultMode: 420}")},
		{code: "WIN307", fail: volume("emptyDir: {medium: Memory}"), pass: volume("emptyDir: {}")},
		{code: "WIN308", fail: volume("secret: {secretName: s}")},
		{code: "WIN310", fail: `c: {resources: {requests: {memory: 50Mi}}}`},
		{code: "WIN312", fail: `c: {resources: null}`},
		{code: "WIN313", fail: `spec: {terminationGracePeriodSeconds: 60}`,
			pass: `spec: {terminationGracePeriodSeconds: 5}`},
		{code: "WIN313", fail: `spec: {terminationGracePeriodSeconds: 31}`,
			pass: `spec: {terminationGracePeriodSeconds: 30}`},
		{code: "WIN312", fail: `spec: {initContainers: [{name: s, image: x, restartPolicy: Always}]}`,
			pass: `spec: {initContainers: [{name: s, image: x}]}`},
		{code: "WIN314", fail: mount("subPath: a/b.conf"), pass: mount("subPath: a/b")},
		{code: "WIN317", fail: hpc(`, hostAliases: [{ip: 10.0.0.1, hostnames: [a]}]`),
			pass: `spec: {hostAliases: [{ip: 10.0.0.1, hostnames: [a]}]}`},
		{code: "WIN318", fail: option("gmsaCredentialSpecName: g")},
		{code: "WIN319", fail: `meta: {annotations: {experimental.windows.kubernetes.io/isolation-type: hyperv}}`},
		{code: "WIN320", fail: `meta: {annotations: {pod.alpha.windows.kubernetes.io/gmsa-credential-spec-name: g}}`},
		{code: "WIN321", fail: `spec: {nodeSelector: {beta.kubernetes.io/os: windows}}`},
		{code: "WIN322", fail: `spec: {hostname: abcdefghijklmnop}`, pass: `spec: {hostname: abc}`},
		{code: "WIN324", fail: `c: {env: [{name: Path, value: a}, {name: PATH, value: b}]}`,
			pass: `c: {env: [{name: A, value: a}, {name: B, value: b}]}`},
		{code: "WIN325", fail: `c: {env: [{name: "A:B", value: a}]}`, pass: `c: {env: [{name: A__B, value: a}]}`,
			facts: policy.Facts{Kubernetes: 31}},
		{code: "WIN326", fail: volume("configMap: {name: m, items: [{key: a, path: con.txt}]}"),
			pass: volume("configMap: {name: m, items: [{key: a, path: a/b.txt}]}")},
		{code: "WIN327", fail: volume("hostPath: {path: /var/run/docker.sock}"),
			pass: volume(`hostPath: {path: 'C:\x'}`)},
		{code: "WIN327", fail: volume(`hostPath: {path: '\\.\pipe\docker_engine'}`),
			pass: volume(`hostPath: {path: '\\.\pipe\containerd-containerd'}`)},
		{code: "WIN328", fail: `c: {env: [{name: Path, value: 'C:\app;%PATH%'}]}`,
			pass: `c: {env: [{name: PATH, value: 'C:\app;C:\Windows\System32'}]}`},
		{code: "WIN334", fail: `c: {livenessProbe: {exec: {command: [powershell.exe, -Command, x]}}}`},
		{code: "WIN336", fail: `c: {image: mcr.microsoft.com/windows/servercore}`},
		{code: "WIN336", fail: `c: {image: 'mcr.microsoft.com/windows/servercore/iis:latest'}`,
			pass: `c: {image: 'example.com/shop:latest'}`},
		{code: "WIN337", fail: `c: {image: 'microsoft/iis:windowsservercore-ltsc2019'}`},
		{code: "WIN339", fail: `{}`, pass: `meta: {annotations: {sidecar.istio.io/inject: "false"}}`,
			facts: namespace(map[string]string{"istio-injection": "enabled"})},
		{code: "WIN339", fail: `meta: {labels: {sidecar.istio.io/inject: "true"}}`},
		{code: "WIN339", fail: `meta: {annotations: {dapr.io/enabled: "true"}}`},
		{code: "WIN339", fail: `meta: {annotations: {linkerd.io/inject: enabled}}`,
			pass: `meta: {annotations: {linkerd.io/inject: enabled, config.linkerd.io/proxy-image: ` +
				`ghcr.io/buoyantio/proxy-win}}`},
		{code: "WIN339", fail: `{}`, pass: `meta: {annotations: {linkerd.io/inject: windows}}`, facts: linkerd(nil)},
		{code: "WIN340", fail: `spec: {nodeSelector: {kubernetes.io/arch: arm64}}`,
			pass: `spec: {nodeSelector: {kubernetes.io/arch: amd64}}`},
		{code: "WIN361", fail: hpc(""), facts: namespace(map[string]string{policy.EnforceLevel: "baseline"})},
		{code: "WIN362", fail: `{}`, pass: `spec: {securityContext: {runAsNonRoot: true}}`,
			facts: namespace(map[string]string{policy.EnforceLevel: "restricted"})},
		{code: "WIN363", fail: `obj: {apiVersion: v1, kind: Namespace, metadata: {name: n, labels: ` +
			`{pod-security.kubernetes.io/enforce: restricted, pod-security.kubernetes.io/enforce-version: v1.24}}}`,
			pass: `obj: {apiVersion: v1, kind: Namespace, metadata: {name: n, labels: ` +
				`{pod-security.kubernetes.io/enforce: restricted, pod-security.kubernetes.io/enforce-version: ` +
				`v1.25}}}`},
		{code: "WIN364", fail: `spec: {os: null}`,
			facts: namespace(map[string]string{policy.EnforceLevel: "restricted"})},
		{code: "WIN401", fail: `obj: {apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d}, spec: {template: ` +
			`{spec: {containers: [{name: c, image: fluentd}]}}}}`,
			pass: `obj: {apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d}, spec: {template: {spec: ` +
				`{nodeSelector: {kubernetes.io/os: linux}, containers: [{name: c, image: fluentd}]}}}}`},
		{code: "WIN402", fail: `spec: {nodeSelector: null, tolerations: [{operator: Exists}]}`,
			pass: `spec: {tolerations: [{operator: Exists}]}`},
		{code: "WIN403", fail: `spec: {nodeSelector: null, tolerations: [{key: os, value: windows}]}`,
			pass: `spec: {tolerations: [{key: os, value: windows}]}`},
		{code: "WIN404", fail: `{}`, pass: `spec: {tolerations: [{key: os, value: windows, effect: NoSchedule}]}`,
			facts: tainted(cluster(20348), taint)},
		{code: "WIN405", fail: `spec: {tolerations: [{key: os, value: Windows}]}`,
			pass: `spec: {tolerations: [{key: os, value: windows}]}`, facts: tainted(cluster(20348), taint)},
		{code: "WIN407", fail: `{spec: {os: null, nodeSelector: null}, c: {image: x}}`, pass: `c: {image: x}`,
			facts: image("x", policy.Image{Index: true, Platforms: []policy.Platform{{OS: "linux"}, {OS: "windows"}}},
				policy.Facts{})},
		{code: "WIN409", fail: `{spec: {os: null, nodeSelector: null}, c: {image: nginx}}`,
			pass:  `{spec: {os: null, nodeSelector: {kubernetes.io/os: linux}}, c: {image: nginx}}`,
			facts: cluster(20348)},
		{code: "WIN411", fail: `spec: {nodeSelector: {node.kubernetes.io/windows-build: 10.0.17763}}`,
			pass: `spec: {nodeSelector: {node.kubernetes.io/windows-build: 10.0.20348}}`, facts: cluster(20348)},
		{code: "WIN412", fail: `c: {image: 'mcr.microsoft.com/windows/servercore:ltsc2019'}`,
			facts: cluster(20348, 26100)},
		{code: "WIN413", fail: `c: {image: 'mcr.microsoft.com/windows/nanoserver:1903'}`,
			pass: `c: {image: 'mcr.microsoft.com/windows/nanoserver:1809'}`},
		{code: "WIN414", fail: `{}`, pass: `spec: {nodeSelector: {kubernetes.azure.com/os-sku: Windows2022}}`,
			facts: cluster(17763, 20348, 26100)},
		{code: "WIN414", fail: `{}`, pass: `spec: {nodeSelector: {node.kubernetes.io/windows-build: 10.0.20348}}`,
			facts: cluster(17763, 20348, 26100)},
		{code: "WIN414", fail: `c: {image: 'mcr.microsoft.com/windows/servercore:ltsc2019'}`, pass: `c: {image: x}`,
			facts: cluster(17763, 20348)},
		{code: "WIN416", fail: `spec: {nodeSelector: null}`, facts: policy.Facts{Platform: "eks"}},
		{code: "WIN417", fail: `spec: {topologySpreadConstraints: [{nodeAffinityPolicy: Ignore}]}`,
			pass: `spec: {topologySpreadConstraints: [{nodeAffinityPolicy: Honor}]}`},
		{code: "WIN419", fail: `spec: {os: null}`},
		{code: "WIN420", fail: `spec: {nodeSelector: null}`},
		{code: "WIN421", fail: `{}`, pass: `{spec: {os: {name: linux}, nodeSelector: null}, c: {image: nginx}}`,
			facts: policy.Facts{Nodes: []policy.Node{{Name: "l", OS: "linux"}}}},
		{code: "WIN422", fail: `{spec: {os: null, nodeSelector: null}, c: {image: x, args: ['C:\run.cmd']}}`},
		{code: "WIN423", fail: `spec: {runtimeClassName: h}`, pass: `spec: {runtimeClassName: p}`, facts: policy.Facts{
			Nodes: []policy.Node{{Name: "w", OS: "windows", Build: winver.Build{Number: 20348},
				Handlers: []string{"runhcs-wcow-process"}}},
			RuntimeClasses: map[string]policy.RuntimeClass{"h": {Handler: "runhcs-wcow-hypervisor"},
				"p": {Handler: "runhcs-wcow-process"}},
		}},
		{code: "WIN424", fail: `spec: {nodeSelector: {kubernetes.io/os: Windows}}`},
		{code: "WIN424", fail: `spec: {nodeSelector: null, affinity: {nodeAffinity: {` +
			`requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [` +
			`{key: kubernetes.io/os, operator: In, values: [win]}]}]}}}}`},
		{code: "WIN425", fail: `spec: {nodeSelector: {pool: web}}`, pass: `spec: {nodeSelector: {pool: blue}}`,
			facts: pools("blue", "green")},
		{code: "WIN425", fail: `spec: {nodeSelector: {pool: blue, zone: b}}`, pass: `spec: {nodeSelector: {zone: b}}`,
			facts: pools("blue", "green")},
		{code: "WIN425", fail: wants(`{key: pool, operator: NotIn, values: [blue, green]}`),
			pass: wants(`{key: pool, operator: Exists}`), facts: pools("blue", "green")},
		{code: "WIN426", fail: `spec: {nodeSelector: {node.kubernetes.io/windows-build: "20348"}}`,
			pass: `spec: {nodeSelector: {node.kubernetes.io/windows-build: 10.0.29999}}`},
		{code: "WIN426", fail: `spec: {nodeSelector: {node.kubernetes.io/windows-build: ltsc2022}}`},
		{code: "WIN504", fail: option("gmsaCredentialSpecName: g, runAsUserName: ContainerUser"),
			pass: option(`gmsaCredentialSpecName: g, runAsUserName: 'NT AUTHORITY\NETWORK SERVICE'`)},
		{code: "WIN506", fail: `obj: {apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: ` +
			`2, template: {spec: {hostname: h, securityContext: {windowsOptions: {gmsaCredentialSpecName: g}}, ` +
			`containers: [{name: c, image: x}]}}}}`},
		{code: "WIN507", fail: `obj: {apiVersion: windows.k8s.io/v1, kind: GMSACredentialSpec, metadata: {name: g}, ` +
			`credspec: {}}`, pass: `obj: {apiVersion: windows.k8s.io/v1, kind: GMSACredentialSpec, metadata: {name: ` +
			`g}, credspec: {CmsPlugins: [ActiveDirectory], DomainJoinConfig: {DnsName: a.test, DnsTreeName: a.test, ` +
			`MachineAccountName: w, Sid: S-1-5-21-1-2-3}, ActiveDirectoryConfig: {GroupManagedServiceAccounts: ` +
			`[{Name: w, Scope: a.test}, {Name: w, Scope: A}]}}}`},
		{code: "WIN509", fail: option(`gmsaCredentialSpec: "{}"`),
			pass: option(`gmsaCredentialSpecName: g, gmsaCredentialSpec: "{}"`)},
		{code: "WIN510", fail: `spec: {initContainers: [{name: i, image: x, securityContext: {windowsOptions: ` +
			`{gmsaCredentialSpecName: g}}}]}`, pass: option("gmsaCredentialSpecName: g")},
		{code: "WIN511",
			fail: `obj: {apiVersion: windows.k8s.io/v1alpha1, kind: GMSACredentialSpec, metadata: {name: g}}`,
			pass: `obj: {apiVersion: windows.k8s.io/v1, kind: GMSACredentialSpec, metadata: {name: g}}`},
		{code: "WIN513", fail: `spec: {hostNetwork: true, securityContext: {windowsOptions: {hostProcess: true, ` +
			`gmsaCredentialSpecName: g}}}`, pass: hpc("")},
		{code: "WIN524", fail: `spec: {hostNetwork: true, securityContext: {windowsOptions: {hostProcess: true, ` +
			`runAsUserName: 'NT AUTHORITY\SYSTEM'}}}`, pass: hpc("")},
		{code: "WIN533", fail: `spec: {hostNetwork: true, containers: [{name: c, image: x, securityContext: ` +
			`{windowsOptions: {hostProcess: true}}}]}`, pass: hpc(""), facts: policy.Facts{Kubernetes: 24}},
		{code: "WIN602", fail: service("sessionAffinity: ClientIP", ""), pass: service("sessionAffinity: None", ""),
			facts: backend(cluster(17763))},
		{code: "WIN603", fail: service("sessionAffinityConfig: {clientIP: {timeoutSeconds: 60}}", ""),
			pass:  service("sessionAffinityConfig: {clientIP: {timeoutSeconds: 10800}}", ""),
			facts: backend(policy.Facts{})},
		{code: "WIN604", fail: service("", `preserve-destination: "True"`),
			pass: service("", `preserve-destination: "true"`)},
		{code: "WIN605", fail: service("externalTrafficPolicy: Local", ""),
			pass:  service("externalTrafficPolicy: Cluster", ""),
			facts: backend(policy.Facts{Nodes: []policy.Node{{OS: "windows", NoDSR: true}}})},
		{code: "WIN606", fail: service("internalTrafficPolicy: Local", ""),
			pass: service("internalTrafficPolicy: Cluster", ""), facts: backend(policy.Facts{Kubernetes: 23})},
		{code: "WIN612", fail: service("loadBalancerSourceRanges: [10.0.0.0/8]", ""), pass: service("", ""),
			facts: backend(policy.Facts{})},
		{code: "WIN613", fail: service("trafficDistribution: PreferClose", ""), pass: service("", ""),
			facts: backend(policy.Facts{})},
		{code: "WIN616", fail: service("ports: [{port: 1, protocol: SCTP}]", ""),
			pass: service("ports: [{port: 1, protocol: TCP}]", ""), facts: backend(policy.Facts{})},
		{code: "WIN618", fail: service("externalIPs: [192.0.2.1]", ""), pass: service("", ""),
			facts: backend(policy.Facts{})},
		{code: "WIN620", fail: service("ipFamilyPolicy: RequireDualStack", ""),
			pass: service("ipFamilyPolicy: SingleStack", ""), facts: backend(policy.Facts{})},
		{code: "WIN621", fail: service("ipFamilies: [IPv6]", ""), pass: service("ipFamilies: [IPv4]", ""),
			facts: backend(policy.Facts{})},
		{code: "WIN622", fail: service("", "winProxyOptimization: off please"),
			pass: service("", "winProxyOptimization: Disabled")},
		{code: "WIN634", fail: `c: {env: [{name: A, value: "http://db.prod.svc:80"}]}`,
			pass: `c: {env: [{name: A, value: "http://db.prod.svc.cluster.local:80"}]}`},
		{code: "WIN634", fail: `c: {env: [{name: A, value: "http://db.prod/x"}]}`,
			pass: `c: {env: [{name: A, value: "http://db.test/x"}]}`, facts: namespaces("prod")},
		{code: "WIN634", fail: `c: {env: [{name: A, value: "db.prod:5432"}]}`,
			pass: `c: {env: [{name: A, value: db.prod}]}`, facts: namespaces("prod")},
		{code: "WIN636", fail: `obj: {apiVersion: v1, kind: ConfigMap, metadata: {name: kube-flannel-cfg}, data: ` +
			`{net-conf.json: '{"Backend": {"Type": "vxlan"}}'}}`,
			pass: `obj: {apiVersion: v1, kind: ConfigMap, metadata: {name: kube-flannel-cfg}, data: {net-conf.json: ` +
				`'{"Backend": {"Type": "vxlan", "VNI": 4096, "Port": 4789}}'}}`, facts: backend(policy.Facts{})},
		{code: "WIN642", fail: "obj: {apiVersion: v1, kind: ConfigMap, metadata: {name: kube-proxy-windows}, data: " +
			"{config.conf: 'mode: userspace'}}", pass: "obj: {apiVersion: v1, kind: ConfigMap, metadata: {name: " +
			"kube-proxy-windows}, data: {config.conf: 'mode: \"\"'}}"},
		{code: "WIN701",
			fail: `spec: {containers: [{name: a, image: 'mcr.microsoft.com/windows/nanoserver:ltsc2019'}, {name: b, ` +
				`image: 'mcr.microsoft.com/windows/nanoserver:ltsc2022'}]}`,
			pass: `spec: {containers: [{name: a, image: 'mcr.microsoft.com/windows/nanoserver:ltsc2025'}, {name: b, ` +
				`image: 'mcr.microsoft.com/windows/nanoserver:ltsc2022'}]}`},
		{code: "WIN702", fail: `spec: {nodeSelector: {node.kubernetes.io/windows-build: 10.0.17763}}`,
			pass: `spec: {nodeSelector: {node.kubernetes.io/windows-build: 10.0.26100}}`},
		{code: "WIN702", fail: `spec: {nodeSelector: {kubernetes.azure.com/os-sku: Windows2019}}`,
			pass: `spec: {nodeSelector: {cloud.google.com/gke-windows-os-version: "2022"}}`},
		{code: "WIN703", fail: `{}`, facts: containerd("1.7.5", cluster(26100)),
			pass: `c: {image: 'mcr.microsoft.com/windows/servercore:ltsc2025'}`},
		{code: "WIN704", fail: `obj: {apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: r}, handler: ` +
			`runhcs-wcow-hypervisor}`, pass: `obj: {apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: ` +
			`r}, handler: runhcs-wcow-process}`},
		{code: "WIN234", fail: `c: {workingDir: 'D:\app'}`, pass: `c: {workingDir: 'C:\app'}`},
		{code: "WIN234", fail: `c: {terminationMessagePath: 'd:/log'}`, pass: `c: {terminationMessagePath: /dev/log}`},
		{code: "WIN234", fail: `c: {volumeMounts: [{name: v, mountPath: '\\server\share'}]}`,
			pass: `c: {volumeMounts: [{name: v, mountPath: '\\.\pipe\x'}]}`},
		{code: "WIN234", fail: volume(`hostPath: {path: 'D:\logs'}`), pass: volume(`hostPath: {path: 'c:\logs'}`)},
		{code: "WIN235", fail: `c: {volumeMounts: [{name: v, mountPath: 'c:\windows\System32\'}]}`,
			pass: `c: {volumeMounts: [{name: v, mountPath: 'C:\Windows\Temp'}]}`},
		{code: "WIN236", fail: volume("secret: {secretName: s}"), pass: volume("secret: {secretName: known}"),
			facts: empty()},
		{code: "WIN236", fail: volume("configMap: {name: s}"), pass: volume("configMap: {name: s, optional: true}"),
			facts: empty()},
		{code: "WIN236", fail: volume("persistentVolumeClaim: {claimName: s}"), facts: empty()},
		{code: "WIN236", fail: volume("projected: {sources: [{configMap: {name: s}}]}"),
			pass: volume("projected: {sources: [{configMap: {name: kube-root-ca.crt}}]}"), facts: empty()},
		{code: "WIN236", fail: `c: {envFrom: [{secretRef: {name: s}}]}`,
			pass:  `c: {envFrom: [{secretRef: {name: '${S}'}}]}`,
			facts: empty()},
		{code: "WIN236", fail: `c: {env: [{name: A, valueFrom: {configMapKeyRef: {name: s, key: k}}}]}`,
			facts: empty()},
		{code: "WIN237", fail: `c: {env: [{name: A, valueFrom: {configMapKeyRef: {name: s, key: k}}}]}`,
			pass: `c: {env: [{name: A, valueFrom: {configMapKeyRef: {name: s, key: known}}}]}`, facts: sources()},
		{code: "WIN237", fail: `c: {env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: known}}}]}`,
			pass:  `c: {env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: known, optional: true}}}]}`,
			facts: sources()},
		{code: "WIN237", fail: volume("configMap: {name: s, items: [{key: k, path: k}]}"),
			pass: volume("configMap: {name: s, items: [{key: known, path: k}]}"), facts: sources()},
		{code: "WIN237", fail: volume("secret: {secretName: s, items: [{key: k, path: k}]}"),
			pass: volume("secret: {secretName: filled, items: [{key: k, path: k}]}"), facts: sources()},
		{code: "WIN237", fail: volume("projected: {sources: [{secret: {name: s, items: [{key: k, path: k}]}}]}"),
			pass:  volume("projected: {sources: [{secret: {name: elsewhere, items: [{key: k, path: k}]}}]}"),
			facts: sources()},
		{code: "WIN623", fail: service("ports: [{port: 80, targetPort: web}]", ""),
			pass: service("ports: [{port: 80, targetPort: http}]", ""), facts: backend(policy.Facts{})},
		{code: "WIN623", fail: service("ports: [{port: 80, targetPort: web}]", ""),
			pass: service("ports: [{port: 80, targetPort: 8080}]", ""), facts: backend(policy.Facts{})},
		{code: "WIN812", fail: `obj: {apiVersion: v1, kind: Secret, metadata: {name: m, namespace: shop}}`,
			pass: `obj: {apiVersion: v1, kind: Secret, metadata: {name: m, namespace: known}}`, facts: empty()},
		{code: "WIN812", fail: `obj: {apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: shop}}`,
			pass: `obj: {apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: '${NS}'}}`, facts: empty()},
		{code: "WIN810", fail: `spec: {serviceAccountName: a}`, pass: `spec: {serviceAccountName: default}`,
			facts: empty()},
		{code: "WIN810", fail: `spec: {serviceAccount: a}`, pass: `spec: {serviceAccountName: known}`, facts: empty()},
		{code: "WIN811", fail: `spec: {priorityClassName: a}`, pass: `spec: {priorityClassName: known}`,
			facts: empty()},
		{code: "WIN753", fail: `c: {image: 'ghcr.io/kubernetes-sigs/sig-windows/csi-proxy:v1.1.2'}`,
			pass: `c: {image: 'ghcr.io/kubernetes-sigs/sig-windows/csi-proxy:v1.1.3'}`},
	}
	return out
}

// empty is a cluster with one object of each kind that pods refer to.
func empty() policy.Facts {
	known := policy.Known{}
	for _, kind := range []string{"Namespace", "ServiceAccount", "PriorityClass", "ConfigMap", "Secret",
		"PersistentVolumeClaim"} {
		known[kind] = map[string][]string{}
		known.Add(kind, "", "known")
	}
	return policy.Facts{Objects: known}
}

// pools are facts about Windows nodes of pools, in a zone each: a, b, ….
func pools(names ...string) policy.Facts {
	var f policy.Facts
	for i, name := range names {
		f.Nodes = append(f.Nodes, policy.Node{
			Name:   name,
			OS:     "windows",
			Build:  winver.Build{Number: 20348},
			Labels: map[string]string{"kubernetes.io/os": "windows", "pool": name, "zone": string(rune('a' + i))},
		})
	}
	return f
}

// wants is a pod with a required node affinity.
func wants(expression string) string {
	return `spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: ` +
		`[{matchExpressions: [` + expression + `]}]}}}}`
}
