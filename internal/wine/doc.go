// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package wine runs the Windows programs of emulated hosts and containers with
// Debian's Wine, which tools/debroot unpacks.
//
// # Directories
//
// OpenRuntime collects the parts of Wine that server programs need in a separate
// directory (as hard links), together with the DLLs of native/: some replace
// Wine's modules (iphlpapi, pdh, ws2_32), some are missing from Wine
// (computenetwork, vmcompute), and winemend.dll is loaded into every Windows
// process by an import that is added to the runtime's copy of kernelbase.dll. No
// DLL override and no WINEDLLPATH is needed: inside a runtime these are Wine's own
// modules.
//
// Two kinds of template are derived from a runtime, one of each per Windows
// build: HostPrefix (a WINEPREFIX) and ContainerRoot (the content of drive C: and,
// apart from it, a root directory with the rest of the prefix). All these directories are in the cache
// directory, under names that contain a hash of the files of Wine and of this
// project. They are built on first use, under a lock and with a final rename, and
// never modified afterwards: mount an overlay over them.
//
// # Running a program in a host
//
// Host holds the paths at which the host sees the runtime and an overlay of its
// prefix. The current directory of each Wine process must be below the prefix's
// drive_c, because there is no drive Z:.
//
//	h := wine.Host{Runtime: rt.Dir, Prefix: "/prefix"}
//	cmd := exec.Command(h.Argv(`C:\Program Files\mullion\mullion.exe`, "agent", "run")[0], …)
//	cmd.Env, cmd.Dir = h.Env(), "/prefix/drive_c"
//
// The computer's name is the host's UTS name at the start of its wineserver.
// Wine's services end a few seconds after the last ordinary program.
//
// # Running a program in a container
//
// Mount two overlays: the container's root directory from LinuxLayers, and drive
// C: from ContainerLayers, the image's layers and AccountLayer, at ContainerDrive
// in the root. Give the root of drive C:'s writable layer and the directory behind
// StatusDir to ContainerUID and ContainerGID, and use the result of
// ContainerProcess as the OCI process: no capabilities, noNewPrivileges, own PID,
// mount, IPC and UTS namespaces. Mounts that a container needs: /proc, /dev (null,
// zero, full, random, urandom, tty, shm and pts), /etc/resolv.conf and /etc/hosts,
// and StatusDir (a directory of the CRI server, writable for the container).
//
// PID 1 is InitPath (see package launch). The CRI server
//
//   - starts: runc runs the process. The status file appears when the program
//     has ended, or at once, with an Error, if it could not be started. If init
//     itself dies, no file appears, and runc's exit status is used.
//   - stops: SIGTERM to the container (`runc kill ID TERM`) reaches every
//     program in it as CTRL_SHUTDOWN_EVENT; after the grace period SIGKILL.
//   - executes: `runc exec` with a Process whose Exec is set and whose Status
//     name is unique. Killing runc's child ends the program.
//   - reads exit codes with launch.ReadStatus; runc's own code has eight bits.
//
// # Fidelity
//
// docs/fidelity/wine.md lists the differences from Windows.
package wine
