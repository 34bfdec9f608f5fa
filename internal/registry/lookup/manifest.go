// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package lookup

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/mullion-k8s/mullion/internal/policy"
)

const (
	// maxIndex bounds the entries of an index. The largest known, with attestations
	// for each platform, have about 40.
	maxIndex = 256
	// maxUnnamed bounds how many entries without a platform are opened.
	maxUnnamed = 4
	// maxUser bounds the user of an image's configuration, in bytes: Windows has
	// DOMAIN\USER of 255 and 104 (k8s.io/kubernetes pkg/apis/core/validation).
	maxUser = 360
)

// The decoders below read only the needed fields: a registry's answer may be
// small as text but large as Go values.

// entry is one entry of an index.
type entry struct {
	MediaType types.MediaType `json:"mediaType"`
	Digest    string          `json:"digest"`
	Platform  *struct {
		OS           string `json:"os"`
		Architecture string `json:"architecture"`
		OSVersion    string `json:"os.version"`
	} `json:"platform"`
}

// decodeIndex reads the entries of an index that are images.
func decodeIndex(raw []byte) ([]entry, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, invalidf("an index that is not a JSON object")
	}
	var out []entry
	count := 0
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, invalidf("an index that is not JSON")
		}
		if key != "manifests" {
			var skipped json.RawMessage
			if err := dec.Decode(&skipped); err != nil {
				return nil, invalidf("an index that is not JSON")
			}
			continue
		}
		if t, err := dec.Token(); err != nil || t != json.Delim('[') {
			return nil, invalidf("an index whose manifests are not a list")
		}
		for dec.More() {
			var e entry
			if count++; count > maxIndex {
				return nil, invalidf("an index of more than %d images", maxIndex)
			}
			if err := dec.Decode(&e); err != nil {
				return nil, invalidf("an index with an entry that cannot be read")
			}
			if e.MediaType.IsImage() {
				out = append(out, e)
			}
		}
		if _, err := dec.Token(); err != nil {
			return nil, invalidf("an index that is not JSON")
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, invalidf("an index that is not JSON")
	}
	return out, nil
}

// indexPlatforms are the platforms that the entries name, each once; unnamed
// are the digests of entries without a platform.
func indexPlatforms(entries []entry) (platforms []policy.Platform, unnamed []string, err error) {
	for _, e := range entries {
		if e.Platform == nil || e.Platform.OS == "" {
			unnamed = append(unnamed, e.Digest)
			continue
		}
		p := policy.Platform{OS: e.Platform.OS, Arch: e.Platform.Architecture, OSVersion: e.Platform.OSVersion}
		if !p.Plausible() {
			return nil, nil, invalidf("an index with the platform %q",
				clip(e.Platform.OS+" "+e.Platform.Architecture+" "+e.Platform.OSVersion, 64))
		}
		// Attestations of builds are listed under a platform that does not
		// exist.
		if p.OS != "unknown" && !slices.Contains(platforms, p) {
			platforms = append(platforms, p)
		}
	}
	return platforms, unnamed, nil
}

// decodeManifest reads the digest of an image's configuration.
func decodeManifest(raw []byte) (config string, err error) {
	var m struct {
		Config struct {
			Digest string `json:"digest"`
		} `json:"config"`
	}
	if json.Unmarshal(raw, &m) != nil {
		return "", invalidf("a manifest that is not JSON")
	}
	if m.Config.Digest == "" {
		return "", invalidf("a manifest without a configuration")
	}
	return m.Config.Digest, nil
}

// decodeConfig reads the platform and the user of an image's configuration.
func decodeConfig(raw []byte) (policy.Platform, string, error) {
	var c struct {
		OS           string `json:"os"`
		Architecture string `json:"architecture"`
		OSVersion    string `json:"os.version"`
		Config       struct {
			User string `json:"User"`
		} `json:"config"`
	}
	if json.Unmarshal(raw, &c) != nil {
		return policy.Platform{}, "", invalidf("a configuration that is not JSON")
	}
	p := policy.Platform{OS: c.OS, Arch: c.Architecture, OSVersion: c.OSVersion}
	if !p.Plausible() {
		return policy.Platform{}, "",
			invalidf("an image whose platform is %q, which cannot run",
				clip(c.OS+" "+c.Architecture+" "+c.OSVersion, 64))
	}
	if len(c.Config.User) > maxUser || !printable(c.Config.User) {
		return policy.Platform{}, "", invalidf("an image with an invalid user")
	}
	return p, c.Config.User, nil
}

func printable(s string) bool {
	return !slices.ContainsFunc([]rune(s), func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' })
}
