// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/certpem"
	"github.com/mullion-k8s/mullion/internal/durable"
)

// installAgent writes the agent's configuration and what it needs to join.
// Preconditions: the prefix is mounted, and nothing runs in it.
func installAgent(b boot) error {
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
	// What the agent reported before the last shutdown is out of date.
	if err := os.Remove(onDisk(agent.StatusFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget the last boot: %w", err)
	}
	c := b.Config.Agent
	if c.Cluster.CAHash == "" {
		ca, err := certpem.Parse(b.CA)
		if err != nil {
			return fmt.Errorf("hash CA certificate: %w", err)
		}
		c.Cluster.CAHash = certpem.Pin(ca)
	}
	doc, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("make agent configuration: %w", err)
	}
	files := []struct {
		path    string
		content []byte
	}{{agent.ConfigFile, doc}, {caFile, b.CA}}
	if b.Token != "" && !agent.Joined(hostDisk(), time.Now()) {
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
	for _, p := range []string{agent.KubeletDir, agent.StateDir} {
		if err := os.RemoveAll(onDisk(p)); err != nil {
			return fmt.Errorf("forget the former cluster: %w", err)
		}
	}
	return os.MkdirAll(onDisk(agent.StateDir), 0o700)
}
