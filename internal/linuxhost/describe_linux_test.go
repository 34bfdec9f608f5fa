// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	proxyv1 "k8s.io/kube-proxy/config/v1alpha1"
	kubeletv1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/cgroup"
	"github.com/mullion-k8s/mullion/internal/controlplane/config/ipv6"
	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/testenv"
)

// machines are the three ways in which distributions mount cgroups.
func machines() map[string]cgroup.Hierarchies {
	v1 := []cgroup.Hierarchy{{Dir: "memory", Options: "memory"}, {Dir: "cpu,cpuacct", Options: "cpu,cpuacct"},
		{Dir: "devices", Options: "devices"}, {Dir: "systemd", Options: "none,name=systemd"}}
	return map[string]cgroup.Hierarchies{
		"v1":     {List: v1},
		"hybrid": {List: append(slices.Clone(v1), cgroup.Hierarchy{Dir: "unified"})},
		"v2":     {Unified: true, List: []cgroup.Hierarchy{{Dir: "."}}},
	}
}

func TestMounts(t *testing.T) {
	for name, hs := range machines() {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			for _, m := range describeRoot(testConfig("/x"), hs) {
				fmt.Fprintf(&b, "%s on %s", m.Source, m.Target)
				if m.Type != "" {
					fmt.Fprintf(&b, " type %s flags %#x %s", m.Type, m.Flags, m.Data)
				}
				for what, is := range map[string]bool{" read-only": m.ReadOnly, " alone": m.Alone} {
					if is {
						b.WriteString(what)
					}
				}
				b.WriteString("\n")
			}
			b.WriteString("-- in the end --\n")
			for _, s := range describeSettled() {
				fmt.Fprintf(&b, "%s bind %v flags %#x\n", s.path, s.bind, s.flags)
			}
			testenv.Golden(t, "mounts-"+name+".txt", []byte(b.String()))
		})
	}
}

// TestOnlyTheHostsDirectoryIsWritable reads the description: whatever is of the
// machine is read-only, but for devices and the host's own directory.
func TestOnlyTheHostsDirectoryIsWritable(t *testing.T) {
	c := testConfig("/x")
	for _, m := range describeRoot(c, machines()["v2"]) {
		if m.Type != "" || m.ReadOnly || strings.HasPrefix(m.Target, "/dev/") {
			continue
		}
		if m.Source != c.Dir && !strings.HasPrefix(m.Source, c.Dir+"/") {
			t.Errorf("%s is bound writable to %s", m.Source, m.Target)
		}
	}
}

// describeAll is everything that the host's programs read, and how they are called.
func describeAll(t *testing.T) (map[string]file, string) {
	t.Helper()
	c := testConfig("/x")
	files, err := describeFiles(boot{
		Config: c, Boot: host.Boot{CA: []byte("CA\n"), Token: "abcdef.0123456789abcdef"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range etcFiles(c) {
		files[name] = file{[]byte(content), 0o644}
	}
	var b strings.Builder
	for _, argv := range [][]string{kubeletArgv(c), proxyArgv(), environment()} {
		fmt.Fprintf(&b, "%s\n", strings.Join(argv, "\n  "))
	}
	fmt.Fprintf(&b, "-- nft --\n%s", rules(c))
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&b, "-- %s %o --\n%s\n", name, files[name].mode, bytes.TrimSpace(files[name].content))
	}
	return files, b.String()
}

func TestDescribe(t *testing.T) {
	_, text := describeAll(t)
	testenv.Golden(t, "files.txt", []byte(text))
}

// TestUpstreamKnowsEveryField decodes what we write with upstream's types.
func TestUpstreamKnowsEveryField(t *testing.T) {
	files, _ := describeAll(t)
	var kubelet kubeletv1.KubeletConfiguration
	if err := yaml.UnmarshalStrict(files[kubeletConfig].content, &kubelet); err != nil {
		t.Error(err)
	}
	if kubelet.FailCgroupV1 == nil || *kubelet.FailCgroupV1 || kubelet.FailSwapOn == nil || *kubelet.FailSwapOn {
		t.Error("the kubelet would not start on a machine with cgroup v1 or swap")
	}
	var proxy proxyv1.KubeProxyConfiguration
	if err := yaml.UnmarshalStrict(files[proxyConfig].content, &proxy); err != nil {
		t.Error(err)
	}
	if c := proxy.Conntrack; c.MaxPerCore == nil || *c.MaxPerCore != 0 || c.Min == nil || *c.Min != 0 ||
		c.TCPEstablishedTimeout == nil || c.TCPEstablishedTimeout.Duration != 0 {
		t.Errorf("kube-proxy would change the machine's limits: %+v", c)
	}
}

// TestSecretsArePrivate: a pod that sees the host's files as another user must not
// read an identity.
func TestSecretsArePrivate(t *testing.T) {
	files, _ := describeAll(t)
	for _, name := range []string{bootstrapKubeconfig, nodeKubeconfig} {
		if files[name].mode != 0o600 {
			t.Errorf("%s has mode %o", name, files[name].mode)
		}
	}
}

// networks are testConfig with each network, as the first worker of a cluster has it.
func networks() []Config {
	var list []Config
	for _, mode := range []agent.NetworkMode{agent.L2Bridge, agent.HostGateway, agent.VXLAN} {
		c := testConfig("/x")
		c.Network, c.PodGateway = mode, mode == agent.VXLAN
		list = append(list, c)
	}
	dual := testConfig("/x")
	dual.IPv6Address = netip.MustParsePrefix("fd00:10:89::110/64")
	dual.IPv6 = ipv6.Plan{
		NodeCIDR:    netip.MustParsePrefix("fd00:10:89::/64"),
		PodCIDR:     netip.MustParsePrefix("fd00:10:244::/48"),
		ServiceCIDR: netip.MustParsePrefix("fd00:10:96::/112"),
	}
	return append(list, dual)
}

// TestNetworks shows what differs between the networks.
func TestNetworks(t *testing.T) {
	for _, c := range networks() {
		name, pods := string(c.Network), []netip.Prefix{netip.MustParsePrefix("10.244.3.0/24")}
		if c.dual() {
			name, pods = "dual", append(pods, netip.MustParsePrefix("fd00:10:244:3::/64"))
		}
		t.Run(name, func(t *testing.T) {
			conf, err := json.MarshalIndent(describeCNI(c, pods), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			files, err := describeFiles(boot{Config: c})
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			fmt.Fprintf(&b, "-- routes of %s to this node: %v --\n", router(c),
				append(pods, gatewayRanges(c)...))
			fmt.Fprintf(&b, "-- %s --\n%s\n", cniConfFile, conf)
			if c.Network.Flannel() {
				fmt.Fprintf(&b, "-- %s --\n%s\n", flannelNetConf, files[flannelNetConf].content)
				fmt.Fprintf(&b, "%s\n", strings.Join(flannelArgv(c), "\n  "))
			}
			if c.dual() {
				fmt.Fprintf(&b, "%s\n", strings.Join(kubeletArgv(c), "\n  "))
				fmt.Fprintf(&b, "-- %s --\n%s\n", proxyConfig, files[proxyConfig].content)
				fmt.Fprintf(&b, "-- settings --\n%v\n", ownSettings(true))
			}
			fmt.Fprintf(&b, "-- nft --\n%s", rules(c))
			testenv.Golden(t, "network-"+name+".txt", []byte(b.String()))
		})
	}
}

// TestRulesLoad: nft takes the rules of each network.
func TestRulesLoad(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Nft)
	for _, c := range networks() {
		cmd := exec.CommandContext(t.Context(), "nft", "--check", "-f", "-")
		cmd.Stdin = strings.NewReader(rules(c))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", c.Network, err, out)
		}
	}
}

// TestSettingsAreInTheWay: each setting that the kubelet would write is covered by a
// file, and none of the host's own is the machine's.
func TestSettingsAreInTheWay(t *testing.T) {
	c := testConfig("/x")
	for _, s := range machineSettings() {
		if !slices.ContainsFunc(describeRoot(c, machines()["v1"]), func(m host.Mount) bool {
			return m.Target == "/proc/sys/"+s.name && strings.HasPrefix(m.Source, c.Dir)
		}) {
			t.Errorf("%s is the machine's", s.name)
		}
	}
	for _, s := range slices.Concat(ownSettings(false), ownSettings(true)) {
		if !strings.HasPrefix(s.name, "net/") {
			t.Errorf("%s is not a setting of the network namespace", s.name)
		}
	}
}
