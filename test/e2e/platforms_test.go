// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package e2e

import (
	"bytes"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mullion-k8s/mullion/internal/cri/image/imagebuild"
)

// TestPlatforms: an archive with an image for Linux and for Windows, as BuildKit writes
// it, goes to the hosts of both, and each runs its own part.
func TestPlatforms(t *testing.T) {
	t.Parallel()
	c := up(t)
	ns := c.namespace(t)
	linuxprogArchive(t) // builds the program
	const ref = "example.test/both:v1"
	linux := buildImage(t, imagebuild.Spec{
		OS:          "linux",
		NoOSVersion: true,
		Layers:      []imagebuild.Layer{{Raw: linuxprog.layer}},
		Config:      v1.Config{Entrypoint: []string{"/linuxprog"}, Cmd: []string{"status"}},
	})
	windows := buildImage(t, winprogSpec(t))
	tar := archive(t, func(b *bytes.Buffer) error { return imagebuild.WriteIndex(b, ref, linux, windows) })
	out, err := c.try(t.Context(), string(tar), "load", "-", "--name", c.name, "--data-dir", c.dir)
	if err != nil {
		t.Fatalf("load: %v: %s", err, out)
	}
	for platform, host := range map[string]string{"linux/amd64": "linux-1", "windows/amd64": "win-1"} {
		if !printed(out, ref+" ("+platform, host) {
			t.Errorf("load does not say that %s is on %s:\n%s", platform, host, out)
		}
	}
	for os, want := range map[string]string{"linux": "Name:", "windows": `dir: C:\app <nil>`} {
		selector := "{kubernetes.io/os: " + os + "}"
		if os == "windows" {
			selector = "{node.kubernetes.io/windows-build: 10.0.17763}"
		}
		c.pod(t, ns, os, `nodeSelector: `+selector+`
  restartPolicy: Never
  containers:
  - {name: main, image: "`+ref+`", imagePullPolicy: Never}`)
		if got := c.logs(t, ns, os, want); !strings.Contains(got, want) {
			t.Errorf("the part for %s prints %q, which lacks %q", os, got, want)
		}
	}
}

// printed reports whether a line of text has all parts.
func printed(text string, parts ...string) bool {
	for line := range strings.Lines(text) {
		all := true
		for _, p := range parts {
			all = all && strings.Contains(line, p)
		}
		if all {
			return true
		}
	}
	return false
}
