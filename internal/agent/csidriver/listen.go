// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package csidriver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"google.golang.org/grpc"

	"github.com/mullion-k8s/mullion/internal/agent/storage"
)

// sockets returns where the kubelet finds the driver, and where it looks for new ones
// (kubernetes v1.36.3 pkg/kubelet/config/defaults.go).
func (d *Driver) sockets() (endpoint, registration string) {
	return filepath.Join(d.cfg.KubeletDir, "plugins", storage.Driver, "csi.sock"),
		filepath.Join(d.cfg.KubeletDir, "plugins_registry", storage.Driver+"-reg.sock")
}

// listen opens a socket, in place of one that an earlier driver left.
func listen(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("listen for the kubelet: %w", err)
	}
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("listen for the kubelet: %w", err)
	case st.IsDir():
		return nil, fmt.Errorf("listen for the kubelet: %s is a directory; remove it", path)
	default:
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("listen for the kubelet: remove the file at the socket's path: %w", err)
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for the kubelet: %w", err)
	}
	// On Windows the directory's access control list protects it.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("listen for the kubelet: %w", err), l.Close())
	}
	return l, nil
}

// serve serves until the context is cancelled, and then ends the calls under way.
func serve(ctx context.Context, s *grpc.Server, l net.Listener) error {
	defer context.AfterFunc(ctx, s.GracefulStop)()
	err := s.Serve(l)
	if ctx.Err() != nil {
		return nil
	}
	return err
}
