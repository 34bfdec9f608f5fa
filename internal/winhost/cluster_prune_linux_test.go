// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestPruneCache(t *testing.T) {
	const old, current, other = "0123456789ab", "ba9876543210", "00112233445566aa"
	make := func() (cache string, hosts []string) {
		dir := t.TempDir()
		cache = filepath.Join(dir, "cache")
		for _, name := range []string{
			"wine-" + old, "base-" + old, "prefix-17763.7919-" + old, "croot-17763.7919-" + old, "account-64000-" + old,
			"standin-fedcba9876543210", "wine-" + current, "prefix-17763.7919-" + current, "croot-20348.4294-" +
				current, "standin-" + other,
			".tmp-wine-" + current, ".standin-123", "something of the user", "wine-notes",
		} {
			if err := os.MkdirAll(filepath.Join(cache, name, "sub"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for _, lock := range []string{".lock-wine-" + old, ".lock-wine-" + current} {
			if err := os.WriteFile(filepath.Join(cache, lock), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for name, uses := range map[string][]string{
			"a": {"wine-" + current, "prefix-17763.7919-" + current, "standin-" + other},
			"b": {"wine-" + current},
		} {
			host := filepath.Join(dir, name)
			if err := os.Mkdir(host, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := recordUse(host, uses...); err != nil {
				t.Fatal(err)
			}
			hosts = append(hosts, host)
		}
		return cache, hosts
	}
	list := func(dir string) []string {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	cache, hosts := make()
	all := list(cache)

	release, err := holdCache(t.Context(), cache)
	if err != nil {
		t.Fatal(err)
	}
	again, err := holdCache(t.Context(), cache) // a second host
	if err != nil {
		t.Fatal(err)
	}
	release()
	if removed, err := PruneCache(cache, hosts); err != nil || removed != nil {
		t.Errorf("while a host is being prepared: %q, %v", removed, err)
	}
	again()
	unknown := t.TempDir()
	if removed, err := PruneCache(cache, append(hosts, unknown)); err != nil || removed != nil {
		t.Errorf("beside a host of an older version: %q, %v", removed, err)
	}
	if got := list(cache); !slices.Equal(got, append([]string{".lock"}, all...)) && len(got) != len(all)+1 {
		t.Errorf("something was removed: %q", got)
	}

	removed, err := PruneCache(cache, hosts)
	if err != nil || len(removed) != 6 || !slices.Contains(removed, "croot-17763.7919-"+old) {
		t.Errorf("removed %q, %v", removed, err)
	}
	want := []string{
		".lock", ".lock-wine-" + current, "croot-20348.4294-" + current, "prefix-17763.7919-" + current,
		"something of the user", "standin-" + other, "wine-" + current, "wine-notes",
	}
	if got := list(cache); !slices.Equal(got, want) {
		t.Errorf("left %q, want %q", got, want)
	}
	if removed, err := PruneCache(filepath.Join(cache, "missing"), nil); err != nil || removed != nil {
		t.Errorf("of no cache: %q, %v", removed, err)
	}
}
