// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package imageload_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/mullion-k8s/mullion/internal/host/imageload"
)

func TestSend(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() {
		served <- imageload.Serve(ctx, l, func(_ context.Context, r io.Reader) ([]imageload.Image, error) {
			b, err := io.ReadAll(r)
			switch string(b) {
			case "bad":
				return nil, errors.New("read archive: not a tar file")
			case "large":
				return nil, fmt.Errorf("load archive: %w", syscall.ENOSPC)
			}
			return []imageload.Image{{Names: []string{string(b) + ":latest"}, OS: "windows",
				OSVersion: "10.0.17763.1"}}, err
		}, func(context.Context) ([]imageload.Image, error) {
			return []imageload.Image{{Names: []string{"there:latest"}, OS: "windows", Size: 42, StandIn: true}}, nil
		})
	}()
	if got, err := imageload.Send(ctx, socket, strings.NewReader("app")); err != nil ||
		!reflect.DeepEqual(got,
			[]imageload.Image{{Names: []string{"app:latest"}, OS: "windows", OSVersion: "10.0.17763.1"}}) {
		t.Errorf("good: %v, %v", got, err)
	}
	if _, err := imageload.Send(ctx, socket, strings.NewReader("bad")); err == nil ||
		!strings.Contains(err.Error(), "not a tar file") {
		t.Errorf("bad: %v", err)
	}
	if _, err := imageload.Send(ctx, socket, strings.NewReader("large")); err == nil ||
		!strings.Contains(err.Error(), "no space left on device") ||
		!strings.Contains(err.Error(), "mullion up --disk") {
		t.Errorf("too large for the host's disk: %v", err)
	}
	there := []imageload.Image{{Names: []string{"there:latest"}, OS: "windows", Size: 42, StandIn: true}}
	if got, err := imageload.List(ctx, socket); err != nil || !reflect.DeepEqual(got, there) {
		t.Errorf("list: %v, %v", got, err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
	if _, err := imageload.Send(t.Context(), socket, strings.NewReader("app")); err == nil {
		t.Error("host is down: want an error")
	}
}

// TestClientLeaves: the context of a load ends with its client.
func TestClientLeaves(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	started, ended := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() {
		served <- imageload.Serve(ctx, l, func(ctx context.Context, r io.Reader) ([]imageload.Image, error) {
			_, err := io.Copy(io.Discard, r)
			close(started)
			<-ctx.Done()
			close(ended)
			return nil, errors.Join(err, ctx.Err())
		}, nil)
	}()
	client, leave := context.WithCancel(t.Context())
	sent := make(chan error)
	go func() {
		_, err := imageload.Send(client, socket, strings.NewReader("app"))
		sent <- err
	}()
	<-started
	leave()
	<-ended
	if err := <-sent; !errors.Is(err, context.Canceled) {
		t.Errorf("the client: %v", err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
}
