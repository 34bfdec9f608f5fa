// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package critest

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/standin"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

// suiteImages adds the images of the suite to the stand-ins, so that it runs
// without a registry (cri-tools v1.36.0, pkg/validate/consts.go). Each is the
// stand-in of Server Core with a label more, so that they differ. One of them is
// asked for by a digest, which is not that of its content: no user has these.
type suiteImages struct{ *standin.Catalogue }

const (
	suiteRepo   = "gcr.io/k8s-staging-cri-tools/win-test-image-"
	suiteDigest = "sha256:0e8cc62aee4ed03eb85150eb86e5d1fd7bda705511b8951fe6507835cbd34be3"
	serverCore  = "mcr.microsoft.com/windows/servercore:ltsc2019"
)

func (s suiteImages) Resolve(ref image.Reference, host winver.Build) (image.StandIn, bool) {
	name, ok := strings.CutPrefix(ref.Name, suiteRepo)
	if !ok {
		return s.Catalogue.Resolve(ref, host)
	}
	if !slices.Contains([]string{"latest", "tag", "digest", "1", "2", "3", "tags"}, name) ||
		ref.Digest != "" && (name != "digest" || ref.Digest != suiteDigest) {
		return image.StandIn{}, false
	}
	base, err := image.ParseReference(serverCore)
	if err != nil {
		return image.StandIn{}, false
	}
	in, ok := s.Catalogue.Resolve(base, host)
	if !ok {
		return image.StandIn{}, false
	}
	in, err = labelled(in, name)
	return in, err == nil
}

// labelled returns an image that differs from in by a label only.
func labelled(in image.StandIn, name string) (image.StandIn, error) {
	var config v1.ConfigFile
	var manifest v1.Manifest
	if err := json.Unmarshal(in.Config, &config); err != nil {
		return in, err
	}
	if err := json.Unmarshal(in.Manifest, &manifest); err != nil {
		return in, err
	}
	config.Config.Labels["critest"] = name
	var err error
	if in.Config, err = json.Marshal(config); err != nil {
		return in, err
	}
	manifest.Config.Size = int64(len(in.Config))
	if manifest.Config.Digest, _, err = v1.SHA256(strings.NewReader(string(in.Config))); err != nil {
		return in, err
	}
	in.Manifest, err = json.Marshal(manifest)
	return in, err
}

// TestSuiteImages: the suite gets what it expects of its images, and the stand-ins
// that users get do not answer for them.
func TestSuiteImages(t *testing.T) {
	dir := t.TempDir()
	programs := standin.Programs{
		Winbox:     filepath.Join(dir, "winbox.exe"),
		PowerShell: filepath.Join(dir, "powershell.exe"),
	}
	for _, name := range []string{programs.Winbox, programs.PowerShell} {
		if err := os.WriteFile(name, []byte("MZ"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	host := must(winver.Parse("2019"))(t)
	standIns := must(standin.Prepare(t.Context(), dir, programs, slog.New(slog.DiscardHandler)))(t)
	store := must(image.Open(t.TempDir(), image.Config{
		HostBuild:   host,
		StandIns:    suiteImages{standIns},
		ExternalDir: dir,
		UID:         -1,
		GID:         -1,
	}))(t)
	t.Cleanup(func() { _ = store.Close() })
	pull := func(name string) *image.Image {
		t.Helper()
		return must(store.Pull(context.Background(), name, nil))(t)
	}
	ids := map[string]bool{}
	for _, n := range []string{"1", "2", "3"} {
		ids[pull(suiteRepo+n).ID] = true
		pull(suiteRepo + "tags:" + n)
	}
	if len(ids) != 3 {
		t.Errorf("three images have IDs %v", ids)
	}
	if img := pull(suiteRepo + "tags:1"); len(img.RepoTags) != 3 {
		t.Errorf("tags %q", img.RepoTags)
	}
	const byDigest = suiteRepo + "digest@" + suiteDigest
	if img := pull(byDigest); len(img.RepoTags) != 0 || !slices.Equal(img.RepoDigests, []string{byDigest}) {
		t.Errorf("by digest: %q, %q", img.RepoTags, img.RepoDigests)
	}
	for _, name := range []string{byDigest, suiteRepo + "latest", "registry.k8s.io/e2e-test-images/busybox:1.29-2",
		"registry.k8s.io/e2e-test-images/nginx:1.14-2", serverCore + "@" + suiteDigest} {
		ref := must(image.ParseReference(name))(t)
		if _, ok := standIns.Resolve(ref, host); ok {
			t.Errorf("users get a stand-in for %s", name)
		}
	}
}
