// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

//go:build amd64

package main

import (
	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cli/clustercmd"
	"github.com/mullion-k8s/mullion/internal/cli/installcmd"
	"github.com/mullion-k8s/mullion/internal/cli/lintcmd"
	"github.com/mullion-k8s/mullion/internal/cli/managercmd"
	"github.com/mullion-k8s/mullion/internal/cli/versioncmd"
)

// commands lists the commands on Linux.
func commands() []cli.Command {
	return []cli.Command{
		{Group: cli.Cluster, New: clustercmd.Up},
		{Group: cli.Cluster, New: clustercmd.Down},
		{Group: cli.Cluster, New: clustercmd.Stop},
		{Group: cli.Cluster, New: clustercmd.Start},
		{Group: cli.Cluster, New: clustercmd.List},
		{Group: cli.Cluster, New: clustercmd.Status},
		{Group: cli.Cluster, New: clustercmd.Kubeconfig},
		{Group: cli.Cluster, New: clustercmd.Logs},
		{Group: cli.Cluster, New: clustercmd.URL},
		{Group: cli.Cluster, New: clustercmd.Load},
		{Group: cli.Cluster, New: clustercmd.Images},
		{Group: cli.Cluster, New: clustercmd.Node},
		{Group: cli.Cluster, New: clustercmd.Exec},
		{Group: cli.Cluster, New: clustercmd.Backup},
		{Group: cli.Cluster, New: clustercmd.Restore},
		{Group: cli.Cluster, New: clustercmd.Kubectl},
		{Group: cli.Cluster, New: clustercmd.Server},
		{Group: cli.Cluster, New: installcmd.New},
		{Group: cli.Cluster, New: installcmd.NewUninstall},
		{Group: cli.Cluster, New: managercmd.New},
		{Group: cli.Manifest, New: lintcmd.New},
		{Group: cli.Cluster, New: versioncmd.New},
		{Group: cli.Internal, New: clustercmd.Run},
	}
}
