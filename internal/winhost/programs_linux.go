// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/agent"
)

// programs are the Windows executables of a host: the file in Config.Bin and
// the place on C:.
func programs() []struct{ file, path string } {
	const cni = `C:\Program Files\containerd\cni\bin`
	return []struct{ file, path string }{
		{"mullion.exe", agent.ProgramDir + `\mullion.exe`},
		{"kubelet.exe", agent.ProgramDir + `\kubelet.exe`},
		{"kube-proxy.exe", agent.ProgramDir + `\kube-proxy.exe`},
		{"win-bridge.exe", cni + `\win-bridge.exe`},
		{"host-local.exe", cni + `\host-local.exe`},
	}
}

// installPrograms binds the programs to their places, so that they cost no disk
// and all hosts share their pages in memory.
// Preconditions: the prefix is mounted.
func installPrograms() error {
	for _, p := range programs() {
		target := onDisk(p.path)
		err := makeTarget(target, false)
		if err == nil {
			err = unix.Mount(filepath.Join(binDir, "windows", p.file), target, "", unix.MS_BIND, "")
		}
		if err != nil {
			return fmt.Errorf("install %s: %w", p.file, err)
		}
	}
	return nil
}
