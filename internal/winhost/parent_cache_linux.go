// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mullion-k8s/mullion/internal/durable"
)

// cacheUse records which parts of the shared cache a host uses; cache.json in its
// directory. An upgrade of Wine or mullion creates new directories in the cache;
// directories that no host uses any more can be removed.
type cacheUse struct {
	Names []string `json:"names"` // of directories in the cache
}

func useFile(hostDir string) string { return filepath.Join(hostDir, "cache.json") }

// cacheLock returns the file whose lock a host holds, shared, while it makes
// directories that no cache.json names yet, and PruneCache exclusively.
func cacheLock(cache string) (path string, err error) {
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", fmt.Errorf("lock cache: %w", err)
	}
	return filepath.Join(cache, ".lock"), nil
}

// holdCache keeps PruneCache away until release is called.
func holdCache(ctx context.Context, cache string) (release func(), err error) {
	path, err := cacheLock(cache)
	if err != nil {
		return nil, err
	}
	l, err := durable.WaitLock(ctx, path, durable.Shared)
	if err != nil {
		return nil, fmt.Errorf("wait for the cache: %w", err)
	}
	return l.Unlock, nil
}

// recordUse records the cache directories in use by the host.
func recordUse(hostDir string, names ...string) error {
	return durable.WriteDocument(useFile(hostDir), cacheUse{names})
}
