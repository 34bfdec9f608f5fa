// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maxOutputBytes bounds the kept output of each stream of an ExecSync. Both and the
// rest of the message must fit into maxMessageBytes; containerd cuts each at 16 MiB
// and then cannot send it.
const maxOutputBytes = maxMessageBytes/2 - 64<<10

// ExecSync runs a command and returns its output: probes and hooks.
func (s *Server) ExecSync(ctx context.Context, req *runtime.ExecSyncRequest) (*runtime.ExecSyncResponse, error) {
	timeout := time.Duration(req.GetTimeout()) * time.Second
	execCtx, cancel := ctx, context.CancelFunc(func() {})
	if timeout > 0 {
		execCtx, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	stdout, stderr := &bounded{max: maxOutputBytes}, &bounded{max: maxOutputBytes}
	code, err := s.exec(execCtx, req.GetContainerId(), execution{args: req.GetCmd(), stdout: stdout, stderr: stderr})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		// The kubelet recognizes a probe's timeout by this code.
		return nil, status.Error(codes.DeadlineExceeded,
			fmt.Sprintf("failed to exec in container: timeout %v exceeded: %v", timeout, context.DeadlineExceeded))
	}
	if err != nil {
		return nil, err
	}
	return &runtime.ExecSyncResponse{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), ExitCode: code}, nil
}

// bounded keeps the beginning of the data written to it and discards the rest.
type bounded struct {
	bytes.Buffer
	max int
}

func (b *bounded) Write(p []byte) (int, error) {
	if room := b.max - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
