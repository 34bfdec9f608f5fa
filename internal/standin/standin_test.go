// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package standin_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/cri/image/imagebuild"
	"github.com/mullion-k8s/mullion/internal/standin"
	"github.com/mullion-k8s/mullion/internal/winsys/winver"
)

func programs(t *testing.T) standin.Programs {
	t.Helper()
	dir := t.TempDir()
	p := standin.Programs{Winbox: filepath.Join(dir, "winbox.exe"), PowerShell: filepath.Join(dir, "powershell.exe")}
	for _, name := range []string{p.Winbox, p.PowerShell} {
		if err := os.WriteFile(name, []byte("MZ "+filepath.Base(name)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func find(t *testing.T, name string) winver.Build {
	t.Helper()
	b, err := winver.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func prepare(t *testing.T, cache string, p standin.Programs) *standin.Catalogue {
	t.Helper()
	c, err := standin.Prepare(context.Background(), cache, p, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func openStore(t *testing.T, cache string, c *standin.Catalogue, host winver.Build) *image.Store {
	t.Helper()
	s, err := image.Open(t.TempDir(), image.Config{HostBuild: host, StandIns: c, ExternalDir: cache, UID: -1, GID: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestPrepareIsMadeOnceWhereverTheProgramsLie(t *testing.T) {
	cache := t.TempDir()
	prepare(t, cache, programs(t))
	prepare(t, cache, programs(t)) // the same content elsewhere, as a host sees it
	entries, err := os.ReadDir(cache)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || !strings.HasPrefix(entries[0].Name(), "standin-") {
		t.Errorf("cache has %v", entries)
	}
}

// TestOpen: what was prepared is found again by its name alone.
func TestOpen(t *testing.T) {
	cache := t.TempDir()
	made := prepare(t, cache, programs(t))
	got, err := standin.Open(cache, made.Name())
	if err != nil || !reflect.DeepEqual(got, made) {
		t.Errorf("%+v, %v, want %+v", got, err, made)
	}
	if got, err := standin.Open(cache, "standin-0"); err == nil {
		t.Errorf("%+v of a name that was never prepared", got)
	}
}

func TestInstall(t *testing.T) {
	cache := t.TempDir()
	c := prepare(t, cache, programs(t))
	for _, tt := range []struct {
		host string
		want []string // names that must be there
		not  []string // and names that must not
	}{
		{"2016", []string{"microsoft/iis", "microsoft/windowsservercore:latest", "microsoft/nanoserver",
			"redis:3.0-nanoserver", "mcr.microsoft.com/windows/servercore:ltsc2016"},
			[]string{"microsoft/iis:windowsservercore-1709", "mcr.microsoft.com/windows/servercore:ltsc2019"}},
		{"1709", []string{"microsoft/windowsservercore:1709", "microsoft/iis:windowsservercore-1709",
			"microsoft/nanoserver:1709", "microsoft/iis"}, nil},
		{"1803", []string{"microsoft/windowsservercore:1803", "mcr.microsoft.com/windows/nanoserver:1803"}, nil},
		{"2019", []string{"mcr.microsoft.com/windows/servercore:ltsc2019", "mcr.microsoft.com/windows/servercore:1809",
			"mcr.microsoft.com/windows/nanoserver:1809",
			"mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2019",
			"mcr.microsoft.com/windows/servercore/iis", "registry.k8s.io/pause:3.10.2", "microsoft/iis",
			"microsoft/windowsservercore:latest", "microsoft/nanoserver"},
			[]string{"microsoft/iis:windowsservercore-ltsc2016", "mcr.microsoft.com/windows/servercore:ltsc2022"}},
		{"2022", []string{"mcr.microsoft.com/windows/servercore:ltsc2022",
			"mcr.microsoft.com/powershell:lts-nanoserver-ltsc2022"},
			[]string{"mcr.microsoft.com/windows/servercore:ltsc2019", "mcr.microsoft.com/windows/servercore:ltsc2025"}},
		{"23H2", []string{"mcr.microsoft.com/windows/servercore:ltsc2022"},
			[]string{"mcr.microsoft.com/windows/servercore:ltsc2025"}},
		{"2025", []string{"mcr.microsoft.com/windows/servercore:ltsc2025",
			"mcr.microsoft.com/windows/servercore:ltsc2022"},
			[]string{"mcr.microsoft.com/windows/servercore:ltsc2019"}},
	} {
		t.Run(tt.host, func(t *testing.T) {
			host := find(t, tt.host)
			s := openStore(t, cache, c, host)
			if _, err := standin.Install(context.Background(), s, c, host); err != nil {
				t.Fatal(err)
			}
			for _, name := range tt.want {
				img, err := s.Get(name)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				if !img.StandIn || img.Config.Labels[standin.Label] == "" ||
					!winver.CompatibleOSVersion(host, img.OSVersion) || len(img.RepoDigests) == 0 || img.Size == 0 {
					t.Errorf("%s: %+v", name, img)
				}
				for _, l := range img.Layers {
					if st, err := os.Stat(l); err != nil || !st.IsDir() {
						t.Errorf("%s: layer %s: %v", name, l, err)
					}
				}
			}
			for _, name := range tt.not {
				if img, err := s.Get(name); err == nil {
					t.Errorf("%s is there: %+v", name, img)
				}
				// The pull says what containerd would.
				if _, err := s.Pull(context.Background(), name, nil); err == nil ||
					!strings.HasSuffix(err.Error(), "no match for platform in manifest: not found") {
					t.Errorf("pull %s: %v", name, err)
				}
			}
		})
	}
}

func TestPullAnswersForStandInsWithoutNetwork(t *testing.T) {
	cache := t.TempDir()
	c := prepare(t, cache, programs(t))
	s := openStore(t, cache, c, find(t, "2019"))
	pull := func(name string) *image.Image {
		t.Helper()
		img, err := s.Pull(context.Background(), name, nil)
		if err != nil {
			t.Fatalf("pull %s: %v", name, err)
		}
		return img
	}
	img := pull("mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2019")
	if !slices.Equal(img.Config.Entrypoint, []string{`C:\ServiceMonitor.exe`, "w3svc"}) {
		t.Errorf("entry point %q", img.Config.Entrypoint)
	}
	if len(img.Layers) != 2 || !strings.HasSuffix(img.Layers[1], "/iis") {
		t.Errorf("layers %q", img.Layers)
	}
	for _, f := range []string{"ServiceMonitor.exe", "inetpub/wwwroot/iisstart.htm"} {
		if _, err := os.Stat(filepath.Join(img.Layers[1], f)); err != nil {
			t.Error(err)
		}
	}
	if a, b := pull("mcr.microsoft.com/windows/servercore:ltsc2019"),
		pull("mcr.microsoft.com/windows/servercore:1809"); a.ID != b.ID {
		t.Errorf("equal stand-ins differ: %s, %s", a.ID, b.ID)
	}
	if a, b := pull("registry.k8s.io/pause:3.9"), pull("k8s.gcr.io/pause:3.9"); a.ID != b.ID || len(b.RepoTags) != 2 {
		t.Errorf("pause: %v, %v", a, b)
	}
}

// TestInstallAfterAChangeOfPrograms: names move to the new stand-ins, the old
// ones go, and an application image gets the new base.
func TestInstallAfterAChangeOfPrograms(t *testing.T) {
	cache, dir, host := t.TempDir(), t.TempDir(), find(t, "2019")
	const name = "mcr.microsoft.com/windows/servercore:ltsc2019"
	var ids, bases []string
	for _, text := range []string{"one", "two"} {
		p := programs(t)
		if err := os.WriteFile(p.Winbox, []byte("MZ "+text), 0o755); err != nil {
			t.Fatal(err)
		}
		c := prepare(t, cache, p)
		s, err := image.Open(dir, image.Config{HostBuild: host, StandIns: c, ExternalDir: cache, UID: -1, GID: -1})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // again changes nothing
			if _, err := standin.Install(t.Context(), s, c, host); err != nil {
				t.Fatal(err)
			}
		}
		img, err := s.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, img.ID)
		if text == "one" {
			built, err := imagebuild.Build(imagebuild.Spec{Build: host, Base: "servercore",
				Layers: []imagebuild.Layer{{Entries: []imagebuild.Entry{{Path: "app.txt"}}}}})
			if err != nil {
				t.Fatal(err)
			}
			var archive bytes.Buffer
			if err := imagebuild.WriteLayout(&archive,
				map[string]*imagebuild.Image{"example.com/app:1": built}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Load(t.Context(), &archive); err != nil {
				t.Fatal(err)
			}
		}
		app, err := s.Get("example.com/app:1")
		if err != nil {
			t.Fatal(err)
		}
		bases = append(bases, app.Layers[0])
		for _, img := range s.List() {
			if img.StandIn && len(img.RepoTags) == 0 {
				t.Errorf("%s has no name left", img.ID)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if ids[0] == ids[1] || bases[0] == bases[1] {
		t.Errorf("images %q, bases %q: the change does not show", ids, bases)
	}
}
