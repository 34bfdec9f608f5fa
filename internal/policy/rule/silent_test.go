// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package rule

import (
	"testing"

	"github.com/mullion-k8s/mullion/internal/policy"
	"github.com/mullion-k8s/mullion/internal/policy/policytest"
)

// linuxDaemonSet runs on all nodes.
const linuxDaemonSet = `obj: {apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d}, spec: {template: {spec: ` +
	`{tolerations: [{operator: Exists}], containers: [{name: c, image: fluentd}]}}}}`

// TestHarmless has objects that run, or run in another way than written, and were
// once reported too loudly: the worst finding of the rule has the severity most.
func TestHarmless(t *testing.T) {
	mixed := cluster(17763, 20348)
	mixed.Nodes = append(mixed.Nodes, policy.Node{Name: "l", OS: "linux"})
	const linuxService = `ports: [{port: 1, protocol: SCTP}], sessionAffinity: ClientIP, ipFamilyPolicy: ` +
		`PreferDualStack, ` +
		`loadBalancerSourceRanges: [10.0.0.0/8], trafficDistribution: PreferClose, ` +
		`sessionAffinityConfig: {clientIP: {timeoutSeconds: 60}}`
	for _, tt := range []struct {
		name, code, object string
		facts              policy.Facts
		most               policy.Severity
	}{
		{name: "Service without a sign of Windows", code: "WIN6", object: service(linuxService, ""), most: policy.None},
		{name: "Service on a mixed cluster", code: "WIN6", object: service(linuxService, ""), facts: mixed,
			most: policy.Info},
		{name: "Service of Windows pods", code: "WIN6", object: service(linuxService, ""),
			facts: backend(policy.Facts{}), most: policy.Warning},
		{name: "Service in another namespace", code: "WIN6",
			object: `obj: {apiVersion: v1, kind: Service, metadata: {name: s, namespace: a}, spec: {selector: {app: ` +
				`w}, ` +
				`sessionAffinityConfig: {clientIP: {timeoutSeconds: 60}}}}`,
			facts: policy.Facts{Related: policy.Related{}.With(
				[]policy.Workload{{Namespace: "b", Labels: []policy.Label{{Name: "app", Value: "w"}}}}, nil)},
			most: policy.None},
		{name: "flannel without Windows", code: "WIN636",
			object: `obj: {apiVersion: v1, kind: ConfigMap, metadata: {name: kube-flannel-cfg}, data: ` +
				`{net-conf.json: '{"Backend": {"Type": "vxlan"}}'}}`, most: policy.None},
		{name: "Linkerd", code: "WIN339", object: `meta: {annotations: {linkerd.io/inject: enabled}}`,
			most: policy.Warning},
		{name: "Linkerd for Windows", code: "WIN339", object: `meta: {annotations: {linkerd.io/inject: windows}}`,
			most: policy.None},
		{name: "Linkerd switched off by annotation", code: "WIN339",
			object: `meta: {annotations: {linkerd.io/inject: disabled}}`, facts: linkerd(nil), most: policy.None},
		{name: "Linkerd of the namespace for Windows", code: "WIN339", object: `{}`,
			facts: linkerd(map[string]string{"config.linkerd.io/proxy-image": "example.com/proxy-win"}),
			most:  policy.None},
		{name: "Istio switched off by label", code: "WIN339",
			object: `meta: {labels: {sidecar.istio.io/inject: "false"}}`,
			facts:  namespace(map[string]string{"istio-injection": "enabled"}), most: policy.None},
		{name: "Istio switched off by namespace", code: "WIN339", object: `{}`,
			facts: namespace(map[string]string{"istio-injection": "disabled", "istio.io/rev": "x"}), most: policy.None},
		{name: "iis has latest", code: "WIN336",
			object: `c: {image: 'mcr.microsoft.com/windows/servercore/iis:latest'}`,
			most:   policy.Info},
		{name: "an index of several systems", code: "WIN336", object: `c: {image: 'example.com/agent:latest'}`,
			most: policy.None},
		{name: "a placeholder", code: "WIN336", object: `c: {image: '${IMAGE}'}`, most: policy.None},
		{name: "a name that kustomize replaces", code: "WIN336", object: `c: {image: app}`, most: policy.None},
		{name: "privileged on a HostProcess container", code: "WIN021",
			object: `{spec: {os: null, hostNetwork: true, securityContext: {windowsOptions: {hostProcess: true, ` +
				`runAsUserName: 'NT AUTHORITY\SYSTEM'}}}, c: {securityContext: {privileged: true}}}`,
			most: policy.Info},
		{name: "privileged without os.name", code: "WIN021",
			object: `{spec: {os: null}, c: {securityContext: {privileged: true}}}`, most: policy.Warning},
		{name: "a path that is created", code: "WIN327",
			object: volume("hostPath: {path: /var/run/docker.sock, type: DirectoryOrCreate}"), most: policy.Warning},
		{name: "a path without a type", code: "WIN327", object: volume("hostPath: {path: /var/run/docker.sock}"),
			most: policy.Warning},
		{name: "ext4", code: "WIN228", object: volume("csi: {driver: d, fsType: ext4}"), most: policy.Warning},
		{name: "host network", code: "WIN301", object: `spec: {hostNetwork: true}`, most: policy.Warning},
		{name: "os-sku of the image's build", code: "WIN414",
			object: `spec: {nodeSelector: {kubernetes.io/os: windows, kubernetes.azure.com/os-sku: Windows2022}}`,
			facts:  cluster(17763, 20348), most: policy.None},
		{name: "host port of a HostProcess container", code: "WIN229",
			object: `{spec: {hostNetwork: true, securityContext: {windowsOptions: {hostProcess: true, ` +
				`runAsUserName: 'NT AUTHORITY\SYSTEM'}}}, c: {ports: [{containerPort: 80, hostPort: 80}]}}`,
			most: policy.None},
		{name: "an old image that no node runs", code: "WIN413",
			object: `c: {image: 'mcr.microsoft.com/windows/nanoserver:1903'}`, facts: cluster(20348),
			most: policy.None},
		{name: "DaemonSet without a sign of Windows", code: "WIN401", object: linuxDaemonSet, most: policy.Info},
		{name: "DaemonSet in a cluster with Windows", code: "WIN401", object: linuxDaemonSet, facts: cluster(20348),
			most: policy.Warning},
		{name: "DaemonSet that tolerates everything", code: "WIN402", object: linuxDaemonSet, facts: cluster(20348),
			most: policy.None},
		{name: "HostProcess with the host's PowerShell", code: "WIN227",
			object: `{spec: {hostNetwork: true, securityContext: {windowsOptions: {hostProcess: true, ` +
				`runAsUserName: 'NT AUTHORITY\SYSTEM'}}}, c: {command: [powershell], image: ` +
				`'mcr.microsoft.com/powershell:lts-nanoserver-1809'}}`, most: policy.None},
		{name: "working folder below the sandbox of a HostProcess container", code: "WIN233",
			object: `{spec: {hostNetwork: true, securityContext: {windowsOptions: {hostProcess: true, ` +
				`runAsUserName: 'NT AUTHORITY\SYSTEM'}}}, c: {workingDir: '$env:CONTAINER_SANDBOX_MOUNT_POINT/app/'}}`,
			most: policy.None},
		{name: "working folder with a variable", code: "WIN233", object: `c: {workingDir: '$env:TEMP/app/'}`,
			most: policy.Warning},
		{name: "a tool of Linux that cmd is to run", code: "WIN227", object: `c: {command: [cmd, /c, sleep 5]}`,
			most: policy.Warning},
		{name: "words of Windows in a tag", code: "WIN221", object: `c: {image: 'example.com/a:linux-and-windows'}`,
			most: policy.None},
		{name: "PowerShell on Nano Server", code: "WIN227",
			object: `c: {command: [powershell], image: 'mcr.microsoft.com/powershell:lts-nanoserver-1809'}`,
			most:   policy.Warning},
		{name: "tolerates everything without a sign of Windows", code: "WIN402",
			object: `{spec: {os: null, nodeSelector: null, tolerations: [{operator: Exists}]}, c: {image: nginx}}`,
			most:   policy.Info},
		{name: "tolerates everything and selects", code: "WIN402", object: `spec: {tolerations: [{operator: Exists}]}`,
			most: policy.None},
		{name: "busybox for Windows has a shell", code: "WIN227",
			object: `c: {image: 'example.com/busybox:1', command: [sh, -c, ls]}`, most: policy.None},
		{name: "a volume may bring the program", code: "WIN227",
			object: `c: {command: [/bin/sh], volumeMounts: [{name: v, mountPath: 'C:\bin'}]}`, most: policy.Warning},
	} {
		t.Run(tt.name, func(t *testing.T) {
			worst := policy.None
			for _, f := range Check(policytest.Tweak(t, tt.object), tt.facts) {
				if len(f.Code) >= len(tt.code) && f.Code[:len(tt.code)] == tt.code {
					worst = max(worst, f.Severity)
				}
			}
			if worst != tt.most {
				t.Errorf("%s is of severity %v, want %v", tt.code, worst, tt.most)
			}
		})
	}
}

// TestOneFindingPerPod: however many containers lack a limit, the pod is reported
// once.
func TestOneFindingPerPod(t *testing.T) {
	pod := policytest.Tweak(t, `spec: {containers: [{name: a, image: x}, {name: b, image: y}, {name: c, image: z, `+
		`resources: {limits: {memory: 1Gi}}}]}`)
	var got []string
	for _, f := range Check(pod, policy.Facts{}) {
		if f.Code == "WIN312" {
			got = append(got, f.Message)
		}
	}
	if len(got) != 1 || got[0] != "2 of 3 containers have no memory limit: a, b" {
		t.Errorf("%q", got)
	}
}
