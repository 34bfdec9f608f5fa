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

	"github.com/mullion-k8s/mullion/internal/certpem"
	"github.com/mullion-k8s/mullion/internal/kubeconfig"
	"github.com/mullion-k8s/mullion/internal/winsys/scm"
)

// File is a file that the agent keeps on the node.
type File struct {
	Path    string // on the node
	Content []byte
}

// Desired is the desired state of the node, as far as it is known before the node
// has joined. It is a plain value; Agent.pass compares the node with it.
type Desired struct {
	// Bootstrap is the kubeconfig with the token; nil after joining.
	Bootstrap *File
	Kubelet   Program
	Proxy     Program
}

// Program is a Windows service with the files that it reads at start.
type Program struct {
	Service scm.Service
	Files   []File
}

// Describe derives everything from the configuration, the CA certificate and
// the bootstrap token ("" once joined).
func Describe(c Config, ca []byte, token string) (Desired, error) {
	if err := certpem.CheckPin(ca, c.Cluster.CAHash); err != nil {
		return Desired{}, err
	}
	var d Desired
	if token != "" {
		if !validToken.MatchString(token) {
			return Desired{}, fmt.Errorf("bootstrap token in %s: want the form abcdef.0123456789abcdef",
				c.Cluster.TokenFile)
		}
		bootstrap := newKubeconfig(c.Cluster, ca, "bootstrap", kubeconfig.Credentials{Token: token})
		f, err := yamlFile(bootstrapKubeconfig, bootstrap)
		if err != nil {
			return Desired{}, err
		}
		d.Bootstrap = &f
	}
	kubelet, err := yamlFile(kubeletConfig, describeKubelet(c))
	if err != nil {
		return Desired{}, err
	}
	proxy, err := yamlFile(proxyConfig, describeProxy(c))
	if err != nil {
		return Desired{}, err
	}
	// The node's own identity: see docs/internals/agent.md, Decisions.
	credentials, err := yamlFile(proxyKubeconfig, newKubeconfig(c.Cluster, ca, "node",
		kubeconfig.Credentials{Certificate: kubeletKeyPair, Key: kubeletKeyPair}))
	if err != nil {
		return Desired{}, err
	}
	d.Kubelet = Program{
		Service: service("kubelet", "Kubernetes kubelet", "Runs the pods of this node.", kubeletLog, kubeletArgv(c)),
		Files:   []File{kubelet},
	}
	d.Proxy = Program{
		Service: service("kube-proxy", "Kubernetes kube-proxy",
			"Programs the services of the cluster into this node's network.", proxyLog, proxyArgv()),
		Files: []File{proxy, credentials},
	}
	return d, nil
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
		// The agent, which starts with Windows, starts them: only it knows that
		// their files are those of agent.json.
		Manual:       true,
		RestartAfter: restartAfter,
	}
}

func yamlFile(path string, v any) (File, error) {
	content, err := yaml.Marshal(v)
	if err != nil {
		return File{}, fmt.Errorf("make %s: %w", path, err)
	}
	return File{path, append([]byte("# Written by mullion.exe agent; changes are overwritten.\n"), content...)}, nil
}

// cniFile returns the CNI configuration for the node's pod range.
func cniFile(c Config, podCIDR netip.Prefix) (File, error) {
	content, err := json.MarshalIndent(describeCNI(c, podCIDR), "", "  ")
	if err != nil {
		return File{}, fmt.Errorf("make %s: %w", cniConf, err)
	}
	return File{cniConf, append(content, '\n')}, nil
}

// same reports whether the file already has this content.
func same(path string, content []byte) bool {
	have, err := os.ReadFile(path)
	return err == nil && bytes.Equal(have, content)
}
