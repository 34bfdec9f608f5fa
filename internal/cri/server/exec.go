// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/engine"
	"github.com/mullion-k8s/mullion/internal/cri/oci"
	"github.com/mullion-k8s/mullion/internal/cri/runc"
	"github.com/mullion-k8s/mullion/internal/cri/store"
	"github.com/mullion-k8s/mullion/internal/winsys/cmdline"
)

// Exec returns a URL for a command in a container.
func (s *Server) Exec(_ context.Context, req *runtime.ExecRequest) (*runtime.ExecResponse, error) {
	if _, err := s.runningContainer(req.GetContainerId()); err != nil {
		return nil, fmt.Errorf("failed to find container %q in store: %w", req.GetContainerId(), err)
	}
	return s.streams.Exec(req)
}

func (s *Server) runningContainer(id string) (store.Container, error) {
	c, err := s.container(id)
	if err != nil {
		return c, err
	}
	if !c.Running() {
		return c, fmt.Errorf("container is in %s state", c.State())
	}
	return c, nil
}

// execution is one command in a container.
type execution struct {
	args           []string
	terminal       bool
	stdin          io.Reader
	stdout, stderr io.Writer
	resize         <-chan runc.Size
}

// exec runs a command in a running container, in the same place and with the
// same variables as its program, and returns its exit code.
func (s *Server) exec(ctx context.Context, id string, e execution) (int32, error) {
	c, err := s.runningContainer(id)
	if err != nil {
		return 0, err
	}
	if len(e.args) == 0 {
		return 0, invalid{errors.New("cmd must not be empty")}
	}
	p, status := s.execProcess(c, e)
	file := s.dir(c.ID, statusDir, status)
	defer func() { _ = os.Remove(file) }() // goes with the container at the latest
	code, err := s.runtime.Exec(ctx, runc.Exec{
		ID: c.ID, Bundle: s.dir(c.ID, bundleDir), Process: oci.ExecProcess(p),
		Stdin: e.stdin, Stdout: e.stdout, Stderr: e.stderr, Resize: e.resize,
	})
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if st, statErr := s.cfg.Engine.Status(file); statErr == nil {
		if st.Error != "" {
			return 0, fmt.Errorf("failed to exec in container: failed to start exec %q: %w", status,
				createProcessError(c.ID, cmdline.Join(e.args), errors.New(st.Error)))
		}
		return int32(st.ExitCode), nil
	}
	if err != nil {
		return 0, fmt.Errorf("failed to exec in container: %w", err)
	}
	return int32(code), nil
}

// execProcess describes the command like the container's own program.
func (s *Server) execProcess(c store.Container, e execution) (p oci.Process, status string) {
	status = "exec-" + newID()[:16]
	sb, err := s.sandbox(c.SandboxID) // there as long as its containers
	p = s.process(engine.Program{
		Container: c.ID,
		Args:      e.args,
		Env:       c.Env,
		Dir:       c.Dir,
		User:      c.User,
		Computer:  s.hostname(sb.Config),
		Status:    status,
		Exec:      true,
	}, err == nil && sb.HostProcess, e.terminal)
	p.UID = s.uid(sb, p.UID)
	return p, status
}
