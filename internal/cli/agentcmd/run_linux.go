// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agentcmd

import (
	"context"
	"errors"
	"io"

	"github.com/mullion-k8s/mullion/internal/agent"
)

func runAs(context.Context, string, func(context.Context) error) error {
	return errors.New("services run on Windows")
}

func run(context.Context, agent.Options, io.Writer) error {
	return errors.New("the agent runs on Windows")
}
