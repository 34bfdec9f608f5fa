// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	proxyv1 "k8s.io/kube-proxy/config/v1alpha1"
	kubeletv1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/nodeapi"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// describeAll is everything that the agent writes in a mode: its programs by the names of their services, and all of
// it as one text.
func describeAll(t *testing.T, mode NetworkMode) (map[string]program, string) {
	t.Helper()
	api := newFakeAPI(t, "node-1")
	c := testConfig()
	c.Cluster.CAHash = api.pin()
	c.Network = Network{Mode: mode, Name: mode.networkName()}
	d, err := describe(c, api.ca.PEM, "abcdef.0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	n := nodeapi.Node{UID: "5f0c", PodCIDR: netip.MustParsePrefix("10.244.3.0/24")}
	cni, err := cniFile(c, n.PodCIDRs(), nil)
	if err != nil {
		t.Fatal(err)
	}
	list := []program{d.Kubelet}
	sourceVIP := netip.Addr{}
	if mode == VXLAN {
		sourceVIP = netip.MustParseAddr("10.244.3.2")
	}
	if mode.Flannel() {
		flannel, err := describeFlannel(c, api.ca.PEM, n)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, flannel)
	}
	proxy, err := describeProxy(c, api.ca.PEM, sourceVIP, true)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	programs := map[string]program{}
	for _, p := range append(list, proxy) {
		programs[p.Service.Name] = p
		fmt.Fprintf(&b, "-- service %s --\n%s\n%s\n", p.Service.Name, p.Service.DisplayName,
			strings.Join(p.Service.Argv, "\n"))
		for _, f := range p.Files {
			fmt.Fprintf(&b, "-- %s --\n%s", f.Path, f.Content)
		}
	}
	for _, f := range []file{*d.Bootstrap, cni} {
		fmt.Fprintf(&b, "-- %s --\n%s", f.Path, f.Content)
	}
	text := b.String()
	// The CA is another one at each run.
	for line := range strings.Lines(text) {
		if key, _, ok := strings.Cut(line, "certificate-authority-data: "); ok {
			text = strings.ReplaceAll(text, line, key+"certificate-authority-data: CA\n")
		}
	}
	return programs, text
}

func TestDescribe(t *testing.T) {
	for _, mode := range networkModes() {
		t.Run(string(mode), func(t *testing.T) {
			_, text := describeAll(t, mode)
			testenv.Golden(t, "node-"+string(mode)+".txtar", []byte(text))
		})
	}
}

// TestUpstreamKnowsEveryField decodes what we write with upstream's types: a
// field that the kubelet does not know would be an error there.
func TestUpstreamKnowsEveryField(t *testing.T) {
	programs, _ := describeAll(t, VXLAN)
	var kubelet kubeletv1.KubeletConfiguration
	if err := yaml.UnmarshalStrict(programs["kubelet"].Files[0].Content, &kubelet); err != nil {
		t.Error(err)
	}
	if kubelet.ResolverConfig == nil || *kubelet.ResolverConfig != "" {
		t.Error("resolvConf is not the empty string: the kubelet would look for /etc/resolv.conf")
	}
	if kubelet.EnforceNodeAllocatable == nil || len(kubelet.EnforceNodeAllocatable) != 0 ||
		kubelet.CgroupsPerQOS == nil || *kubelet.CgroupsPerQOS {
		t.Error("the kubelet would want cgroups")
	}
	var proxy proxyv1.KubeProxyConfiguration
	if err := yaml.UnmarshalStrict(programs["kube-proxy"].Files[0].Content, &proxy); err != nil {
		t.Error(err)
	}
	if proxy.Winkernel.NetworkName != "flannel.4096" || proxy.Winkernel.SourceVip != "10.244.3.2" {
		t.Errorf("kube-proxy does not know its network and address: %+v", proxy.Winkernel)
	}
}

// TestKubeletSettings: what agent.json says about the kubelet arrives there, in fields
// that upstream knows.
func TestKubeletSettings(t *testing.T) {
	c := testConfig()
	c.Kubelet = Kubelet{
		SystemReserved:              map[string]string{"memory": "2Gi", "cpu": "500m"},
		KubeReserved:                map[string]string{"memory": "300Mi"},
		EvictionHard:                map[string]string{"imagefs.available": "1Gi"},
		ImageGCHighThresholdPercent: 100,
		ImageGCLowThresholdPercent:  70,
		ContainerLogMaxSize:         "5Mi",
		ContainerLogMaxFiles:        3,
		EvictionSoft:                map[string]string{"memory.available": "1Gi"},
		EvictionSoftGracePeriod:     map[string]string{"memory.available": "90s"},

		EvictionPressureTransitionPeriod: "30s",
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	content, err := yaml.Marshal(describeKubelet(c))
	if err != nil {
		t.Fatal(err)
	}
	var got kubeletv1.KubeletConfiguration
	if err := yaml.UnmarshalStrict(content, &got); err != nil {
		t.Fatal(err)
	}
	if got.SystemReserved["cpu"] != "500m" || got.KubeReserved["memory"] != "300Mi" ||
		got.EvictionHard["imagefs.available"] != "1Gi" || !*got.MergeDefaultEvictionSettings ||
		*got.ImageGCHighThresholdPercent != 100 || *got.ImageGCLowThresholdPercent != 70 ||
		got.EvictionSoft["memory.available"] != "1Gi" || got.EvictionSoftGracePeriod["memory.available"] != "90s" ||
		got.EvictionPressureTransitionPeriod.Seconds() != 30 || got.ContainerLogMaxSize != "5Mi" ||
		*got.ContainerLogMaxFiles != 3 {
		t.Errorf("%s", content)
	}
}

// TestBadKubeletSettings: the kubelet would not start with these.
func TestBadKubeletSettings(t *testing.T) {
	for want, k := range map[string]Kubelet{
		"kubelet.systemReserved: ram=2Gi":      {SystemReserved: map[string]string{"ram": "2Gi"}},
		"kubelet.kubeReserved: memory=lots":    {KubeReserved: map[string]string{"memory": "lots"}},
		"kubelet.systemReserved: memory=10%":   {SystemReserved: map[string]string{"memory": "10%"}},
		"kubelet.evictionHard: pid.available":  {EvictionHard: map[string]string{"pid.available": "10%"}},
		"kubelet.evictionHard: nodefs":         {EvictionHard: map[string]string{"nodefs.available": "101%"}},
		"memory.available has no evictionSoft": {EvictionSoft: map[string]string{"memory.available": "1Gi"}},
		"memory.available=1m: want a time": {
			EvictionSoftGracePeriod: map[string]string{"memory.available": "1m"},
		},
		`evictionPressureTransitionPeriod "0s"`: {EvictionPressureTransitionPeriod: "0s"},
		"removed above 60 % until 80 %":         {ImageGCHighThresholdPercent: 60},
		"removed above 120 % until 80 %":        {ImageGCHighThresholdPercent: 120},
		`kubelet.containerLogMaxSize "10 MB"`:   {ContainerLogMaxSize: "10 MB"},
		"kubelet.containerLogMaxFiles 1: want":  {ContainerLogMaxFiles: 1},
	} {
		c := testConfig()
		c.Kubelet = k
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestNoSecretInArguments: every user of a machine can read command lines.
func TestNoSecretInArguments(t *testing.T) {
	programs, _ := describeAll(t, VXLAN)
	for _, p := range programs {
		if strings.Contains(strings.Join(p.Service.Argv, " "), "0123456789abcdef") {
			t.Errorf("%s has the token in its arguments", p.Service.Name)
		}
	}
}

func TestDescribeRefuses(t *testing.T) {
	api, other := newFakeAPI(t, "node-1"), newFakeAPI(t, "node-1")
	c := testConfig()
	c.Cluster.CAHash = api.pin()
	for _, tt := range []struct{ name, ca, token, want string }{
		{"another CA", string(other.ca.PEM), "", "not the pinned one"},
		{"a second CA in the file", string(api.ca.PEM) + string(other.ca.PEM), "", "more than one"},
		{"no CA", "hello", "", "no PEM certificate"},
		{"half a CA", string(api.ca.PEM[:200]), "", "no PEM certificate"},
		{"a token of another form", string(api.ca.PEM), "hello", "want the form"},
		{"a token with YAML in it", string(api.ca.PEM), "abcdef.0123456789abcde\n", "want the form"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := describe(c, []byte(tt.ca), tt.token); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

const goodConfig = `{
  "apiVersion": "mullion/v1alpha1",
  "node": {"name": "node-1", "address": "10.89.0.11"},
  "cluster": {
    "server": "https://10.89.0.1:6443", "caFile": "C:\\ca.crt",
    "caHash": "sha256:0000000000000000000000000000000000000000000000000000000000000000",
    "domain": "cluster.local", "dns": ["10.96.0.10"], "podCIDR": "10.244.0.0/16", "serviceCIDR": "10.96.0.0/16"
  }
}`

func TestParse(t *testing.T) {
	c, err := durable.ParseDocument([]byte("\xef\xbb\xbf"+goodConfig), (*Config).complete)
	if err != nil {
		t.Fatal(err)
	}
	if c.Runtime.Endpoint != defaultEndpoint || c.Network.Name != "cbr0" {
		t.Errorf("defaults: %+v", c)
	}
	for _, tt := range []struct{ name, old, new, want string }{
		{"misspelt field", `"domain"`, `"domian"`, "domian"},
		{"something behind it", "\n  }\n}", "\n  }\n} {}", "more than one document"},
		{"another version", "v1alpha1", "v9", "this mullion reads"},
		{"a name with capitals", `"node-1"`, `"Node-1"`, "not a node name"},
		{"a loopback address", "10.89.0.11", "127.0.0.1", "cannot reach"},
		{"no address", `, "address": "10.89.0.11"`, "", "node.address is missing"},
		{"plain HTTP", "https://", "http://", "not an https URL"},
		{"no pin", `"sha256:0`, `"sha1:0`, "could pose as the cluster"},
		{"no DNS", `["10.96.0.10"]`, `[]`, "cluster.dns"},
		{"a taint without effect", `"name": "node-1"`, `"name": "node-1", "taints": ["a=b"]`, "key=value:Effect"},
		{"a label with a blank", `"name": "node-1"`, `"name": "node-1", "labels": {"a": "b c"}`, "is not a label"},
		{"a label that is a flag", `"name": "node-1"`, `"name": "node-1", "labels": {"a": "b,--v=9"}`,
			"is not a label"},
		{"an unknown network", `"cluster": {`, `"network": {"mode": "ipvlan"}, "cluster": {`, "network.mode"},
		{"an adapter for flanneld", `"cluster": {`, `"network": {"mode": "vxlan", "adapter": "x"}, "cluster": {`,
			"flanneld chooses it"},
		{"a network that is a path", `"cluster": {`, `"network": {"name": "..\\x"}, "cluster": {`, "network.name"},
		{"a Unix socket", `"cluster": {`, `"runtime": {"endpoint": "unix:///x"}, "cluster": {`, "runtime.endpoint"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := durable.ParseDocument([]byte(strings.Replace(goodConfig, tt.old, tt.new, 1)), (*Config).complete)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// FuzzParse: whatever is in agent.json, what comes out is fit for command lines
// and configuration files.
func FuzzParse(f *testing.F) {
	f.Add([]byte(goodConfig))
	f.Add(
		[]byte(strings.Replace(goodConfig, `"name": "node-1"`,
			`"name": "node-1", "taints": ["a=b:NoSchedule"], "labels": {"x.y/z": "1"}`, 1)))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		c, err := durable.ParseDocument(content, (*Config).complete)
		if err != nil {
			return
		}
		for _, arg := range kubeletArgv(c) {
			if strings.ContainsAny(arg, "\x00\n\"") {
				t.Errorf("argument %q", arg)
			}
		}
		for _, v := range []any{describeKubelet(c), describeProxyConfig(c, netip.Addr{}, true)} {
			if _, err := yamlFile("x", v); err != nil {
				t.Error(err)
			}
		}
	})
}
