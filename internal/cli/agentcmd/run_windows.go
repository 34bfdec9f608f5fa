// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package agentcmd

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"golang.org/x/sys/windows/svc"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/agent/logfile"
	"github.com/mullion-k8s/mullion/internal/cli"
	"github.com/mullion-k8s/mullion/internal/hns/native"
	"github.com/mullion-k8s/mullion/internal/winsys/scm"
)

// serviceLog is the log if the service manager started the agent: a service has
// no standard streams.
const serviceLog = `C:\var\log\mullion\agent.log`

func run(ctx context.Context, o agent.Options, out io.Writer) error {
	service, err := svc.IsWindowsService()
	if err != nil {
		return fmt.Errorf("find out who started this process: %w", err)
	}
	if service {
		file, err := logfile.Open(serviceLog, logfile.DefaultBytes, logfile.DefaultKeep)
		if err != nil {
			return err
		}
		defer file.Close()
		out = file
	}
	manager, err := scm.Connect()
	if err != nil {
		return cli.WithHint(err, "run it as an administrator")
	}
	defer manager.Close()
	o.SCM, o.HNS, o.Log = manager, native.New(), slog.New(slog.NewTextHandler(out, nil))
	a := agent.New(o)
	if !service {
		return a.Run(ctx)
	}
	return runAs(ctx, "mullion", a.Run)
}

// runAs runs the function as the service of the name, until the service manager stops it.
func runAs(ctx context.Context, name string, run func(context.Context) error) error {
	h := &handler{ctx: ctx, run: run}
	if err := svc.Run(name, h); err != nil {
		return fmt.Errorf("run as a service: %w", err)
	}
	return h.err
}

// handler is a service's side of the service control protocol.
type handler struct {
	ctx context.Context // of the process; svc.Handler has no room for one
	run func(context.Context) error
	err error
}

// Execute implements svc.Handler.
func (h *handler) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	status <- svc.Status{State: svc.StartPending}
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- h.run(ctx) }()
	status <- svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	for {
		select {
		case h.err = <-done:
			if h.err != nil {
				return true, 1 // the program failed: the service's failure action applies
			}
			return false, 0
		case r := <-requests:
			switch r.Cmd {
			case svc.Interrogate:
				status <- r.CurrentStatus
			case svc.Stop, svc.Shutdown:
				status <- svc.Status{State: svc.StopPending}
				cancel()
			}
		}
	}
}
