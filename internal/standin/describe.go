// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package standin

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// describe returns the config and manifest of a stand-in. They are a function of
// flavor, build and content, so that equal images have equal IDs under all
// their names and on all hosts. The layers have no blobs: their descriptors
// are of non-distributable layers, and their digests name the directories.
func (c *Catalogue) describe(f flavor, build winver.Build) (image.StandIn, error) {
	cfg := v1.ConfigFile{
		Architecture: "amd64", OS: "windows", OSVersion: build.OSVersion(),
		Created: v1.Time{Time: created()},
		Config:  *f.config.DeepCopy(),
		RootFS:  v1.RootFS{Type: "layers"},
	}
	cfg.Config.Labels = map[string]string{
		Label:       f.name,
		noticeLabel: "made by mullion in the place of a Windows image; holds nothing of it",
	}
	maps.Copy(cfg.Config.Labels, f.config.Labels)
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1}
	var size int64
	for i, dir := range c.dirs(f) {
		h := hash([]byte(dir))
		cfg.RootFS.DiffIDs = append(cfg.RootFS.DiffIDs, h)
		cfg.History = append(cfg.History, v1.History{Created: cfg.Created, CreatedBy: "mullion stand-in " + f.stack[i]})
		m.Layers = append(m.Layers, v1.Descriptor{MediaType: types.OCIUncompressedRestrictedLayer, Digest: h,
			Size: c.sizes[f.stack[i]]})
		size += c.sizes[f.stack[i]]
	}
	raw, err := json.Marshal(cfg)
	if err != nil {
		return image.StandIn{}, fmt.Errorf("describe stand-in %s: %w", f.name, err)
	}
	m.Config = v1.Descriptor{MediaType: types.OCIConfigJSON, Digest: hash(raw), Size: int64(len(raw))}
	manifest, err := json.Marshal(m)
	if err != nil {
		return image.StandIn{}, fmt.Errorf("describe stand-in %s: %w", f.name, err)
	}
	return image.StandIn{Manifest: manifest, Config: raw, OSVersion: cfg.OSVersion, Dirs: c.dirs(f), Size: size}, nil
}

// created returns the date of all stand-ins. It is fixed so that IDs are.
func created() time.Time { return time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC) }

func hash(data []byte) v1.Hash {
	sum := sha256.Sum256(data)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
}
