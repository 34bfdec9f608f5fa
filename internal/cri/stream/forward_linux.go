// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/mullion-k8s/mullion/internal/netplane/kernel"
)

// dialTimeout is how long a pod may take to accept; it is next door.
const dialTimeout = 10 * time.Second

// Dial connects to a port of a pod: to its loopback address, where
// `kubectl port-forward` is documented to connect, and if no program listens there,
// to the pod's own addresses, because a Windows service often binds to these only.
// netns is the file of the pod's network namespace; empty means the namespace of
// this process.
func Dial(ctx context.Context, netns string, ips []string, port int32) (net.Conn, error) {
	if port <= 0 || port > 65535 {
		return nil, fmt.Errorf("port %d is out of range", port)
	}
	var errs []error
	for _, ip := range append([]string{"127.0.0.1", "::1"}, ips...) {
		conn, err := kernel.Dial(ctx, netns, "tcp", net.JoinHostPort(ip, strconv.Itoa(int(port))), dialTimeout)
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// closeWriter is implemented by both ends of a forwarded connection.
type closeWriter interface{ CloseWrite() error }

// lingerWait is how long the other direction may go on after the pod has
// closed; containerd waits one second too (sandbox_portforward_linux.go).
const lingerWait = time.Second

// Join copies in both directions until the pod has closed, or the client has
// and the pod has had the time to answer.
func Join(ctx context.Context, client io.ReadWriteCloser, pod net.Conn) error {
	defer func() { _ = pod.Close() }() // data errors count, this one does not
	stop := context.AfterFunc(ctx, func() { _ = pod.Close() })
	defer stop()
	toPod, toClient := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := io.Copy(pod, client)
		if c, ok := pod.(closeWriter); ok {
			_ = c.CloseWrite() // the pod may have closed first
		}
		toPod <- err
	}()
	go func() {
		_, err := io.Copy(client, pod)
		toClient <- err
	}()
	var err error
	select {
	case err = <-toPod:
		if err == nil {
			err = <-toClient
		}
	case err = <-toClient:
		_ = client.Close() // ends the other copy
		select {
		case <-toPod: //nolint:errcheck // only its end matters
		case <-time.After(lingerWait):
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
