// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image

import (
	"fmt"
	"strings"

	"github.com/distribution/reference"
)

// Reference is a name as containerd spells it: with the registry, and with
// either a tag or a digest.
type Reference struct {
	Name   string // "docker.io/library/redis"
	Tag    string
	Digest string // "sha256:…"; then Tag is empty
}

// ParseReference normalises a reference the way Docker and containerd do:
// "microsoft/iis" is "docker.io/microsoft/iis:latest", and a tag beside a
// digest is dropped.
func ParseReference(s string) (Reference, error) {
	named, err := reference.ParseDockerRef(s)
	if err != nil {
		return Reference{}, fmt.Errorf("parse image reference %q: %w", s, err)
	}
	r := Reference{Name: named.Name()}
	if d, ok := named.(reference.Digested); ok {
		r.Digest = d.Digest().String()
		if _, err := parseDigest(r.Digest); err != nil {
			return Reference{}, fmt.Errorf("parse image reference %q: %w", s, err)
		}
		return r, nil
	}
	if t, ok := named.(reference.Tagged); ok {
		r.Tag = t.Tag()
	}
	return r, nil
}

// String returns the full spelling.
func (r Reference) String() string {
	if r.Digest != "" {
		return r.Name + "@" + r.Digest
	}
	return r.Name + ":" + r.Tag
}

// registry returns the host, with a port if there is one.
func (r Reference) registry() string {
	host, _, _ := strings.Cut(r.Name, "/")
	return host
}
