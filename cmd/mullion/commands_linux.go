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

// commands lists the commands on Linux in the order of the help.
func commands() []cli.Command {
	return []cli.Command{
		{Group: cli.Start, New: clustercmd.Up},
		{Group: cli.Start, New: clustercmd.Start},
		{Group: cli.Start, New: clustercmd.Restore},
		{Group: cli.Use, New: clustercmd.Kubectl},
		{Group: cli.Use, New: clustercmd.URL},
		{Group: cli.Use, New: clustercmd.Load},
		{Group: cli.Use, New: clustercmd.Images},
		{Group: cli.Use, New: clustercmd.Exec},
		{Group: cli.Use, New: clustercmd.Kubeconfig},
		{Group: cli.Change, New: clustercmd.Node},
		{Group: cli.Change, New: clustercmd.Backup},
		{Group: cli.Change, New: installcmd.New},
		{Group: cli.Change, New: installcmd.NewUninstall},
		{Group: cli.Check, New: clustercmd.Status},
		{Group: cli.Check, New: clustercmd.Logs},
		{Group: cli.Check, New: clustercmd.List},
		{Group: cli.Check, New: lintcmd.New},
		{Group: cli.Check, New: versioncmd.New},
		{Group: cli.End, New: clustercmd.Stop},
		{Group: cli.End, New: clustercmd.Down},
		{Group: cli.Internal, New: clustercmd.Run},
		{Group: cli.Internal, New: clustercmd.Server},
		{Group: cli.Internal, New: managercmd.New},
	}
}
