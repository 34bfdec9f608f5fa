// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// mirrorVariable names the environment variable with the address of a mirror.
const mirrorVariable = "MULLION_DEBIAN_MIRROR"

// stalled is how long a mirror may send no data. apt's Acquire::http::Timeout has 30 seconds; a mirror behind a
// proxy may have to fetch a large file first.
const stalled = 2 * time.Minute

// otherMirror says how to go on after an error of a mirror.
const otherMirror = "try again later, or set " + mirrorVariable + " to the address of another mirror"

// mirror is the address of a copy of Debian's archive, without a slash at the end.
type mirror string

// findMirror returns the mirror at an address or, if that is empty, the mirror that this machine's apt uses. root is
// "/" except in tests.
func findMirror(address, root string) (mirror, error) {
	if address == "" {
		address = aptMirror(root)
	}
	if address == "" {
		return "", errors.New("find a mirror of Debian: this machine's apt has none: set " + mirrorVariable +
			" to the address of one, such as http://HOST/debian")
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("the address of the mirror: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("the address of the mirror, %q: not http://HOST/PATH or https://HOST/PATH", address)
	}
	return mirror(strings.TrimRight(address, "/")), nil
}

// aptMirror returns the first http or https address among apt's sources that has the main component of this Debian
// release, or "". Other sources of the machine (its security updates, other projects) are not the archive.
func aptMirror(root string) string {
	system, _ := os.ReadFile(filepath.Join(root, "etc/os-release")) // a system without one is not Debian
	value := func(name string) string {
		if m := regexp.MustCompile(`(?m)^` + name + `="?([^"\n]*)`).FindSubmatch(system); m != nil {
			return string(m[1])
		}
		return ""
	}
	if value("ID") != "debian" {
		return ""
	}
	dir := filepath.Join(root, "etc/apt")
	parts, _ := filepath.Glob(filepath.Join(dir, "sources.list.d", "*")) // the pattern is well-formed
	for _, name := range append([]string{filepath.Join(dir, "sources.list")}, parts...) {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		var sources []source
		switch filepath.Ext(name) {
		case ".list":
			sources = oneLine(string(text))
		case ".sources":
			sources = deb822(string(text))
		}
		for _, s := range sources {
			fits := slices.Contains(s.types, "deb") && slices.Contains(s.components, "main") &&
				(slices.Contains(s.suites, value("VERSION_CODENAME")) || slices.Contains(s.suites, "stable"))
			for _, uri := range s.uris {
				if fits && (strings.HasPrefix(uri, "http://") || strings.HasPrefix(uri, "https://")) {
					return uri
				}
			}
		}
	}
	return ""
}

// source is an entry of apt's list of sources; see sources.list(5).
type source struct{ types, uris, suites, components []string }

// oneLine reads lines such as "deb [signed-by=FILE] http://HOST/debian trixie main".
func oneLine(text string) []source {
	var all []source
	line := regexp.MustCompile(`(?m)^[ \t]*(deb)[ \t]+(?:\[.*\][ \t]+)?(\S+)[ \t]+(\S+)[ \t]+([^#\n]+)`)
	for _, m := range line.FindAllStringSubmatch(text, -1) {
		all = append(all, source{m[1:2], m[2:3], m[3:4], strings.Fields(m[4])})
	}
	return all
}

// deb822 reads stanzas of fields such as "URIs: http://HOST/debian", which go on in lines that begin with a space.
func deb822(text string) []source {
	var all []source
	field := regexp.MustCompile(`(?m)^([A-Za-z-]+):(.*(?:\n[ \t].*)*)`)
	comment := regexp.MustCompile(`(?m)^#.*\n?`)
	for _, stanza := range regexp.MustCompile(`\n[ \t]*\n`).Split(comment.ReplaceAllString(text, ""), -1) {
		fields := map[string][]string{}
		for _, m := range field.FindAllStringSubmatch(stanza, -1) {
			fields[strings.ToLower(m[1])] = strings.Fields(m[2])
		}
		if !slices.Contains(fields["enabled"], "no") {
			all = append(all, source{fields["types"], fields["uris"], fields["suites"], fields["components"]})
		}
	}
	return all
}

// get returns a file of the mirror of at most limit bytes. The error is fs.ErrNotExist if the mirror does not have it.
func (m mirror) get(parent context.Context, path string, limit int64) (data []byte, err error) {
	address := string(m) + "/" + (&url.URL{Path: path}).EscapedPath()
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	watch := time.AfterFunc(stalled, func() { cancel(fmt.Errorf("no data for %v", stalled)) })
	defer watch.Stop()
	defer func() {
		switch {
		case err == nil:
		case parent.Err() != nil, errors.Is(err, fs.ErrNotExist):
			err = fmt.Errorf("GET %s: %w", address, err)
		default:
			err = fmt.Errorf("GET %s: %w: %s", address, cmp.Or(context.Cause(ctx), err), otherMirror)
		}
	}()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, errors.Unwrap(err) // without the address a second time
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone:
		return nil, fmt.Errorf("%s: %w", response.Status, fs.ErrNotExist)
	default:
		return nil, errors.New(response.Status)
	}
	data, err = io.ReadAll(&watched{io.LimitReader(response.Body, limit+1), watch})
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("more than the expected %d bytes", limit)
	}
	return data, err
}

// watched winds up a timer at each read.
type watched struct {
	io.Reader
	timer *time.Timer
}

func (r *watched) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.timer.Reset(stalled)
	return n, err
}

// fetch returns a file of a known size and SHA-256 checksum: the one in the cache or else that of the mirror, which it
// puts into the cache. A file has its name in the cache only after it was verified.
func (b *builder) fetch(ctx context.Context, path string, size int64, sum string) ([]byte, error) {
	name := filepath.Join(b.cache, filepath.Base(path))
	if data, err := os.ReadFile(name); err == nil && verify(data, size, sum) == nil {
		return data, nil
	}
	m, err := b.mirror()
	if err != nil {
		return nil, err
	}
	data, err := m.get(ctx, path, size)
	if err != nil {
		return nil, err
	}
	if err := verify(data, size, sum); err != nil {
		return nil, fmt.Errorf("GET %s/%s: %w: %s", m, path, err, otherMirror)
	}
	if b.cache == "" {
		return data, nil
	}
	if err := os.MkdirAll(b.cache, 0o755); err != nil {
		return nil, err
	}
	part := name + ".part"
	if err = os.WriteFile(part, data, 0o644); err == nil {
		err = os.Rename(part, name)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(part))
	}
	return data, nil
}

// verify compares a file with its size and SHA-256 checksum.
func verify(data []byte, size int64, sum string) error {
	if n := int64(len(data)); n != size {
		return fmt.Errorf("found %d bytes, expected %d", n, size)
	}
	if found := sha256.Sum256(data); hex.EncodeToString(found[:]) != sum {
		return fmt.Errorf("found the SHA-256 checksum %x, expected %s", found, sum)
	}
	return nil
}
