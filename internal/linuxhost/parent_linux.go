// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package linuxhost

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/host"
)

// Product names the operating system of the hosts.
const Product = "Linux, containerd 2.4.2"

// Run boots a host and blocks until it has ended, as host.Run does.
func Run(ctx context.Context, c Config, log *slog.Logger) error {
	secret := rand.Text()
	return host.Run(ctx, host.Spec{
		Config: c.Config, Product: Product, Router: router(c),
		Services: true, RootPods: true, PinCPUs: true, Devices: devices(),
		Prepare: func(_ context.Context, p *host.Parent) (any, error) {
			p.Step("files")
			return prepare(c, p, secret)
		},
		Connected: func(ctx context.Context, netns string) error { return serveProxy(ctx, netns, secret, log) },
	}, log)
}

// router returns the network namespace that learns the way to the host's pods: the
// fabric's or, with the routes of each node, the machine's, on which a control plane's
// node would have them.
func router(c Config) string {
	if c.Network == agent.HostGateway {
		return "/proc/self/ns/net"
	}
	return c.Fabric
}

// prepare makes the host's directory.
func prepare(c Config, p *host.Parent, secret string) (b boot, err error) {
	b = boot{Config: c, Secret: secret}
	files := map[string]string{filepath.Join(c.Dir, "kernel", "kmsg"): ""}
	for _, s := range machineSettings() {
		files[settingFile(c.Dir, s.name)] = s.value + "\n"
	}
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return b, fmt.Errorf("make host directory: %w", err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			return b, fmt.Errorf("make host directory: %w", err)
		}
	}
	b.Boot, err = p.Boot()
	return b, err
}
