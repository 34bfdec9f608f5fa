// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/mullion-k8s/mullion/internal/agent/componentconfig"
	"github.com/mullion-k8s/mullion/internal/durable/certpem"
	"github.com/mullion-k8s/mullion/internal/durable/kubeconfig"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/winsys/scm"
)

// file is a file that the agent keeps on the node.
type file struct {
	Path    string // on the node
	Content []byte
}

// desired is the desired state of the node, as far as it is known before the node
// has joined. It is a plain value; Agent.pass compares the node with it.
type desired struct {
	// Bootstrap is the kubeconfig with the token; nil after joining.
	Bootstrap *file
	Kubelet   program
}

// program is a Windows service with the files that it reads at start.
type program struct {
	Service scm.Service
	Files   []file
	// Epoch names the circumstances, apart from its files, that a program reads only at
	// its start.
	Epoch string
	// Health is the address at which the working program serves HTTP; "" if it does not serve HTTP.
	Health string
}

// describe derives all that from the configuration, the CA certificate and
// the bootstrap token ("" once joined).
func describe(c Config, ca []byte, token string) (desired, error) {
	if err := certpem.CheckPin(ca, c.Cluster.CAHash); err != nil {
		return desired{}, err
	}
	var d desired
	if token != "" {
		if !validToken.MatchString(token) {
			return desired{}, fmt.Errorf("bootstrap token in %s: want the form abcdef.0123456789abcdef",
				c.Cluster.TokenFile)
		}
		bootstrap := newKubeconfig(c.Cluster, ca, "bootstrap", kubeconfig.Credentials{Token: token})
		f, err := yamlFile(bootstrapKubeconfig, bootstrap)
		if err != nil {
			return desired{}, err
		}
		d.Bootstrap = &f
	}
	kubelet, err := yamlFile(kubeletConfig, describeKubelet(c))
	if err != nil {
		return desired{}, err
	}
	d.Kubelet = program{
		Service: service("kubelet", "Kubernetes kubelet", "Runs the pods of this node.", kubeletLog, kubeletArgv(c)),
		Files:   []file{kubelet},
		Health:  componentconfig.KubeletHealth,
	}
	return d, nil
}

// nodeKubeconfig has the node's own identity: see docs/internals/agent.md, Decisions.
func nodeKubeconfig(c Config, ca []byte) kubeconfig.Config {
	return newKubeconfig(c.Cluster, ca, "node",
		kubeconfig.Credentials{Certificate: KubeletKeyPair, Key: KubeletKeyPair})
}

// restartAfter is the delay of the service manager's failure action. It matters
// only while the agent is down, because the agent checks every few seconds.
const restartAfter = 30 * time.Second

// service wraps a program so that its output is written to a file: a Windows
// service has no standard error. The program itself remains the service;
// `mullion.exe service` only starts it and copies its output.
func service(name, display, description, log string, argv []string) scm.Service {
	return scm.Service{
		Name: name, DisplayName: display, Description: description,
		Argv: append([]string{agentExe, "service", "--log", log, "--"}, argv...),
		// The agent, which starts with Windows, starts them: only the agent makes sure
		// that their files match agent.json.
		Manual:       true,
		RestartAfter: restartAfter,
	}
}

func yamlFile(path string, v any) (file, error) {
	content, err := yaml.Marshal(v)
	if err != nil {
		return file{}, fmt.Errorf("make %s: %w", path, err)
	}
	return file{path, append([]byte("# Written by mullion.exe agent; changes are overwritten.\n"), content...)}, nil
}

// cniFile returns the CNI configuration for the node's pod ranges, with the ACLs with
// which endpoints begin.
func cniFile(c Config, podCIDRs []netip.Prefix, acls []schema.ACLSetting) (file, error) {
	bridge, flannel := describeCNI(c, podCIDRs), describeFlannelCNI(c)
	for _, a := range acls {
		p := cniPolicy{"EndpointPolicy", hnPolicy{schema.ACLPolicy, a}}
		bridge.Policies = append(bridge.Policies, p)
		flannel.Delegate.Policies = append(flannel.Delegate.Policies, p)
	}
	var conf any = bridge
	if c.Network.Mode.Flannel() {
		conf = flannel
	}
	content, err := json.MarshalIndent(conf, "", "  ")
	if err != nil {
		return file{}, fmt.Errorf("make %s: %w", cniConf, err)
	}
	return file{cniConf, append(content, '\n')}, nil
}

// same reports whether the file already has this content.
func same(path string, content []byte) bool {
	have, err := os.ReadFile(path)
	return err == nil && bytes.Equal(have, content)
}
