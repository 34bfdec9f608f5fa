// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package imageload

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
)

// Listen makes the socket, for root, in place of one that an earlier process left.
func Listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", path, err), l.Close())
	}
	return l, nil
}
