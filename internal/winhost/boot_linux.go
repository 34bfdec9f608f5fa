// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

package winhost

import (
	"path/filepath"

	"github.com/mullion-k8s/mullion/internal/agent"
	"github.com/mullion-k8s/mullion/internal/cri/server"
	"github.com/mullion-k8s/mullion/internal/host"
	"github.com/mullion-k8s/mullion/internal/standin"
	"github.com/mullion-k8s/mullion/internal/wine"
)

// Where things lie inside of a host, after pivot_root.
const (
	nodeDir    = "/node"        // Config.Dir, writable
	cacheDir   = "/cache"       // Config.Cache, read-only
	binDir     = "/opt/mullion" // Config.Bin, read-only
	prefixDir  = "/prefix"      // the Wine prefix
	netnsDir   = "/run/netns"   // HCN namespaces
	imagesDir  = "/node/claims" // disks of volumes, see host.Volumes
	machineDir = "/run/machine" // the machine's resolv.conf and hosts, for pulling images
	podsCgroup = "/pods"        // parent of all containers' cgroups
	viewsDir   = "/hpc"         // views of HostProcess containers; shared with wineserver's mount namespace
	socketsDir = "/run/user"    // of wineserver
	bootFile   = "/run/boot.json"
	// certsDir holds CA certificates of registries: the machine's, see describeRoot.
	certsDir = machineDir + "/certs.d"
)

// boot is the document that the parent sends to init.
type boot struct {
	host.Boot
	Config Config `json:"config"`
	// BootID is new at each boot.
	BootID string `json:"bootID"`
	// Runtime and Prefix are Wine's runtime and the prefix template, as names
	// inside of the cache.
	Runtime string `json:"runtime"`
	Prefix  string `json:"prefix"`
	// StandIns is the directory of the stand-in images in the cache.
	StandIns string `json:"standIns"`
	// Environ holds the machine's proxy settings, for pulling images.
	Environ []string `json:"environ,omitempty"`
	// Ceilings of each pod; init sees neither the machine's memory nor its disk.
	Ceilings server.Ceilings `json:"ceilings"`
}

// hostDisk returns the host's C:.
func hostDisk() agent.Disk { return agent.Disk{Root: filepath.Join(prefixDir, "drive_c")} }

// onDisk is where a path on C: lies in the host's root.
func onDisk(windows string) string { return hostDisk().Path(windows) }

// wineHost is Wine of the host's own programs.
func wineHost(b boot) wine.Host {
	return wine.Host{Runtime: filepath.Join(cacheDir, b.Runtime), Prefix: prefixDir}
}

// programsOf returns the executables that stand-in images consist of.
func programsOf(bin string) standin.Programs {
	return standin.Programs{
		Winbox:     filepath.Join(bin, "windows", "winbox.exe"),
		PowerShell: filepath.Join(bin, "windows", "powershell.exe"),
	}
}
