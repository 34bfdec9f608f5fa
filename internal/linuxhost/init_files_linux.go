// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/durable/kubeconfig"
	"github.com/mullion-k8s/mullion/internal/host"
)

// installFiles writes the configuration of the host's programs.
func installFiles(b boot) error {
	const known = nodeDir + "/ca.crt"
	err := host.ForgetOtherCluster(known, b.CA, func() error { return os.RemoveAll(kubeletDir) })
	if err == nil {
		err = durable.WriteFile(known, b.CA, 0o644)
	}
	if err != nil {
		return err
	}
	files, err := describeFiles(b)
	if err != nil {
		return err
	}
	for name, content := range etcFiles(b.Config) {
		files[name] = file{[]byte(content), 0o644}
	}
	for name, f := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if err := os.WriteFile(name, f.content, f.mode); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	for _, d := range []string{"/root", cniConfDir} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return fmt.Errorf("make %s: %w", d, err)
		}
	}
	return nil
}

type file struct {
	content []byte
	mode    fs.FileMode
}

// describeFiles returns the configuration of the host's programs, by path.
func describeFiles(b boot) (map[string]file, error) {
	const name = "mullion" // of the cluster and the context: the files have no other
	cluster := kubeconfig.WithCA(name, b.Config.Server, caFile)
	user := func(user string, credentials kubeconfig.Credentials) any {
		return kubeconfig.ForUser(name, cluster, kubeconfig.User{Name: user, User: credentials})
	}
	files := map[string]file{
		caFile:           {b.CA, 0o644},
		containerdConfig: {[]byte(describeContainerd()), 0o644},
	}
	if b.Config.Network.Flannel() {
		conf, err := netConf(b.Config)
		if err != nil {
			return nil, err
		}
		files[flannelNetConf] = file{conf, 0o644}
	}
	documents := map[string]any{
		kubeletConfig: describeKubelet(b.Config),
		proxyConfig:   describeProxy(b.Config),
		// The node's own identity; RBAC gives nodes the rights that kube-proxy and
		// flanneld need.
		nodeKubeconfig: user("node", kubeconfig.Credentials{Certificate: kubeletCertificate, Key: kubeletCertificate}),
	}
	if b.Token != "" {
		documents[bootstrapKubeconfig] = user("bootstrap", kubeconfig.Credentials{Token: b.Token})
	}
	for name, d := range documents {
		content, err := json.MarshalIndent(d, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("marshal %s: %w", name, err)
		}
		files[name] = file{content, 0o600}
	}
	return files, nil
}
