// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strings"

	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/nodeapi"
)

// Flannel's values for Windows: other VNIs below 4096 and other ports end flanneld.exe
// (flannel v0.28.10, pkg/backend/vxlan/vxlan_windows.go).
const (
	FlannelVNI  = 4096
	FlannelPort = 4789
)

// netConf is flannel's net-conf.json.
type netConf struct {
	Network string
	Backend netConfBackend
}

type netConfBackend struct {
	Type NetworkMode
	Name string `json:",omitempty"`
	VNI  int    `json:",omitempty"`
	Port int    `json:",omitempty"`
}

// NetConf returns flannel's configuration for the pods of a cluster, the same on
// Windows and on Linux: flannel's defaults for Linux differ.
func NetConf(mode NetworkMode, network string, pods netip.Prefix) ([]byte, error) {
	n := netConf{Network: pods.String(), Backend: netConfBackend{Type: mode, Name: network}}
	if mode == VXLAN {
		n.Backend.VNI, n.Backend.Port = FlannelVNI, FlannelPort
	}
	content, err := json.MarshalIndent(n, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("make net-conf.json: %w", err)
	}
	return append(content, '\n'), nil
}

// describeFlannel returns flanneld as a service. flanneld has the node's identity, like kube-proxy; with
// it, it can only change its node's annotations, while upstream's manifest lets each flanneld change the
// annotations of all nodes.
//
// flanneld takes its lease when it starts, so it starts again when the node has another range, or is
// another object with the same name.
func describeFlannel(c Config, ca []byte, n nodeapi.Node) (program, error) {
	conf, err := NetConf(c.Network.Mode, c.Network.Name, c.Cluster.PodCIDR)
	if err != nil {
		return program{}, err
	}
	credentials, err := yamlFile(flannelKubeconfig, nodeKubeconfig(c, ca))
	if err != nil {
		return program{}, err
	}
	argv := []string{
		flannelExe,
		"--kube-subnet-mgr",
		"--kubeconfig-file=" + flannelKubeconfig,
		"--iface=" + c.Node.Address.String(),
		"--ip-masq",
		"--net-config-path=" + flannelNetConf,
		"--subnet-file=" + flannelSubnetFile,
	}
	p := program{
		Service: service("flanneld", "flannel", "Connects the pods of this node with those of other nodes.", flannelLog,
			argv),
		Files: []file{{flannelNetConf, conf}, credentials},
		Epoch: n.UID + " " + n.PodCIDR.String(),
	}
	// flanneld is not a service itself, and takes its node's name from the environment only.
	p.Service.Argv = append([]string{agentExe, "service", "--log", flannelLog, "--as", p.Service.Name,
		"--env", "NODE_NAME=" + c.Node.Name, "--"}, argv...)
	return p, nil
}

// flannelReady returns nil once flanneld has made the network for the node's range and has written the file
// that its CNI plugin reads. Both may predate the node's range.
func flannelReady(ctx context.Context, h hnsClient, c Config, d Disk, podCIDR netip.Prefix) error {
	list, err := h.networks(ctx)
	if err != nil {
		return fmt.Errorf("list networks: %w", err)
	}
	want := schema.V1Network{
		Type:    string(schema.L2Bridge),
		Subnets: []schema.V1Subnet{{AddressPrefix: podCIDR.String()}},
	}
	if c.Network.Mode == VXLAN {
		want.Type = string(schema.Overlay)
	}
	found := false
	for _, n := range list {
		found = found || n.Name == c.Network.Name && fits(n, want)
	}
	if !found {
		return fmt.Errorf("waiting for flanneld to make the network %s for %s; its log is %s", c.Network.Name, podCIDR,
			flannelLog)
	}
	content, err := os.ReadFile(d.Path(flannelSubnetFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read what flanneld wrote: %w", err)
	}
	if got := FlannelSubnet(content); got != podCIDR.Masked() {
		return fmt.Errorf("waiting for flanneld to write %s for %s; its log is %s", flannelSubnetFile, podCIDR,
			flannelLog)
	}
	return nil
}

// FlannelSubnet returns the node's range from flannel's subnet.env, or the invalid prefix.
func FlannelSubnet(env []byte) netip.Prefix {
	lines := bufio.NewScanner(bytes.NewReader(env))
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), "FLANNEL_SUBNET="); ok {
			p, _ := netip.ParsePrefix(strings.TrimSpace(value)) // invalid means no address
			return p.Masked()
		}
	}
	return netip.Prefix{}
}

// flannelCNI is the configuration of flannel's CNI plugin (github.com/containernetworking/plugins v0.9.1,
// plugins/meta/flannel), which adds the name, the range and the IPAM to Delegate and runs it. It does not
// support CNI versions after 0.4.0.
type flannelCNI struct {
	CNIVersion   string          `json:"cniVersion"`
	Name         string          `json:"name"`
	Type         string          `json:"type"`
	SubnetFile   string          `json:"subnetFile"`
	DataDir      string          `json:"dataDir"`
	Capabilities map[string]bool `json:"capabilities"`
	Delegate     flannelDelegate `json:"delegate"`
}

type flannelDelegate struct {
	Type       string      `json:"type"`
	APIVersion int         `json:"apiVersion"`
	Policies   []cniPolicy `json:"policies"`
}

// describeFlannelCNI returns the configuration with the policies of flannel's own manifests for Windows
// (github.com/kubernetes-sigs/sig-windows-tools, hostprocess/flannel): in an overlay, nodes are outside.
func describeFlannelCNI(c Config) flannelCNI {
	f := flannelCNI{
		CNIVersion:   "0.4.0",
		Name:         c.Network.Name,
		Type:         "flannel",
		SubnetFile:   flannelSubnetFile,
		DataDir:      flannelDataDir,
		Capabilities: map[string]bool{"portMappings": true, "dns": true},
		Delegate:     flannelDelegate{Type: oneAddress, APIVersion: 2, Policies: cniPolicies(c, false)},
	}
	if c.Network.Mode == VXLAN {
		f.Delegate.Type = "win-overlay"
	}
	return f
}
