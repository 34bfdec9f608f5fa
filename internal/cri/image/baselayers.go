// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image

import (
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// BaseKind is a kind of Microsoft's base images.
type BaseKind string

// The kinds that have stand-ins. windows/server and windows are stood in for by
// ServerCore: both are supersets of it, and their additions do not work here.
const (
	ServerCore BaseKind = "servercore"
	NanoServer BaseKind = "nanoserver"
	// IIS is Server Core with the layer of Microsoft's IIS image, whose programs
	// do not start under Wine either.
	IIS BaseKind = "iis"
)

// Compressed sizes that distinguish Nano Server (since 1709: 80 to 300 MB; the
// 2016 release has 380 MB) from Server Core (1.3 GB and more). A layer below the
// lower bound is not a Microsoft base image: a test or a tool made it.
const (
	nanoMinBytes = 20 << 20
	nanoMaxBytes = 600 << 20
)

// baseLayers returns the number of leading layers that are Microsoft's base
// image, and its kind. Two signs are known, and either is enough:
//
//   - the media type is non-distributable ("foreign"), as it was until 2023;
//   - the history says "Apply image …" or "Install update …", which only
//     Microsoft's own builds write; a Dockerfile cannot (seen in
//     github.com/docker-library/repo-info for images from 2016 to 2026:
//     "Apply image 10.0.20348.2700", "Apply image 1809-RTM-amd64",
//     "Install update 10.0.17763.6414").
func baseLayers(m *v1.Manifest, cfg *v1.ConfigFile, name string) (n int, kind BaseKind) {
	history := layerHistory(cfg)
	var size int64
	for i, l := range m.Layers {
		if !foreign(l) && (i >= len(history) || !microsofts(history[i])) {
			break
		}
		n++
		size += l.Size
	}
	if n == 0 {
		return 0, ""
	}
	if web := webServerLayers(history[min(n, len(history)):]); web > 0 && n+web <= len(m.Layers) {
		return n + web, IIS
	}
	text := strings.ToLower(name + " " + strings.Join(history[:min(n, len(history))], " "))
	switch {
	case strings.Contains(text, "nanoserver"):
		return n, NanoServer
	case strings.Contains(text, "servercore"):
		return n, ServerCore
	case size >= nanoMinBytes && size < nanoMaxBytes:
		return n, NanoServer
	}
	return n, ServerCore
}

// webServerLayers counts the layers that install IIS, up to and with the one
// that fetches ServiceMonitor.exe: the commands of Microsoft's own Dockerfiles
// (github.com/microsoft/iis-docker), which others copy. Zero without such a layer.
func webServerLayers(history []string) int {
	for i, h := range history {
		h = strings.ToLower(h)
		if !strings.Contains(h, "web-server") && !strings.Contains(h, "iis-webserver") &&
			!strings.Contains(h, "servicemonitor") {
			break
		}
		if strings.Contains(h, "servicemonitor") {
			return i + 1
		}
	}
	return 0
}

// layerHistory returns the history without entries that made no layer.
func layerHistory(cfg *v1.ConfigFile) []string {
	var out []string
	for _, h := range cfg.History {
		if !h.EmptyLayer {
			out = append(out, h.CreatedBy)
		}
	}
	return out
}

func microsofts(createdBy string) bool {
	return strings.HasPrefix(createdBy, "Apply image ") || strings.HasPrefix(createdBy, "Install update ")
}

// foreign recognises non-distributable layers in Docker's and OCI's spelling.
func foreign(d v1.Descriptor) bool {
	mt := string(d.MediaType)
	return strings.Contains(mt, ".foreign.") || strings.Contains(mt, ".nondistributable.")
}
