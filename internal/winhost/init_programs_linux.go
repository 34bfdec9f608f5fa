// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/netplane/fabric"
	"github.com/mullion-k8s/mullion/internal/standin"
	"github.com/mullion-k8s/mullion/internal/wine"
)

// installFiles puts everything onto the host's C: that Wine's prefix lacks.
// Preconditions: the prefix is mounted, and no program runs in it.
func installFiles(b boot) error {
	if err := errors.Join(installPrograms(b.Config), installTools(wineHost(b)),
		installNetwork(b.Config)); err != nil {
		return err
	}
	return installAgent(b)
}

// installNetwork writes the host's network into the registry, where programs of
// Windows look for it.
func installNetwork(c Config) error {
	uplink, err := net.InterfaceByName(fabric.Uplink)
	if err != nil {
		return fmt.Errorf("find uplink: %w", err)
	}
	return wine.Network{
		Index:     uplink.Index,
		Adapter:   "vEthernet (Ethernet)",
		Addresses: []netip.Prefix{c.Address},
		Gateway:   c.Gateway,
		Servers:   []string{c.Nameserver.String()},
	}.WriteHost(prefixDir)
}

// programs are the Windows executables of a host: the file in Config.Bin and
// the place on C:.
func programs(c Config) []struct{ file, path string } {
	const cni = `C:\Program Files\containerd\cni\bin`
	list := []struct{ file, path string }{
		{"mullion.exe", agent.ProgramDir + `\mullion.exe`},
		{"kubelet.exe", agent.ProgramDir + `\kubelet.exe`},
		{"kube-proxy.exe", agent.ProgramDir + `\kube-proxy.exe`},
		{"win-bridge.exe", cni + `\win-bridge.exe`},
		{"host-local.exe", cni + `\host-local.exe`},
	}
	if !c.IPv6.IsZero() {
		list = append(list, struct{ file, path string }{"mullion-bridge.exe", cni + `\mullion-bridge.exe`})
	}
	if c.Network.Flannel() {
		list = append(list, []struct{ file, path string }{
			{"flanneld.exe", agent.ProgramDir + `\flanneld.exe`},
			{"flannel.exe", cni + `\flannel.exe`},
			{"win-overlay.exe", cni + `\win-overlay.exe`},
		}...)
	}
	return list
}

// tools are the programs of Windows itself that Wine lacks or has as a stub,
// the same ones as in the stand-in images, and hnsdiag, which comes with the
// feature Containers: administrators and host process containers call them.
func tools() []struct{ file, name, dir string } {
	list := []struct {
		file, name,
		dir string
	}{{"powershell.exe", "powershell.exe", `C:\windows\system32\WindowsPowerShell\v1.0`}}
	for _, name := range append(standin.Tools(), "hnsdiag") {
		list = append(list, struct{ file, name, dir string }{"winbox.exe", name + ".exe", `C:\windows\system32`})
	}
	return list
}

// installTools binds them over Wine's own.
func installTools(h wine.Host) error {
	for _, t := range tools() {
		source := filepath.Join(binDir, "windows", t.file)
		targets := []string{onDisk(t.dir + `\` + t.name)}
		if _, err := os.Stat(h.Module(t.name)); err == nil {
			targets = append(targets, h.Module(t.name))
		}
		for _, target := range targets {
			err := host.MakeTarget(target, false)
			if err == nil {
				err = unix.Mount(source, target, "", unix.MS_BIND, "")
			}
			if err != nil {
				return fmt.Errorf("install %s: %w", t.name, err)
			}
		}
	}
	return nil
}

// installPrograms binds the programs to their places, so that they cost no disk
// and all hosts share their pages in memory.
// Preconditions: the prefix is mounted.
func installPrograms(c Config) error {
	for _, p := range programs(c) {
		target := onDisk(p.path)
		err := host.MakeTarget(target, false)
		if err == nil {
			err = unix.Mount(filepath.Join(binDir, "windows", p.file), target, "", unix.MS_BIND, "")
		}
		if err != nil {
			return fmt.Errorf("install %s: %w", p.file, err)
		}
	}
	return nil
}
