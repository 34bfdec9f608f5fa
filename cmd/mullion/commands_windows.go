// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/cli/agentcmd"
)

func commands() []cli.Command {
	return []cli.Command{
		{Group: cli.Node, New: agentcmd.New},
		{Group: cli.Internal, New: agentcmd.NewService},
	}
}
