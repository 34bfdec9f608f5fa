// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/mullion-k8s/mullion/internal/durable"
)

// cached are the directories that hosts make in the cache, and their hash.
var cached = regexp.MustCompile(`^(?:wine|base|prefix|croot|account|standin)-(?:[^/]+-)?([0-9a-f]{12,16})$`)

// PruneCache removes from the cache the directories that no host uses, and
// unfinished directories of an interrupted start. hosts lists the directories of
// the hosts. It does not remove any directory while a host is being prepared, or if
// a host has not recorded its directories, as with older versions. It returns the
// names of the removed directories.
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
