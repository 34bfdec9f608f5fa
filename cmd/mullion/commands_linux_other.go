// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

//go:build linux && !amd64

package main

import (
	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cli/installcmd"
	"github.com/mullion-k8s/mullion/internal/cli/lintcmd"
	"github.com/mullion-k8s/mullion/internal/cli/managercmd"
	"github.com/mullion-k8s/mullion/internal/cli/versioncmd"
)

// commands lists the commands on Linux machines that cannot emulate Windows,
// whose programs are for amd64. The manager runs on any architecture.
func commands() []cli.Command {
	return []cli.Command{
		{Group: cli.Change, New: installcmd.New},
		{Group: cli.Change, New: installcmd.NewUninstall},
		{Group: cli.Check, New: lintcmd.New},
		{Group: cli.Check, New: versioncmd.New},
		{Group: cli.Internal, New: managercmd.New},
	}
}
