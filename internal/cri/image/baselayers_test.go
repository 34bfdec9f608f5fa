// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package image

import (
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func TestBaseLayers(t *testing.T) {
	const mb = 1 << 20
	type layer struct {
		media     types.MediaType
		size      int64
		createdBy string
	}
	ordinary := func(createdBy string) layer { return layer{types.DockerLayer, 5 * mb, createdBy} }
	apply := layer{types.DockerLayer, 1500 * mb, "Apply image 10.0.17763.1"}
	update := layer{types.DockerLayer, 700 * mb, "Install update 10.0.17763.7919"}
	iisCommand := `powershell -Command Add-WindowsFeature Web-Server; Invoke-WebRequest -UseBasicParsing -Uri ` +
		`"https://example.com/ServiceMonitor.exe" -OutFile "C:\ServiceMonitor.exe"`
	for _, tt := range []struct {
		name   string
		image  string
		layers []layer
		n      int
		kind   BaseKind
	}{
		{"Server Core of today: distributable, known by its history", "app", []layer{apply, update, ordinary("copy")},
			2, ServerCore},
		{"Server Core before 2023: foreign", "app", []layer{{types.DockerForeignLayer, 1500 * mb, "x"},
			{types.DockerForeignLayer, 700 * mb, "y"}, ordinary("copy")}, 2, ServerCore},
		{"Nano Server, by its size", "app", []layer{{types.DockerLayer, 120 * mb, "Apply image 10.0.17763.1"},
			ordinary("copy")}, 1, NanoServer},
		{"Nano Server, by the name", "example.com/app:nanoserver-1809",
			[]layer{{types.OCIRestrictedLayer, 0, ""}, ordinary("copy")}, 1, NanoServer},
		{"unknown size", "app", []layer{{types.OCIUncompressedRestrictedLayer, 0, ""}}, 1, ServerCore},
		{"no base", "app", []layer{ordinary("copy"), ordinary("copy")}, 0, ""},
		{"base in the middle is none", "app", []layer{ordinary("copy"), apply}, 0, ""},
		{"IIS", "app", []layer{apply, update, ordinary(iisCommand), ordinary("copy")}, 3, IIS},
		{"IIS in two steps", "app", []layer{apply, ordinary("Add-WindowsFeature Web-Server"),
			ordinary("ADD ServiceMonitor.exe"), ordinary("copy")}, 3, IIS},
		{"a web server without its monitor", "app", []layer{apply, ordinary("Add-WindowsFeature Web-Server"),
			ordinary("copy")}, 1, ServerCore},
		{"a monitor later", "app", []layer{apply, ordinary("copy"), ordinary("ADD ServiceMonitor.exe")}, 1, ServerCore},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, c := &v1.Manifest{}, &v1.ConfigFile{}
			for _, l := range tt.layers {
				m.Layers = append(m.Layers, v1.Descriptor{MediaType: l.media, Size: l.size})
				c.History = append(c.History, v1.History{CreatedBy: l.createdBy},
					v1.History{CreatedBy: "Apply image nothing", EmptyLayer: true})
			}
			if n, kind := baseLayers(m, c, tt.image); n != tt.n || kind != tt.kind {
				t.Errorf("%d, %q; want %d, %q", n, kind, tt.n, tt.kind)
			}
		})
	}
}
