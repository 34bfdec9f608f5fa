// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package registry

import (
	"fmt"
	"strings"

	"github.com/distribution/reference"
	"k8s.io/utils/lru"
)

// Normalise spells a reference as container runtimes do:
// "docker.io/library/nginx:latest" for "nginx"; of a tag and a digest only the
// digest stays.
func Normalise(ref string) (string, error) {
	named, err := reference.ParseDockerRef(ref)
	if err != nil {
		return "", fmt.Errorf("parse image reference %.256q: %w", ref, err)
	}
	return named.String(), nil
}

// Spellings returns the ways in which people write a normalised reference.
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

// Reference is a reference that was parsed.
type Reference struct {
	Named reference.Named
	Text  string // normalised
}

// Parser parses references and remembers them: parsing one costs some ten
// microseconds, and the same few come again and again.
type Parser struct{ known *lru.Cache } // of Reference by the text that was parsed

const (
	// maxReferences and maxReference, in bytes, bound what a Parser remembers: at
	// most some MB.
	maxReferences = 4096
	maxReference  = 400
)

// NewParser returns a Parser that knows no reference yet. It may be used
// concurrently.
func NewParser() Parser { return Parser{lru.New(maxReferences)} }

// Parse parses a reference as a pod has it; ok is false if it is none.
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
