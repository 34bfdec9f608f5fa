// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package runc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/console/inband"
)

// Attach connects a client to the streams of a container's first process.
type Attach struct {
	Bundle string
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Resize <-chan Size
}

// The first byte of each packet from conmon identifies its stream.
// Source: conmon.h, STDOUT_PIPE and STDERR_PIPE.
const (
	packetStdout = 2
	packetStderr = 3
)

// packetBytes is conmon's buffer (utils.h, STDIO_BUF_SIZE 8192) and the byte
// before it.
const packetBytes = 8192 + 1

// Attach returns when the process has closed its output or the context ends.
func (r *Runtime) Attach(ctx context.Context, a Attach) error {
	conn, err := dialAttach(a.Bundle)
	if err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	defer func() { _ = conn.Close() }() // the streams' errors count
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case size, ok := <-a.Resize:
				if !ok {
					return
				}
				_ = r.resize(a.Bundle, size) // the container may be ending
				_, _ = conn.Write(inband.Report(size.Width, size.Height))
			case <-ended:
				return
			}
		}
	}()
	if a.Stdin != nil {
		go func() {
			_, _ = io.Copy(conn, a.Stdin) // the container may end first
			_ = conn.CloseWrite()
			if a.Stdout == nil && a.Stderr == nil {
				_ = conn.Close()
			}
		}()
	}
	if err := copyPackets(conn, a.Stdout, a.Stderr); err != nil && ctx.Err() == nil {
		return fmt.Errorf("attach: %w", err)
	}
	return ctx.Err()
}

// dialAttach goes through the directory's descriptor, because the path of a
// socket may have 107 bytes only.
func dialAttach(bundle string) (*net.UnixConn, error) {
	dir, err := os.OpenFile(bundle, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }() // only a name
	name := fmt.Sprintf("/proc/self/fd/%d/attach", dir.Fd())
	return net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: name, Net: "unixpacket"})
}

func copyPackets(conn io.Reader, stdout, stderr io.Writer) error {
	buf := make([]byte, packetBytes)
	for {
		n, err := conn.Read(buf)
		if n > 1 {
			var w io.Writer
			switch buf[0] {
			case packetStdout:
				w = stdout
			case packetStderr:
				w = stderr
			default:
				return fmt.Errorf("packet of unknown stream %d", buf[0])
			}
			if w != nil {
				if _, err := w.Write(buf[1:n]); err != nil {
					return err
				}
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), err == nil && n == 0,
			errors.Is(err, unix.ECONNRESET):
			return nil
		case err != nil:
			return err
		}
	}
}

// The orders that conmon takes on its ctl pipe; ctrl.c of conmon.
const (
	ctlResize = 1
	ctlReopen = 2
)

// resize sets the size of the container's terminal.
func (r *Runtime) resize(bundle string, s Size) error {
	return control(bundle, ctlResize, int(s.Height), int(s.Width))
}

// reopenWait bounds how long conmon takes to open the new log: it has no other
// work, so only a machine that hangs reaches this.
const reopenWait = 10 * time.Second

// ReopenLog makes conmon write to a new file at the log's path, after the old
// one was renamed. It returns once the file exists.
func (r *Runtime) ReopenLog(ctx context.Context, bundle, logPath string) error {
	if err := control(bundle, ctlReopen, 0, 0); err != nil {
		return fmt.Errorf("reopen log: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, reopenWait)
	defer cancel()
	for {
		if _, err := os.Stat(logPath); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("reopen log: %w", context.Cause(ctx))
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func control(bundle string, order, a, b int) error {
	// Without a reader, opening a pipe for writing would block forever.
	f, err := os.OpenFile(filepath.Join(bundle, "ctl"), os.O_WRONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENXIO) {
		return ErrNotRunning
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%d %d %d\n", order, a, b)
	return errors.Join(err, f.Close())
}
