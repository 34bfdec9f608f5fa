// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package registry

import (
	"fmt"
	"strings"

	"github.com/distribution/reference"
	"k8s.io/utils/lru"
)

// Normalise returns a reference in the form that container runtimes use:
// "docker.io/library/nginx:latest" for "nginx"; if it has a tag and a digest,
// only the digest is kept.
func Normalise(ref string) (string, error) {
	named, err := reference.ParseDockerRef(ref)
	if err != nil {
		return "", fmt.Errorf("parse image reference %.256q: %w", ref, err)
	}
	return named.String(), nil
}

// Spellings returns the common spellings of a normalised reference.
func Spellings(ref string) []string {
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

// Reference is a parsed reference.
type Reference struct {
	Named reference.Named
	Text  string // normalised
}

// Parser parses references and caches them: parsing one takes about ten
// microseconds, and the same few recur.
type Parser struct{ known *lru.Cache } // of Reference by the text that was parsed

const (
	// maxReferences and maxReference, in bytes, bound the cache of a Parser to
	// a few MB.
	maxReferences = 4096
	maxReference  = 400
)

// NewParser returns an empty Parser. It may be used concurrently.
func NewParser() Parser { return Parser{lru.New(maxReferences)} }

// Parse parses a reference from a pod; ok is false if it is invalid.
func (p Parser) Parse(text string) (ref Reference, ok bool) {
	if v, ok := p.known.Get(text); ok {
		return v.(Reference), true
	}
	named, err := reference.ParseDockerRef(text)
	if err != nil {
		return Reference{}, false
	}
	ref = Reference{named, named.String()}
	if len(text) <= maxReference {
		p.known.Add(text, ref)
	}
	return ref, true
}
