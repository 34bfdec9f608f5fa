// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/mullion-k8s/mullion/internal/durable"
)

// cacheUse is what a host says of the shared cache; cache.json in its directory.
// An upgrade of Wine or of mullion makes new directories in the cache; those that
// no host names any more can go.
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

// recordUse writes down what the host uses.
func recordUse(hostDir string, names ...string) error {
	return durable.WriteDocument(useFile(hostDir), cacheUse{names})
}

// cached are the directories that hosts make in the cache, and their hash.
var cached = regexp.MustCompile(`^(?:wine|base|prefix|croot|account|standin)-(?:[^/]+-)?([0-9a-f]{12,16})$`)

// PruneCache removes from the cache what none of the hosts uses, hosts being
// their directories, and what an interrupted start has left half made. It
// removes nothing while a host is being prepared, or if there is a host that
// says nothing about its use, as those of older versions do. It returns the
// names of what it removed.
func PruneCache(cache string, hosts []string) (removed []string, err error) {
	entries, err := os.ReadDir(cache)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("prune cache: %w", err)
	}
	path, err := cacheLock(cache)
	if err != nil {
		return nil, err
	}
	l, err := durable.TryLock(path, durable.Exclusive)
	if _, busy := errors.AsType[*durable.LockedError](err); busy {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("prune cache: %w", err)
	}
	defer l.Unlock()
	used := map[string]bool{}
	for _, h := range hosts {
		u, err := durable.ReadStatus[cacheUse](useFile(h))
		if err != nil {
			return nil, nil
		}
		for _, name := range u.Names {
			if m := cached.FindStringSubmatch(name); m != nil {
				used[m[1]] = true
			}
		}
	}
	for _, e := range entries {
		name := e.Name()
		half := strings.HasPrefix(name, ".tmp-") || strings.HasPrefix(name, ".standin-")
		m := cached.FindStringSubmatch(strings.TrimPrefix(name, ".lock-"))
		if !half && (m == nil || used[m[1]]) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(cache, name)); err != nil {
			return removed, fmt.Errorf("prune cache: %w", err)
		}
		if m != nil && !strings.HasPrefix(name, ".") {
			removed = append(removed, name)
		}
	}
	return removed, nil
}
