// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package server

import (
	"os"
	"path/filepath"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestLogFollowsNoLink: what a program of the host puts in the place of a log
// leads nowhere.
func TestLogFollowsNoLink(t *testing.T) {
	l := newLab(t)
	config := sandboxConfig("web")
	sb := l.runSandbox(config)
	target := filepath.Join(t.TempDir(), "target")
	must(t, os.WriteFile(target, []byte("whole"), 0o644))
	id := l.create(sb, containerConfig("c", "echo", "x"))
	c, err := l.store.Containers.Get(id)
	must(t, err)
	must(t, os.Symlink(target, c.LogPath))
	if _, err := l.Runtime.StartContainer(t.Context(), &runtime.StartContainerRequest{ContainerId: id}); err == nil {
		t.Error("the container has started")
	}
	// And its directory, after it was found.
	id = l.create(sb, containerConfig("d", "echo", "x"))
	c, err = l.store.Containers.Get(id)
	must(t, err)
	dir := filepath.Dir(c.LogPath)
	must(t, os.Rename(dir, dir+".away"))
	must(t, os.Symlink(filepath.Dir(target), dir))
	l.startContainerOK(id)
	l.wait(id)
	if _, err := os.Stat(filepath.Join(filepath.Dir(target), "0.log")); err == nil {
		t.Error("a log in another place")
	}
	if data, err := os.ReadFile(target); err != nil || string(data) != "whole" {
		t.Errorf("%q, %v", data, err)
	}
}
