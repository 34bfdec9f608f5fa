// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mullion-k8s/mullion/internal/cri/image"
	"github.com/mullion-k8s/mullion/internal/cri/store"
)

// TestCommand follows the table of containerd's
// internal/cri/opts/spec_windows_test.go.
func TestCommand(t *testing.T) {
	for _, tt := range []struct {
		name                string
		entrypoint, cmd     []string
		escaped             bool
		podCommand, podArgs []string
		args                []string
		line                string
		fails               bool
	}{
		{name: "image alone", entrypoint: []string{"a", "b"}, cmd: []string{"c"}, args: []string{"a", "b", "c"}},
		{name: "pod's args", entrypoint: []string{"a"}, cmd: []string{"c"}, podArgs: []string{"d"},
			args: []string{"a", "d"}},
		{name: "pod's command drops the image's args", entrypoint: []string{"a"}, cmd: []string{"c"},
			podCommand: []string{"x"}, args: []string{"x"}},
		{name: "both", entrypoint: []string{"a"}, cmd: []string{"c"}, podCommand: []string{"x"}, podArgs: []string{"y"},
			args: []string{"x", "y"}},
		{name: "cmd only", cmd: []string{"c", "d"}, args: []string{"c", "d"}},
		{name: "nothing", fails: true},
		{name: "escaped entrypoint", entrypoint: []string{`cmd /S /C echo "a  b"`}, escaped: true,
			args: []string{`cmd /S /C echo "a  b"`}, line: `cmd /S /C echo "a  b"`},
		{name: "escaped, with args", entrypoint: []string{`cmd /S /C echo`}, escaped: true,
			podArgs: []string{"a b", `c"d`}, args: []string{`cmd /S /C echo`, "a b", `c"d`},
			line: `cmd /S /C echo "a b" c\"d`},
		{name: "escaped cmd", cmd: []string{`cmd /S /C echo hi`}, escaped: true, args: []string{`cmd /S /C echo hi`},
			line: `cmd /S /C echo hi`},
		{name: "escaped image, pod's command", entrypoint: []string{"a b"}, escaped: true,
			podCommand: []string{"x y", "z"}, args: []string{"x y", "z"}},
		{name: "escaped cmd replaced by args", cmd: []string{`a b`}, escaped: true, podArgs: []string{"x y"},
			args: []string{"x y"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			img := v1.Config{Entrypoint: tt.entrypoint, Cmd: tt.cmd, ArgsEscaped: tt.escaped} // what old images have
			args, line, err := command(&runtime.ContainerConfig{Command: tt.podCommand, Args: tt.podArgs}, img)
			if (err != nil) != tt.fails || !slices.Equal(args, tt.args) || line != tt.line {
				t.Errorf("%q, %q, %v", args, line, err)
			}
		})
	}
}

func TestUserName(t *testing.T) {
	config := func(container, pod string) (*runtime.ContainerConfig, *runtime.PodSandboxConfig) {
		return &runtime.ContainerConfig{
				Windows: &runtime.WindowsContainerConfig{SecurityContext: &runtime.WindowsContainerSecurityContext{
					RunAsUsername: container}}},
			&runtime.PodSandboxConfig{
				Windows: &runtime.WindowsPodSandboxConfig{SecurityContext: &runtime.WindowsSandboxSecurityContext{
					RunAsUsername: pod}}}
	}
	for _, tt := range []struct{ container, pod, image, want string }{
		{"", "", "", ""}, {"", "", "ContainerUser", "ContainerUser"}, {"", "p", "i", "p"}, {"c", "p", "i", "c"},
	} {
		c, p := config(tt.container, tt.pod)
		if got := userName(c, p, v1.Config{User: tt.image}); got != tt.want {
			t.Errorf("%+v: %s", tt, got)
		}
	}
}

func TestNames(t *testing.T) {
	tags := []string{"docker.io/microsoft/iis:latest", "mcr.microsoft.com/windows/servercore:ltsc2019"}
	for in, want := range map[string]string{
		"mcr.microsoft.com/windows/servercore:ltsc2019": tags[1], "microsoft/iis": tags[0],
		"sha256:" + strings.Repeat("a", 64): tags[0], "": tags[0],
	} {
		if got := nameOf(&runtime.ImageSpec{UserSpecifiedImage: in, Image: "sha256:x"}, tags); got != want {
			t.Errorf("%q: %s", in, got)
		}
	}
	img := &image.Image{ID: "sha256:i", RepoDigests: []string{"docker.io/microsoft/iis@sha256:1",
		"localhost:5000/x@sha256:2"}}
	for in, want := range map[string]string{"localhost:5000/x:tag": img.RepoDigests[1],
		"localhost:5000/x": img.RepoDigests[1], "other": img.RepoDigests[0]} {
		if got := digestOf(&runtime.ImageSpec{Image: in}, img); got != want {
			t.Errorf("%q: %s", in, got)
		}
	}
	if got := digestOf(&runtime.ImageSpec{Image: "x"}, &image.Image{ID: "sha256:i"}); got != "sha256:i" {
		t.Error(got)
	}
}

// FuzzConfig: no configuration makes the planning of a container panic, and
// none opens a way out of its directory.
func FuzzConfig(f *testing.F) {
	f.Add("cmd", "/c", "A=b", "A", "v", "ContainerUser", `C:\x`, `\var\log`, "c/0.log")
	f.Add("", "", "=", "=", "\x00", `\`, `..\..`, `\\.\pipe\x`, `..\..\..\etc`)
	f.Fuzz(func(t *testing.T, cmd, arg, imageEnv, key, value, user, dir, logDir, logPath string) {
		s := &Server{cfg: Config{Engine: linuxEngine{}, Drive: t.TempDir()}, log: nil}
		config := &runtime.ContainerConfig{
			Command:    []string{cmd},
			Args:       []string{arg},
			WorkingDir: dir,
			LogPath:    logPath,
			Envs:       []*runtime.KeyValue{{Key: key, Value: []byte(value)}},
			Windows: &runtime.WindowsContainerConfig{SecurityContext: &runtime.WindowsContainerSecurityContext{
				RunAsUsername: user}},
		}
		sandbox := store.Sandbox{Config: &runtime.PodSandboxConfig{LogDirectory: logDir}}
		_, _ = s.mainProcess(&store.Container{Config: config}, sandbox, v1.Config{Env: []string{imageEnv}})
		if name, err := s.logPath(sandbox.Config, config); err == nil && name != "" &&
			!strings.HasPrefix(name, s.cfg.Drive+"/") {
			t.Errorf("log at %s", name)
		}
	})
}
