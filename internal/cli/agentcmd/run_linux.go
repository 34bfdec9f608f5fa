// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agentcmd

import (
	"context"
	"errors"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/cli"
)

func runAs(context.Context, string, func(context.Context) error) error {
	return errors.New("services run on Windows")
}

func run(context.Context, agent.Config, cli.Streams) error {
	return errors.New("the agent runs on Windows")
}
