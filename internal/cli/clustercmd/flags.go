// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package clustercmd has the commands that make, show and remove clusters on
// this machine: up, down, status, logs, url, load, backup, restore, kubectl,
// server.
package clustercmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cluster"
)

// target holds the flags that select a cluster.
type target struct {
	name    string
	dataDir string
}

func (t *target) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.name, "name", "default", "the cluster's `name`")
	addDataDir(cmd, &t.dataDir)
	// Completion ignores errors: a missing directory has no clusters.
	_ = cmd.RegisterFlagCompletionFunc("name",
		func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			names, err := cluster.Names(t.dataDir)
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		})
}

func addDataDir(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "data-dir", defaultDataDir(),
		"`directory` for all of mullion's data (environment MULLION_DATA)")
}

func defaultDataDir() string {
	if dir := os.Getenv("MULLION_DATA"); dir != "" {
		return dir
	}
	return cluster.DefaultDataDir
}

func dataDirFlag(dir string) string {
	if dir == defaultDataDir() {
		return ""
	}
	return " --data-dir " + dir
}

func (t *target) layout() (cluster.Layout, error) {
	if err := cluster.CheckName(t.name); err != nil {
		return cluster.Layout{}, cli.Usagef("%w", err)
	}
	dir, err := absolute(t.dataDir)
	return cluster.Layout{DataDir: dir, Name: t.name}, err
}

// absolute returns a data directory as the cluster's programs, which run elsewhere,
// can use it.
func absolute(dataDir string) (string, error) {
	dir, err := filepath.Abs(dataDir)
	if err != nil {
		return "", fmt.Errorf("--data-dir %s: %w", dataDir, err)
	}
	return dir, nil
}

// existing loads the selected cluster.
func (t *target) existing() (cluster.Layout, cluster.Config, error) {
	l, err := t.layout()
	if err != nil {
		return l, cluster.Config{}, err
	}
	c, err := cluster.Load(l)
	if errors.Is(err, cluster.ErrNotFound) {
		return l, c, cli.WithHint(err, "create it with 'mullion up%s'", nameFlag(t.name))
	}
	if errors.Is(err, fs.ErrPermission) {
		return l, c, cli.Environmentf("run it with sudo", "%w", err)
	}
	return l, c, err
}

func nameFlag(name string) string {
	if name == "default" {
		return ""
	}
	return " --name " + name
}

// hosts completes names of hosts.
func (t *target) hosts() ([]string, cobra.ShellCompDirective) {
	_, cfg, err := t.existing()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return cfg.Hosts(), cobra.ShellCompDirectiveNoFileComp
}

// hostNames lists the hosts of a cluster, for people.
func hostNames(cfg cluster.Config) string {
	return strings.Join(cfg.Hosts(), ", ")
}
