// SPDX-License-Identifier: Apache-2.0
// Copyright The mullion Authors.

// Package interp runs PowerShell scripts.
//
// A Runner walks the tree of package syntax over the values of package value.
// It touches the world only through its Handlers (programs, files, network,
// environment, registry, clock, standard streams), so that it can be embedded
// and tested; what commands and .NET types exist is given by its Library.
//
// A pipeline streams: each stage hands an object to the next by a call, on one
// goroutine, and a stage that wants no more (Select-Object -First) unwinds to
// the pipeline. Native programs run beside it and are read line by line.
//
// Errors follow PowerShell's three kinds: a non-terminating error is written
// to the error stream; a statement-terminating one ends its statement, or goes
// to the innermost try; a script-terminating one (throw, -ErrorAction Stop)
// unwinds until something catches it.
//
// What the subset lacks is reported as an error that names it and points at
// docs/fidelity/pwsh.md; nothing is silently ignored. No script can panic the
// program: depth, and sizes of what operators build, are bounded.
//
// A Runner is not safe for concurrent use.
//
// Sources, read 2026-11: the Windows PowerShell Language Specification,
// https://learn.microsoft.com/powershell/scripting/lang-spec/chapter-01, and the
// about_ pages named beside the code,
// https://learn.microsoft.com/powershell/module/microsoft.powershell.core/about/.
package interp
