// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/atomicfile"
)

// cacheUse is what a host says of the shared cache; cache.json in its directory.
// An upgrade of Wine or of mullion makes new directories in the cache; those that
// no host names any more can go.
type cacheUse struct {
	Names []string `json:"names"` // of directories in the cache
}

func useFile(hostDir string) string { return filepath.Join(hostDir, "cache.json") }

// cachePoll is how often a waiting host asks for the cache. Removing old
// directories takes tenths of a second.
const cachePoll = 50 * time.Millisecond

// holdCache keeps PruneCache away while a host makes directories that no
// cache.json names yet. Hosts do not exclude each other.
func holdCache(ctx context.Context, cache string) (release func(), err error) {
	for {
		release, ok, err := lockCache(cache, unix.LOCK_SH)
		if ok || err != nil {
			return release, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the cache: %w", context.Cause(ctx))
		case <-time.After(cachePoll):
		}
	}
}

func lockCache(cache string, how int) (release func(), ok bool, err error) {
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return nil, false, fmt.Errorf("lock cache: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(cache, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, fmt.Errorf("lock cache: %w", err)
	}
	err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return nil, false, f.Close()
	}
	if err != nil {
		return nil, false, errors.Join(fmt.Errorf("lock cache: %w", err), f.Close())
	}
	return func() { _ = f.Close() }, true, nil // closing drops the lock
}

// recordUse writes down what the host uses.
func recordUse(hostDir string, names ...string) error {
	content, err := json.Marshal(cacheUse{names})
	if err != nil {
		return fmt.Errorf("record use of the cache: %w", err)
	}
	return atomicfile.Write(useFile(hostDir), append(content, '\n'), 0o600)
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
	release, ok, err := lockCache(cache, unix.LOCK_EX)
	if !ok {
		return nil, err
	}
	defer release()
	used := map[string]bool{}
	for _, h := range hosts {
		content, err := os.ReadFile(useFile(h))
		var u cacheUse
		if err != nil || json.Unmarshal(content, &u) != nil {
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
