// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package wine makes the machine's Wine into the engine of emulated Windows
// hosts and containers.
//
// # What it builds
//
// OpenRuntime copies the parts of the distribution's Wine that server programs
// need into a directory of its own (hard links), together with the DLLs of
// native/: some take the place of Wine's modules (pdh, ws2_32), some are absent
// from Wine (bcryptprimitives, computenetwork, vmcompute), and winemend.dll is
// loaded into every Windows process by an import that is added to the runtime's
// copy of kernelbase.dll. No DLL override and no WINEDLLPATH is needed: inside of
// a runtime these are Wine's own modules.
//
// From a runtime come two kinds of template, one of each for a Windows build:
// HostPrefix (a WINEPREFIX) and ContainerRoot (a root directory that is drive
// C:, with the prefix in /.wine). All four live in the cache directory under
// names that hold a hash of Wine's and our files, are built on first use, under a
// lock and with a final rename, and are never written to again: put an overlay
// over them.
//
// # Running a program in a host
//
// The host sees the runtime and an overlay of its prefix somewhere, and says
// where with Host. The current directory of each Wine process must lie below
// the prefix's drive_c, because there is no drive Z:.
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
// Mount an overlay with ContainerLayers lowest, give the writable layer's root
// and the directory behind StatusDir to ContainerUID and ContainerGID, and use
// what ContainerProcess returns as the OCI process: no capabilities,
// noNewPrivileges, own PID, mount, IPC and UTS namespaces. Mounts that a
// container needs: /proc, /dev (null, zero, full, random, urandom, tty, shm and
// pts), /etc/resolv.conf and /etc/hosts, and StatusDir (a directory of the CRI
// server, writable for the container).
//
// PID 1 is InitPath (package launch says what it does). The CRI server
//
//   - starts: runc runs the process. The status file appears when the program
//     has ended, or at once, with an Error, if it could not be started. If init
//     itself dies no file appears, and runc's status counts.
//   - stops: SIGTERM to the container (`runc kill ID TERM`) reaches every
//     program in it as CTRL_SHUTDOWN_EVENT; after the grace period SIGKILL.
//   - executes: `runc exec` with a Process whose Exec is set and whose Status
//     name is its own. Killing runc's child ends the program.
//   - reads exit codes with launch.ReadStatus; runc's own has eight bits.
//
// # Fidelity
//
// docs/fidelity/wine.md lists what differs from Windows.
package wine
