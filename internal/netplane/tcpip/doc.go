// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package tcpip is the part of an emulated host's TCP/IP stack that programs can
// change: its routing table and the settings of its adapters. Wine's functions
// for that report success without effect, and no program of a host may change the
// kernel's routes anyway. native/iphlpapi brings the calls here, by the protocol of
// server.go.
//
// A route that is accepted is in the file of the service, and then part of the
// network that the data plane applies (Joint). After a reboot of the host the
// table holds the persistent routes only. These are in the registry, as on Windows,
// where programs write them.
//
// Rules and error codes: https://learn.microsoft.com/windows/win32/api/netioapi/
// (CreateIpForwardEntry2 and the like) and /api/iphlpapi/ (CreateIpForwardEntry),
// read 2026-11. docs/fidelity/winhost.md lists the differences.
package tcpip
