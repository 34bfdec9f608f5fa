// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/agent/storage"
	"github.com/mullion-k8s/mullion/internal/durable"
	"github.com/mullion-k8s/mullion/internal/durable/certpem"
	"github.com/mullion-k8s/mullion/internal/host"
)

// installAgent writes the agent's configuration and its credentials to join.
// Preconditions: the prefix is mounted, and no program runs in it.
func installAgent(b boot) error {
	state := onDisk(agent.StateDir)
	if err := os.MkdirAll(state, 0o700); err != nil {
		return fmt.Errorf("make agent directory: %w", err)
	}
	if err := os.Chmod(state, 0o700); err != nil {
		return fmt.Errorf("close agent directory: %w", err)
	}
	err := host.ForgetOtherCluster(onDisk(caFile), b.CA, func() error {
		return errors.Join(os.RemoveAll(onDisk(agent.KubeletDir)), forgetState(state))
	})
	if err != nil {
		return err
	}
	// The agent's report from before the last shutdown is out of date.
	if err := os.Remove(onDisk(agent.StatusFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget the last boot: %w", err)
	}
	ca, err := certpem.Parse(b.CA)
	if err != nil {
		return fmt.Errorf("hash CA certificate: %w", err)
	}
	doc, err := json.MarshalIndent(b.Config.agentConfig(certpem.Pin(ca)), "", "  ")
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

// forgetState removes all of the agent's state but volumes.
func forgetState(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !slices.Contains(storage.Dirs(), e.Name()) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}
