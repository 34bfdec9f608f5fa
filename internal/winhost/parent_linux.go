// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/standin"
	"github.com/mullion-k8s/mullion/internal/wine"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// Run boots a host and blocks until it has ended, as host.Run does.
func Run(ctx context.Context, c Config, log *slog.Logger) error {
	build, err := winver.Parse(c.Build)
	if err != nil {
		return err
	}
	return host.Run(ctx, host.Spec{
		Config: c.Config, Build: build.OSVersion(), Product: build.ProductName,
		// For machineNetns and fabricNetns.
		Descriptors: []string{"/proc/self/ns/net", c.Fabric},
		Prepare: func(ctx context.Context, p *host.Parent) (any, error) {
			return prepare(ctx, c, build, p, log)
		},
	}, log)
}

// prepare makes templates, images and the host's directory.
func prepare(ctx context.Context, c Config, build winver.Build, p *host.Parent, log *slog.Logger) (b boot, err error) {
	b = boot{Config: c, BootID: rand.Text(), Ceilings: podCeilings(p.Machine, p.Ceilings.Host)}
	release, err := holdCache(ctx, c.Cache)
	if err != nil {
		return b, err
	}
	defer release()
	p.Step("Wine")
	rt, err := wine.OpenRuntime(ctx, c.Cache, c.Bin, log)
	if err != nil {
		return b, err
	}
	prefix, err := rt.HostPrefix(ctx, build)
	if err != nil {
		return b, err
	}
	b.Runtime, b.Prefix = filepath.Base(rt.Dir), filepath.Base(prefix)
	if _, err := rt.ContainerRoot(ctx, build); err != nil {
		return b, err
	}
	p.Step("stand-in images")
	standIns, err := standin.Prepare(ctx, c.Cache, programsOf(c.Bin), log)
	if err != nil {
		return b, err
	}
	b.StandIns = standIns.Name()
	if err := recordUse(c.Dir, b.Runtime, b.Prefix, b.StandIns); err != nil {
		return b, err
	}
	p.Step("files")
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		switch strings.ToUpper(name) {
		case "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR":
			b.Environ = append(b.Environ, e)
		}
	}
	b.Boot, err = p.Boot()
	return b, err
}
