// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package hnstest

import (
	"context"
	"log/slog"
	"net"
	"testing"

	"github.com/mullion-k8s/mullion/internal/hns/emul"
	"github.com/mullion-k8s/mullion/internal/hns/schema"
	"github.com/mullion-k8s/mullion/internal/hns/wire"
)

// open returns an emulator of a version with an empty store.
func open(t *testing.T, v schema.Version) *emul.Service {
	t.Helper()
	s, err := emul.Open(t.Context(), emul.Config{
		Dir:       t.TempDir(),
		DataPlane: &Plane{},
		Version:   v,
		Log:       slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestEmulator(t *testing.T) {
	for name, v := range map[string]schema.Version{"2019": emul.VersionOf(17763), "2025": emul.VersionOf(26100)} {
		t.Run(name, func(t *testing.T) {
			Run(t, func(t *testing.T) Service { return open(t, v) })
		})
	}
}

func TestWire(t *testing.T) {
	Run(t, func(t *testing.T) Service {
		return &wire.Client{Address: serve(t, open(t, schema.Version{}))}
	})
}

// serve serves an API on a loopback port until the test ends.
func serve(t *testing.T, api Service) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// Not the test's context: that ends before the suite removes its objects.
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- (&wire.Server{API: api, Log: slog.New(slog.DiscardHandler)}).Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}
