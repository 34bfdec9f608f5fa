// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/certpem"
	"github.com/mullion-k8s/mullion/internal/durable"
)

// Files of the agent on the host.
const (
	caFile    = agent.StateDir + `\ca.crt`
	tokenFile = agent.StateDir + `\bootstrap-token`
	joinedKey = `C:\var\lib\kubelet\pki\kubelet-client-current.pem`
)

// onDisk is where a path on C: lies in the host's root.
func onDisk(windows string) string {
	return filepath.Join(prefixDir, "drive_c", strings.ReplaceAll(strings.TrimPrefix(windows, `C:\`), `\`, "/"))
}

// agentConfig is the agent.json that an administrator would write on a real
// server.
func agentConfig(c Config, pin string) agent.Config {
	return agent.Config{
		APIVersion: agent.Version,
		Node:       agent.Node{Name: c.Name, Address: c.Address.Addr(), Taints: c.Taints, SharedDisk: true},
		Cluster: agent.Cluster{
			Server: c.APIServer, CAFile: caFile, CAHash: pin, TokenFile: tokenFile,
			Domain: c.ClusterDomain, DNS: []netip.Addr{c.ClusterDNS},
			PodCIDR: c.PodCIDR, ServiceCIDR: c.ServiceCIDR, NodeCIDRs: []netip.Prefix{c.Address.Masked()},
		},
		Runtime: agent.Runtime{Endpoint: "tcp://" + criAddress},
	}
}

// lay puts the programs and the agent's files onto the host's C:.
// Preconditions: the prefix is mounted, and nothing runs in it.
func lay(b boot) error {
	if err := errors.Join(installPrograms(), installTools(wineHost(b))); err != nil {
		return err
	}
	state := onDisk(agent.StateDir)
	if err := os.MkdirAll(state, 0o700); err != nil {
		return fmt.Errorf("make agent directory: %w", err)
	}
	if err := os.Chmod(state, 0o700); err != nil {
		return fmt.Errorf("close agent directory: %w", err)
	}
	if err := forgetOtherCluster(b.CA); err != nil {
		return err
	}
	// What the agent said before the last shutdown is not so any more.
	if err := os.Remove(onDisk(agent.StatusFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget the last boot: %w", err)
	}
	pin := b.Config.CAHash
	if pin == "" {
		ca, err := certpem.Parse(b.CA)
		if err != nil {
			return fmt.Errorf("hash CA certificate: %w", err)
		}
		pin = certpem.Pin(ca)
	}
	doc, err := json.MarshalIndent(agentConfig(b.Config, pin), "", "  ")
	if err != nil {
		return fmt.Errorf("make agent configuration: %w", err)
	}
	files := []struct {
		path    string
		content []byte
	}{{agent.ConfigFile, doc}, {caFile, b.CA}}
	if b.Token != "" && !joined(time.Now()) {
		files = append(files, struct {
			path    string
			content []byte
		}{tokenFile, []byte(b.Token)})
	}
	for _, f := range files {
		if err := durable.WriteFile(onDisk(f.path), f.content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// forgetOtherCluster removes the identities that the host has in a cluster with
// another CA: they are worth nothing in this one and would keep it from joining.
func forgetOtherCluster(ca []byte) error {
	old, err := os.ReadFile(onDisk(caFile))
	if errors.Is(err, fs.ErrNotExist) || err == nil && bytes.Equal(old, ca) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the CA of the last boot: %w", err)
	}
	for _, p := range []string{`C:\var\lib\kubelet`, agent.StateDir} {
		if err := os.RemoveAll(onDisk(p)); err != nil {
			return fmt.Errorf("forget the former cluster: %w", err)
		}
	}
	return os.MkdirAll(onDisk(agent.StateDir), 0o700)
}

// joined reports whether the host has an identity in the cluster that is valid
// now.
func joined(now time.Time) bool {
	content, err := os.ReadFile(onDisk(joinedKey))
	if err != nil {
		return false
	}
	cert, err := certpem.Parse(content)
	return err == nil && now.Before(cert.NotAfter)
}

// etc writes the few files of /etc that programs of the host read.
func etc(c Config) error {
	files := map[string]string{
		"/etc/hostname":      c.Name + "\n",
		"/etc/hosts":         fmt.Sprintf("127.0.0.1 localhost\n%s %s\n", c.Address.Addr(), c.Name),
		"/etc/resolv.conf":   fmt.Sprintf("nameserver %s\n", c.Nameserver),
		"/etc/nsswitch.conf": "hosts: files dns\n",
		"/etc/passwd":        "root:x:0:0:root:/root:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"/etc/group":         "root:x:0:\nnogroup:x:65534:\n",
		// Wine looks for fonts in every process that could draw; there are none.
		"/etc/fonts/fonts.conf": "<?xml version=\"1.0\"?><fontconfig><cachedir>/tmp/fontconfig</cachedir></fontconfig>\n",
	}
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	// Wine puts its socket below /run/user/UID if that exists.
	for _, d := range []string{netnsDir, machineDir, "/root", filepath.Join(nodeDir, "logs"), socketsDir, filepath.Join(socketsDir, "0")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return fmt.Errorf("make %s: %w", d, err)
		}
	}
	return nil
}
