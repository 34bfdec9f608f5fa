// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/mullion-k8s/mullion/internal/cgroup"
	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/logkey"
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
		Cluster:     c.Cluster,
		Name:        c.Name(),
		Build:       build.OSVersion(),
		Product:     build.ProductName,
		Address:     c.Address(),
		Gateway:     c.Gateway,
		PodCIDR:     c.Agent.Cluster.PodCIDR,
		ServiceCIDR: c.Agent.Cluster.ServiceCIDR,
		Second:      c.Second,
		Dir:         c.Dir,
		Fabric:      c.Fabric,
		Status:      c.Status,
		Limits:      c.Limits,
		Hosts:       c.Hosts,
		// For machineNetns and fabricNetns.
		Descriptors: []string{"/proc/self/ns/net", c.Fabric},
		Prepare: func(ctx context.Context, p *host.Parent) (any, error) {
			return prepare(ctx, c, build, p, log)
		},
	}, log)
}

// prepare makes templates, images and the host's directory.
func prepare(ctx context.Context, c Config, build winver.Build, p *host.Parent, log *slog.Logger) (b boot, err error) {
	b = boot{Config: c, BootID: rand.Text(), Ceilings: podCeilings(p.Machine, p.Ceilings.Host), Size: p.Size}
	release, err := holdCache(ctx, c.Cache)
	if err != nil {
		return b, err
	}
	defer release()
	p.Step("Wine")
	rt, err := wine.OpenRuntime(ctx, c.Cache, filepath.Join(c.Bin, "native"), log)
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
	if err := directories(c, b.Prefix, log); err != nil {
		return b, err
	}
	if b.CA, b.Token, err = host.ReadSecrets(c.CAFile, c.TokenFile); err != nil {
		return b, err
	}
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		switch strings.ToUpper(name) {
		case "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR":
			b.Environ = append(b.Environ, e)
		}
	}
	b.Cgroups, err = cgroup.Find()
	return b, err
}

// directories makes what the mounts need. The overlay's upper directory belongs
// to one template: over another one it would be a mixture of two Windows
// installations, so then the host starts over, as a reinstalled server does.
func directories(c Config, template string, log *slog.Logger) error {
	mark := filepath.Join(c.Dir, "prefix", "template")
	old, err := os.ReadFile(mark)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read template of the host: %w", err)
	}
	if err == nil && string(old) != template {
		log.Info("host is reinstalled", logkey.Reason, "its Wine template changed", logkey.Path, template)
		for _, d := range []string{"prefix", "cri", "hns"} {
			if err := os.RemoveAll(filepath.Join(c.Dir, d)); err != nil {
				return fmt.Errorf("remove former installation: %w", err)
			}
		}
	}
	for _, d := range []string{upperDir(c), workDir(c)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return fmt.Errorf("make host directory: %w", err)
		}
	}
	// C:\ itself is listable, as on Windows; the directory above is not.
	if err := os.Chmod(upperDir(c), 0o755); err != nil {
		return fmt.Errorf("make host directory: %w", err)
	}
	return os.WriteFile(mark, []byte(template), 0o600)
}
