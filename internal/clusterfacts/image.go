// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package clusterfacts

import (
	"fmt"
	"strings"

	"github.com/distribution/reference"
	"k8s.io/utils/lru"

	"github.com/mullion-k8s/mullion/internal/policy"
)

// normalise spells a reference as container runtimes do:
// "docker.io/library/nginx:latest" for "nginx"; of a tag and a digest only the
// digest stays.
func normalise(ref string) (string, error) {
	named, err := reference.ParseDockerRef(ref)
	if err != nil {
		return "", fmt.Errorf("parse image reference %q: %w", clip(ref, 256), err)
	}
	return named.String(), nil
}

// references remembers what references mean: reading one costs some ten
// microseconds, and the same few come again and again.
type references struct{ read *lru.Cache } // of parsed by the reference as somebody wrote it

const (
	// maxReferences and maxReference bound what is remembered: at most some MB.
	maxReferences = 4096
	maxReference  = 400
)

type parsed struct {
	text  string // normalised
	named reference.Named
}

func newReferences() references { return references{lru.New(maxReferences)} }

// parse reads a reference of a pod; ok is false if it is none.
func (r references) parse(ref string) (p parsed, ok bool) {
	if v, ok := r.read.Get(ref); ok {
		return v.(parsed), true
	}
	named, err := reference.ParseDockerRef(ref)
	if err != nil {
		return parsed{}, false
	}
	p = parsed{named.String(), named}
	if len(ref) <= maxReference {
		r.read.Add(ref, p)
	}
	return p, true
}

// spellings are the ways in which people write a normalised reference.
func spellings(ref string) []string {
	out := []string{ref}
	if short, ok := strings.CutPrefix(ref, "docker.io/library/"); ok {
		out = append(out, "library/"+short, short)
	} else if short, ok := strings.CutPrefix(ref, "docker.io/"); ok {
		out = append(out, short)
	}
	for _, s := range out {
		if short, ok := strings.CutSuffix(s, ":latest"); ok {
			out = append(out, short)
		}
	}
	return out
}

// platform takes what somebody else wrote about an image, unless it cannot be
// true: it is shown to people, and kept.
func platform(os, arch, version string) (policy.Platform, bool) {
	ok := plain(os, 32) && os != "" && plain(arch, 32) && plain(version, 64)
	return policy.Platform{OS: os, Arch: arch, OSVersion: version}, ok
}

// plain says whether a text is short and has only what names of platforms have.
func plain(s string, limit int) bool {
	odd := func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		return !letter && (r < '0' || r > '9') && !strings.ContainsRune("._-+~", r)
	}
	return len(s) <= limit && !strings.ContainsFunc(s, odd)
}

// clip shortens a foreign text to a number of bytes, for people.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
