// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"github.com/mullion-k8s/mullion/internal/cri/runc"
	"github.com/mullion-k8s/mullion/internal/cri/stream"
)

// streamRuntime carries out the requests of the streaming server's clients.
type streamRuntime struct{ s *Server }

var _ stream.Runtime = streamRuntime{}

// Exec runs a command with a client's streams.
func (r streamRuntime) Exec(ctx context.Context, id string, cmd []string, in io.Reader, out, errOut io.WriteCloser,
	tty bool, resize <-chan remotecommand.TerminalSize) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	code, err := r.s.exec(ctx, id, execution{
		args:     cmd,
		terminal: tty,
		stdin:    in,
		stdout:   out,
		stderr:   errOut,
		resize:   sizes(ctx, resize),
	})
	if err != nil {
		return errors.New(r.s.podText(err))
	}
	if code == 0 {
		return nil
	}
	// The library passes the code on if the error is of this type. Windows' codes
	// have 32 bits without a sign, and containerd passes them on as they are.
	unsigned := int(uint32(code))
	return &utilexec.CodeExitError{Err: fmt.Errorf("error executing command %v, exit code %d", cmd, unsigned),
		Code: unsigned}
}

// Attach connects a client with a container's program.
func (r streamRuntime) Attach(ctx context.Context, id string, in io.Reader, out, errOut io.WriteCloser, _ bool,
	resize <-chan remotecommand.TerminalSize) error {
	c, err := r.s.runningContainer(id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return r.s.runtime.Attach(ctx, runc.Attach{
		Bundle: r.s.dir(c.ID, bundleDir),
		Stdin:  in,
		Stdout: out,
		Stderr: errOut,
		Resize: sizes(ctx, resize),
	})
}

// PortForward connects a client with a port of a sandbox.
func (r streamRuntime) PortForward(ctx context.Context, id string, port int32, client io.ReadWriteCloser) error {
	sb, err := r.s.sandbox(id)
	if err != nil {
		return err
	}
	if !sb.Ready() {
		return fmt.Errorf("sandbox container %q is not running", sb.ID)
	}
	pod, err := stream.Dial(ctx, r.s.networkPath(sb), sb.IPs, port)
	if err != nil {
		return fmt.Errorf("failed to connect to localhost:%d inside namespace of sandbox %q: %w", port, sb.ID, err)
	}
	return stream.Join(ctx, client, pod)
}

// sizes translates the sizes of a client's window until the context ends.
func sizes(ctx context.Context, in <-chan remotecommand.TerminalSize) <-chan runc.Size {
	if in == nil {
		return nil
	}
	out := make(chan runc.Size)
	go func() {
		defer close(out)
		for {
			select {
			case size, ok := <-in:
				if !ok {
					return
				}
				select {
				case out <- runc.Size{Width: size.Width, Height: size.Height}:
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}
